// What a container cannot be made from although its config.json is well formed: settings that contradict
// one another. The sentences are runc's, which engines show to people and suites compare.
#include <algorithm>
#include <array>

#include "oci-spec/config.h"

namespace leash::oci {

namespace {

Error invalid(std::string text) { return Error(EINVAL, std::move(text)); }
std::string in_quotes(std::string_view text) { return '"' + std::string(text) + '"'; }

Result<void> check_namespaces(const Linux& config) {
  for (auto entry = config.namespaces.begin(); entry != config.namespaces.end(); ++entry) {
    if (!entry->path.empty() && entry->path[0] != '/') {
      return invalid("namespace path " + in_quotes(entry->path) + " is not absolute");
    }
    auto same = [&](const Namespace& other) { return other.type == entry->type; };
    if (std::any_of(config.namespaces.begin(), entry, same)) {
      return invalid("malformed spec file: duplicated ns {" + in_quotes(to_string(entry->type)) + " " + in_quotes(entry->path) + "}");
    }
  }
  return {};
}

Result<void> check_user_namespace(const Linux& config) {
  const Namespace* user = config.find_namespace(NamespaceType::kUser);
  bool has_mappings = !config.uid_mappings.empty() || !config.gid_mappings.empty();
  if (user == nullptr) {
    if (has_mappings) return invalid("user namespace mappings specified, but user namespace isn't enabled in the config");
    return {};
  }
  if (user->path.empty() && (config.uid_mappings.empty() || config.gid_mappings.empty())) {
    return invalid("user namespaces enabled, but no user mappings found");
  }
  return {};
}

Result<void> check_time_namespace(const Linux& config) {
  if (!config.time_offset_monotonic && !config.time_offset_boottime) return {};
  const Namespace* time = config.find_namespace(NamespaceType::kTime);
  if (time == nullptr) return invalid("time namespace offsets specified, but time namespace isn't enabled in the config");
  if (!time->path.empty()) return invalid("time namespace enabled, but both namespace path and time offsets specified -- you may only provide one");
  return {};
}

// Only what belongs to a namespace of the container may be set: anything else is the host's.
Result<void> check_sysctls(const Linux& config) {
  static constexpr std::array<std::string_view, 8> kIpcSysctls = {
      "kernel.msgmax", "kernel.msgmnb", "kernel.msgmni", "kernel.sem",
      "kernel.shmall", "kernel.shmmax", "kernel.shmmni", "kernel.shm_rmid_forced"};
  auto has = [&](NamespaceType type) { return config.find_namespace(type) != nullptr; };
  for (const auto& [name, value] : config.sysctl) {
    // sysctl.d(5): the separator is the first of '.' and '/' that occurs; the other then stands for itself
    // ("net/ipv4/conf/eth0.100/forwarding").
    std::string dots = name;
    size_t separator = name.find_first_of("./");
    if (separator != std::string::npos && name[separator] == '/') {
      for (char& c : dots) c = c == '/' ? '.' : c == '.' ? '/' : c;
    }
    if (dots.empty() || dots.front() == '.' || dots.back() == '.' || dots.find("..") != std::string::npos ||
        name.find("..") != std::string::npos) {
      return invalid("sysctl " + in_quotes(name) + " is not a valid name");
    }
    bool is_ipc = std::find(kIpcSysctls.begin(), kIpcSysctls.end(), dots) != kIpcSysctls.end() || dots.starts_with("fs.mqueue.");
    if (is_ipc) {
      if (!has(NamespaceType::kIpc)) return invalid("sysctl " + in_quotes(dots) + " is not allowed in the hosts ipc namespace");
    } else if (dots.starts_with("net.")) {
      if (!has(NamespaceType::kNetwork)) return invalid("sysctl " + in_quotes(dots) + " not allowed in host network namespace");
    } else if (dots == "kernel.domainname" && has(NamespaceType::kUts)) {
      continue;
    } else if (dots == "kernel.hostname" && has(NamespaceType::kUts)) {
      return invalid("sysctl " + in_quotes(dots) + " conflicts with the OCI \"hostname\" field");
    } else if (dots.starts_with("user.") && has(NamespaceType::kUser)) {
      continue;
    } else {
      return invalid("sysctl " + in_quotes(dots) + " is not in a separate kernel namespace");
    }
  }
  return {};
}

// Names as dev_valid_name of the kernel takes them, and no way to break a log line.
bool is_interface_name(std::string_view name) {
  if (name.empty() || name.size() > 15 || name == "." || name == "..") return false;
  return std::none_of(name.begin(), name.end(), [](unsigned char c) { return c == '/' || c == ':' || c == '%' || c <= ' ' || c == 0x7f; });
}

Result<void> check_net_devices(const Linux& config) {
  if (config.net_devices.empty()) return {};
  if (config.find_namespace(NamespaceType::kNetwork) == nullptr) {
    return invalid("unable to move network devices without a private NET namespace");
  }
  for (const NetDevice& device : config.net_devices) {
    for (const std::string& name : {device.host_name, device.name.empty() ? device.host_name : device.name}) {
      if (!is_interface_name(name)) return invalid("invalid network device name " + in_quotes(name));
    }
  }
  return {};
}

Result<void> check_mounts(const std::vector<Mount>& mounts) {
  for (const Mount& mount : mounts) {
    if (mount.destination.empty()) return invalid("mount destination must not be empty");
    if (mount.uid_mappings.empty() != mount.gid_mappings.empty()) {
      return invalid("invalid mount to " + in_quotes(mount.destination) + ": both uidMappings and gidMappings must be specified");
    }
  }
  return {};
}

Result<void> check_hooks(const Hooks& hooks) {
  for (const auto* list : {&hooks.prestart, &hooks.create_runtime, &hooks.create_container, &hooks.start_container,
                           &hooks.poststart, &hooks.poststop}) {
    for (const Hook& hook : *list) {
      if (hook.path.empty() || hook.path[0] != '/') return invalid("hook path " + in_quotes(hook.path) + " is not absolute");
    }
  }
  return {};
}

Result<void> check_linux(const Config& config) {
  const Linux& linux_part = config.linux;
  auto has = [&](NamespaceType type) { return linux_part.find_namespace(type) != nullptr; };
  TRY_VOID(check_namespaces(linux_part));
  if (!config.hostname.empty() && !has(NamespaceType::kUts)) {
    return invalid("unable to set hostname without a private UTS namespace");
  }
  if (!config.domainname.empty() && !has(NamespaceType::kUts)) {
    return invalid("unable to set domainname without a private UTS namespace");
  }
  if ((!linux_part.masked_paths.empty() || !linux_part.readonly_paths.empty()) && !has(NamespaceType::kMount)) {
    return invalid("unable to restrict sys entries without a private MNT namespace");
  }
  TRY_VOID(check_user_namespace(linux_part));
  TRY_VOID(check_time_namespace(linux_part));
  TRY_VOID(check_sysctls(linux_part));
  TRY_VOID(check_net_devices(linux_part));
  if (linux_part.intel_rdt && (linux_part.intel_rdt->clos_id == "info" || linux_part.intel_rdt->clos_id == "mon_data" || linux_part.intel_rdt->clos_id == "mon_groups")) {
    return invalid("invalid intelRdt.closID " + in_quotes(linux_part.intel_rdt->clos_id));
  }
  return {};
}

Result<void> check_scheduler(const Scheduler& scheduler) {
  bool is_fair = scheduler.policy == "SCHED_OTHER" || scheduler.policy == "SCHED_BATCH";
  bool is_realtime = scheduler.policy == "SCHED_FIFO" || scheduler.policy == "SCHED_RR";
  if (is_fair && (scheduler.nice < -20 || scheduler.nice > 19)) {
    return invalid("invalid scheduler.nice: " + std::to_string(scheduler.nice));
  }
  if (scheduler.priority != 0 && !is_realtime) {
    return invalid("scheduler.priority can only be specified for SchedFIFO or SchedRR policy");
  }
  if (scheduler.policy != "SCHED_DEADLINE" && (scheduler.runtime != 0 || scheduler.deadline != 0 || scheduler.period != 0)) {
    return invalid("scheduler runtime/deadline/period can only be specified for SchedDeadline policy");
  }
  return {};
}

// (uid_t)-1 means "leave it as it is" to setresuid(2): such a process would stay root.
Result<void> check_user(const User& user) {
  constexpr uint32_t kHighest = 0x7fffffff;
  const auto is_too_high = [](uint32_t number) { return number > kHighest; };
  if (is_too_high(user.uid) || is_too_high(user.gid) || std::any_of(user.additional_gids.begin(), user.additional_gids.end(), is_too_high)) {
    return invalid("unable to setup user: uids and gids must be in range 0-2147483647");
  }
  return {};
}

}  // namespace

Result<void> validate_process(const Process& process) {
  if (process.cwd.empty()) return invalid("Cwd property must not be empty");
  if (process.cwd[0] != '/') return invalid("Cwd must be an absolute path");
  if (process.args.empty()) return invalid("args must not be empty");
  TRY_VOID(check_user(process.user));
  if (process.scheduler) TRY_VOID(check_scheduler(*process.scheduler));
  if (process.io_priority && (process.io_priority->priority < 0 || process.io_priority->priority > 7)) {
    return invalid("invalid ioPriority.Priority: " + std::to_string(process.io_priority->priority));
  }
  return {};
}

Result<void> validate_for_create(const Config& config) {
  if (!config.process) return invalid("process property must not be empty");
  TRY_VOID(validate_process(*config.process));
  if (config.root.path.empty()) return invalid("root property must not be empty");
  TRY_VOID(check_mounts(config.mounts));
  TRY_VOID(check_hooks(config.hooks));
  return check_linux(config);
}

}  // namespace leash::oci
