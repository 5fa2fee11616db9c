// One function per object of config.json, in the order of config.md and config-linux.md.
#include "oci-spec/config.h"

#include <array>

#include "oci-spec/json.h"

namespace leash::oci {

namespace {

using json::Reader;
using Words = std::string_view;

constexpr std::array kNamespaceWords = {Words("mount"), Words("pid"),  Words("network"), Words("uts"),
                                        Words("ipc"),   Words("user"), Words("cgroup"),  Words("time")};
constexpr std::array kSchedulerPolicies = {Words("SCHED_OTHER"), Words("SCHED_FIFO"), Words("SCHED_RR"),
                                           Words("SCHED_BATCH"), Words("SCHED_ISO"),  Words("SCHED_IDLE"),
                                           Words("SCHED_DEADLINE")};
constexpr std::array kIoClasses = {Words("IOPRIO_CLASS_RT"), Words("IOPRIO_CLASS_BE"), Words("IOPRIO_CLASS_IDLE")};
constexpr std::array kPropagations = {Words(""),  // Docker writes it: as absent
                                      Words("private"),  Words("shared"),  Words("slave"),  Words("unbindable"),
                                      Words("rprivate"), Words("rshared"), Words("rslave"), Words("runbindable")};
constexpr std::array kPersonalities = {Words("LINUX"), Words("LINUX32")};
constexpr std::array kMemoryPolicyModes = {
    Words("MPOL_DEFAULT"),   Words("MPOL_BIND"),           Words("MPOL_INTERLEAVE"), Words("MPOL_WEIGHTED_INTERLEAVE"),
    Words("MPOL_PREFERRED"), Words("MPOL_PREFERRED_MANY"), Words("MPOL_LOCAL")};
constexpr std::array kJailVnetWords = {Words("new"), Words("inherit")};

std::string in_quotes(std::string_view text) { return '"' + std::string(text) + '"'; }

bool only_of(std::string_view text, std::string_view characters) {
  return text.find_first_not_of(characters) == std::string_view::npos;
}

// ---- process ----

void read_id_mapping(Reader& reader, IdMapping& mapping) {
  reader.require("containerID", mapping.container_id);
  reader.require("hostID", mapping.host_id);
  reader.require("size", mapping.size);
}

void read_user(Reader& reader, User& user) {
  reader.get("uid", user.uid);
  reader.get("gid", user.gid);
  reader.get("umask", user.umask);
  reader.get("additionalGids", user.additional_gids);
  reader.get("username", user.username);
}

void read_rlimit(Reader& reader, Rlimit& limit) {
  reader.require("type", limit.type);
  reader.require("soft", limit.soft);
  reader.require("hard", limit.hard);
}

void read_scheduler(Reader& reader, Scheduler& scheduler) {
  if (!reader.get_word("policy", scheduler.policy, kSchedulerPolicies)) reader.missing("policy");
  reader.get("nice", scheduler.nice);
  reader.get("priority", scheduler.priority);
  reader.get("flags", scheduler.flags);
  reader.get("runtime", scheduler.runtime);
  reader.get("deadline", scheduler.deadline);
  reader.get("period", scheduler.period);
}

void read_io_priority(Reader& reader, IoPriority& priority) {
  if (!reader.get_word("class", priority.io_class, kIoClasses)) reader.missing("class");
  reader.get("priority", priority.priority);
}

void read_cpu_list(Reader& reader, const char* key, std::string& out) {
  reader.with(key, [&](Reader& field) {
    field.read(out);
    if (!only_of(out, "0123456789, -")) field.fail(in_quotes(out) + " is not a list of CPUs");
  });
}

void read_capabilities(Reader& reader, Capabilities& sets) {
  reader.get("bounding", sets.bounding);
  reader.get("effective", sets.effective);
  reader.get("permitted", sets.permitted);
  reader.get("inheritable", sets.inheritable);
  reader.get("ambient", sets.ambient);
}

void read_process(Reader& reader, Process& process) {
  reader.get("terminal", process.terminal);
  reader.get_object("consoleSize", process.console_size, [](Reader& object, ConsoleSize& size) {
    object.require("height", size.height);
    object.require("width", size.width);
  });
  reader.with("user", [&](Reader& object) { read_user(object, process.user); });
  reader.get("args", process.args);
  reader.get("env", process.env);
  reader.get("cwd", process.cwd);
  reader.get_object("capabilities", process.capabilities, read_capabilities);
  reader.get_list("rlimits", process.rlimits, read_rlimit);
  reader.get("noNewPrivileges", process.no_new_privileges);
  reader.get("apparmorProfile", process.apparmor_profile);
  reader.get("selinuxLabel", process.selinux_label);
  reader.get("oomScoreAdj", process.oom_score_adj);
  reader.get_object("scheduler", process.scheduler, read_scheduler);
  reader.get_object("ioPriority", process.io_priority, read_io_priority);
  reader.get_object("execCPUAffinity", process.exec_cpu_affinity, [](Reader& object, ExecCpuAffinity& affinity) {
    read_cpu_list(object, "initial", affinity.initial_cpus);
    read_cpu_list(object, "final", affinity.final_cpus);
  });
}

// ---- mounts, hooks ----

void read_mount(Reader& reader, Mount& mount) {
  reader.require("destination", mount.destination);
  reader.get("type", mount.type);
  reader.get("source", mount.source);
  reader.get("options", mount.options);
  reader.get_list("uidMappings", mount.uid_mappings, read_id_mapping);
  reader.get_list("gidMappings", mount.gid_mappings, read_id_mapping);
}

void read_hook(Reader& reader, Hook& hook) {
  reader.require("path", hook.path);
  reader.get("args", hook.args);
  reader.get("env", hook.env);
  reader.with("timeout", [&](Reader& field) {
    field.read(hook.timeout_seconds);
    if (hook.timeout_seconds && *hook.timeout_seconds <= 0) field.fail("must be greater than zero");
  });
}

void read_hooks(Reader& reader, Hooks& hooks) {
  reader.get_list("prestart", hooks.prestart, read_hook);
  reader.get_list("createRuntime", hooks.create_runtime, read_hook);
  reader.get_list("createContainer", hooks.create_container, read_hook);
  reader.get_list("startContainer", hooks.start_container, read_hook);
  reader.get_list("poststart", hooks.poststart, read_hook);
  reader.get_list("poststop", hooks.poststop, read_hook);
}

// ---- linux ----

void read_namespace(Reader& reader, Namespace& entry) {
  std::string word;
  reader.require("type", word);
  reader.get("path", entry.path);
  if (reader.failed()) return;
  for (size_t i = 0; i < kNamespaceWords.size(); ++i) {
    if (kNamespaceWords[i] != word) continue;
    entry.type = static_cast<NamespaceType>(i);
    return;
  }
  reader.fail("namespace {" + in_quotes(word) + " " + in_quotes(entry.path) + "} does not exist");
}

void read_device(Reader& reader, Device& device) {
  std::string type;
  reader.require("type", type);
  reader.require("path", device.path);
  reader.get("major", device.major);
  reader.get("minor", device.minor);
  reader.get("fileMode", device.file_mode);
  reader.get("uid", device.uid);
  reader.get("gid", device.gid);
  if (reader.failed()) return;
  if (type.size() != 1 || !only_of(type, "cbup")) {
    reader.fail("invalid type " + in_quotes(type) + ", must be one of 'c', 'b', 'u', 'p'");
    return;
  }
  device.type = type[0] == 'u' ? 'c' : type[0];
}

// A number, or -1 or nothing for any.
void read_device_number(Reader& reader, const char* key, std::optional<int64_t>& out) {
  reader.with(key, [&](Reader& field) {
    int64_t number = 0;
    field.read(number);
    if (number < -1 || number > 0xffffffffLL) field.fail(std::to_string(number) + " is out of range");
    if (number >= 0) out = number;
  });
}

void read_device_rule(Reader& reader, DeviceRule& rule) {
  std::string type;
  reader.require("allow", rule.allow);
  reader.get("type", type);
  read_device_number(reader, "major", rule.major);
  read_device_number(reader, "minor", rule.minor);
  reader.get("access", rule.access);
  if (reader.failed()) return;
  if (!type.empty()) {
    // runc takes a type of one letter only, and reads "u" as "c".
    if (type.size() != 1 || !only_of(type, "acbu")) return reader.fail("invalid device type " + in_quotes(type));
    rule.type = type[0] == 'u' ? 'c' : type[0];
  }
  if (!only_of(rule.access, "rwm")) return reader.fail("invalid access " + in_quotes(rule.access) + ", must be of 'rwm'");
  if (rule.access.empty()) {
    if (rule.type != 'a') return reader.fail("device access field cannot be empty");
    rule.access = "rwm";
  }
}

void read_throttles(Reader& reader, const char* key, std::vector<BlockIoThrottleDevice>& out) {
  reader.get_list(key, out, [](Reader& item, BlockIoThrottleDevice& device) {
    item.require("major", device.major);
    item.require("minor", device.minor);
    item.get("rate", device.rate);
  });
}

// config-linux.md: "2MB", as the files of the hugetlb controller are called.
void check_page_size(Reader& reader, const std::string& size) {
  bool fits = size.size() >= 3 && size.ends_with('B') && std::string_view("KMG").find(size[size.size() - 2]) != std::string_view::npos &&
              size[0] != '0' && only_of(std::string_view(size).substr(0, size.size() - 2), "0123456789");
  if (!fits) reader.fail("invalid page size " + in_quotes(size));
}

void read_memory(Reader& reader, MemoryResources& memory) {
  reader.get("limit", memory.limit);
  reader.get("reservation", memory.reservation);
  reader.get("swap", memory.swap);
  reader.get("kernel", memory.kernel);
  reader.get("kernelTCP", memory.kernel_tcp);
  reader.with("swappiness", [&](Reader& field) {
    field.read(memory.swappiness);
    // 2^64-1 is what engines write for "not set".
    if (memory.swappiness == ~uint64_t{0}) memory.swappiness.reset();
    if (memory.swappiness && *memory.swappiness > 100) {
      field.fail("invalid memory swappiness value: " + std::to_string(*memory.swappiness) + " (valid range is 0-100)");
    }
  });
  reader.get("disableOOMKiller", memory.disable_oom_killer);
  reader.get("useHierarchy", memory.use_hierarchy);
  reader.get("checkBeforeUpdate", memory.check_before_update);
}

void read_cpu(Reader& reader, CpuResources& cpu) {
  reader.get("shares", cpu.shares);
  reader.get("quota", cpu.quota);
  reader.get("burst", cpu.burst);
  reader.get("period", cpu.period);
  reader.get("realtimeRuntime", cpu.realtime_runtime);
  reader.get("realtimePeriod", cpu.realtime_period);
  reader.get("idle", cpu.idle);
  reader.get("cpus", cpu.cpus);
  reader.get("mems", cpu.mems);
}

void read_block_io(Reader& reader, BlockIoResources& io) {
  reader.get("weight", io.weight);
  reader.get("leafWeight", io.leaf_weight);
  reader.get_list("weightDevice", io.weight_devices, [](Reader& item, BlockIoWeightDevice& device) {
    item.require("major", device.major);
    item.require("minor", device.minor);
    item.get("weight", device.weight);
    item.get("leafWeight", device.leaf_weight);
  });
  read_throttles(reader, "throttleReadBpsDevice", io.throttle_read_bps);
  read_throttles(reader, "throttleWriteBpsDevice", io.throttle_write_bps);
  read_throttles(reader, "throttleReadIOPSDevice", io.throttle_read_iops);
  read_throttles(reader, "throttleWriteIOPSDevice", io.throttle_write_iops);
}

// These become file names below the cgroup: nothing of them may be a path.
void check_file_name(Reader& reader, const std::string& name) {
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos) {
    reader.fail(in_quotes(name) + " must be a file name (no slashes)");
  }
}

void read_resources(Reader& reader, Resources& resources) {
  reader.get_list("devices", resources.devices, read_device_rule);
  reader.with("memory", [&](Reader& object) { read_memory(object, resources.memory); });
  reader.with("cpu", [&](Reader& object) { read_cpu(object, resources.cpu); });
  reader.with("pids", [&](Reader& object) { object.require("limit", resources.pids_limit); });
  reader.with("blockIO", [&](Reader& object) { read_block_io(object, resources.block_io); });
  reader.get_list("hugepageLimits", resources.hugepage_limits, [](Reader& item, HugepageLimit& limit) {
    item.require("pageSize", limit.page_size);
    item.require("limit", limit.limit);
    if (!item.failed()) check_page_size(item, limit.page_size);
  });
  reader.with("network", [&](Reader& object) {
    object.get("classID", resources.network.class_id);
    object.get_list("priorities", resources.network.priorities, [](Reader& item, InterfacePriority& priority) {
      item.require("name", priority.name);
      item.require("priority", priority.priority);
    });
  });
  reader.with("rdma", [&](Reader& object) {
    object.each_field([&](const std::string& key, Reader& field) {
      Rdma& limits = resources.rdma[key];
      field.get("hcaHandles", limits.hca_handles);
      field.get("hcaObjects", limits.hca_objects);
    });
  });
  reader.with("unified", [&](Reader& object) {
    object.read(resources.unified);
    for (const auto& [name, value] : resources.unified) check_file_name(object, name);
  });
}

void read_syscall_rule(Reader& reader, SyscallRule& rule) {
  reader.require("names", rule.names);
  reader.require("action", rule.action);
  reader.get("errnoRet", rule.errno_ret);
  reader.get_list("args", rule.args, [](Reader& item, SyscallArgument& argument) {
    item.require("index", argument.index);
    item.require("value", argument.value);
    item.get("valueTwo", argument.value_two);
    item.require("op", argument.op);
  });
}

void read_seccomp(Reader& reader, Seccomp& seccomp) {
  reader.require("defaultAction", seccomp.default_action);
  reader.get("defaultErrnoRet", seccomp.default_errno_ret);
  reader.get("architectures", seccomp.architectures);
  reader.get("flags", seccomp.flags);
  reader.get("listenerPath", seccomp.listener_path);
  reader.get("listenerMetadata", seccomp.listener_metadata);
  reader.get_list("syscalls", seccomp.syscalls, read_syscall_rule);
}

void read_time_offset(Reader& reader, TimeOffset& offset) {
  reader.get("secs", offset.secs);
  reader.get("nanosecs", offset.nanosecs);
}

void read_net_devices(Reader& reader, std::vector<NetDevice>& devices) {
  reader.each_field([&](const std::string& key, Reader& field) {
    NetDevice device;
    device.host_name = key;
    field.get("name", device.name);
    devices.push_back(std::move(device));
  });
}

void read_linux(Reader& reader, Linux& out) {
  reader.get_list("uidMappings", out.uid_mappings, read_id_mapping);
  reader.get_list("gidMappings", out.gid_mappings, read_id_mapping);
  reader.get_list("namespaces", out.namespaces, read_namespace);
  reader.get_list("devices", out.devices, read_device);
  reader.with("netDevices", [&](Reader& object) { read_net_devices(object, out.net_devices); });
  reader.get("cgroupsPath", out.cgroups_path);
  out.has_resources = reader.with("resources", [&](Reader& object) {
    if (object.is_object()) read_resources(object, out.resources);
  });
  reader.get_object("seccomp", out.seccomp, read_seccomp);
  reader.get("sysctl", out.sysctl);
  reader.get("maskedPaths", out.masked_paths);
  reader.get("readonlyPaths", out.readonly_paths);
  reader.get("mountLabel", out.mount_label);
  reader.get_word("rootfsPropagation", out.rootfs_propagation, kPropagations);
  reader.get_object("personality", out.personality, [](Reader& object, Personality& personality) {
    std::vector<std::string> flags;
    if (!object.get_word("domain", personality.domain, kPersonalities)) object.missing("domain");
    object.get("flags", flags);
    // No flag is defined yet (config-linux.md#personality).
    if (!flags.empty()) object.fail("additional flags are not supported by personality");
  });
  reader.with("timeOffsets", [&](Reader& object) {
    object.get_object("monotonic", out.time_offset_monotonic, read_time_offset);
    object.get_object("boottime", out.time_offset_boottime, read_time_offset);
  });
  reader.get_object("intelRdt", out.intel_rdt, [](Reader& object, IntelRdt& rdt) {
    object.get("closID", rdt.clos_id);
    object.get("schemata", rdt.schemata);
    object.get("l3CacheSchema", rdt.l3_cache_schema);
    object.get("memBwSchema", rdt.mem_bw_schema);
    object.get("enableMonitoring", rdt.enable_monitoring);
    if (!rdt.clos_id.empty()) check_file_name(object, rdt.clos_id);
    if (!rdt.mem_bw_schema.empty() && (!rdt.mem_bw_schema.starts_with("MB:") || rdt.mem_bw_schema.find('\n') != std::string::npos)) {
      object.fail("memBwSchema must be one line that begins with \"MB:\"");
    }
  });
  reader.get_object("memoryPolicy", out.memory_policy, [](Reader& object, MemoryPolicy& policy) {
    if (!object.get_word("mode", policy.mode, kMemoryPolicyModes)) object.missing("mode");
    object.get("nodes", policy.nodes);
    object.get("flags", policy.flags);
  });
}

// ---- the document ----

void read_version(Reader& reader, std::string& version) {
  reader.require("ociVersion", version);
  if (reader.failed()) return;
  // 0.x is before the specification was stable; every 1.x is compatible by its own rules.
  if (version.size() < 2 || (version[0] != '0' && version[0] != '1') || version[1] != '.') {
    reader.fail("unsupported ociVersion " + in_quotes(version) + ", must be 1.x");
  }
}

void read_config(Reader& reader, Config& config) {
  read_version(reader, config.oci_version);
  reader.get_object("process", config.process, read_process);
  reader.with("root", [&](Reader& object) {
    object.require("path", config.root.path);
    object.get("readonly", config.root.readonly);
  });
  reader.get("hostname", config.hostname);
  reader.get("domainname", config.domainname);
  reader.get_list("mounts", config.mounts, read_mount);
  reader.with("hooks", [&](Reader& object) { read_hooks(object, config.hooks); });
  reader.get("annotations", config.annotations);
  reader.with("linux", [&](Reader& object) { read_linux(object, config.linux); });
  // Another system's part is not ours to run, but a document that its schema refuses is not a config.json.
  reader.with("freebsd", [&](Reader& object) {
    object.with("jail", [&](Reader& jail) {
      std::string vnet;
      jail.get_word("vnet", vnet, kJailVnetWords);
    });
  });
}

}  // namespace

std::string_view to_string(NamespaceType type) { return kNamespaceWords[static_cast<size_t>(type)]; }

const Namespace* Linux::find_namespace(NamespaceType type) const {
  for (const Namespace& entry : namespaces) {
    if (entry.type == type) return &entry;
  }
  return nullptr;
}

Result<std::string> replace_environment(std::string_view text, const std::vector<std::string>& env) {
  TRY(json::Value document, json::parse(text));
  if (!document.is_object()) return Error(EINVAL, "document: expected an object");
  if (const auto process = document.find("process"); process != document.end() && process->is_object()) {
    (*process)["env"] = env;
  }
  return document.dump(-1, ' ', false, json::Value::error_handler_t::replace);
}

Result<std::string> redact_environment(std::string_view text) { return replace_environment(text, {}); }

Result<Config> parse_config(std::string_view text) { return json::read<Config>(text, read_config); }
Result<Process> parse_process(std::string_view text) { return json::read<Process>(text, read_process); }
Result<Resources> parse_resources(std::string_view text) { return json::read<Resources>(text, read_resources); }

}  // namespace leash::oci
