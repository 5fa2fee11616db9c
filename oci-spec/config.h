// config.json of a bundle (runtime-spec 1.3, config.md and config-linux.md): what an engine asks for,
// as plain structs, and the parsers for it and for the two parts of it that travel alone: the process
// of `exec --process` and the resources of `update --resources`.
//
// A parsed document is well formed: types, ranges and words of enumerations are right, and what runc
// refuses whatever the host looks like is refused. What depends on the host (does the namespace's path
// exist, is the capability known to this kernel) is found by whoever uses the value. Unknown fields are
// tolerated (config.md#extensibility); a wrong type is an error with its place: `linux.namespaces[2].type`.
//
// std::optional stands where an absent field means something else than the zero value.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace leash::oci {

// config.md#annotations, config-linux.md#sysctl: in the order of the keys.
using StringMap = std::map<std::string, std::string>;

struct IdMapping {
  uint32_t container_id = 0;
  uint32_t host_id = 0;
  uint32_t size = 0;
};

// ---- process ----

struct ConsoleSize {
  uint64_t height = 0;
  uint64_t width = 0;
};

struct User {
  uint32_t uid = 0;
  uint32_t gid = 0;
  std::optional<uint32_t> umask;
  std::vector<uint32_t> additional_gids;
  std::string username;
};

struct Capabilities {  // names as written, "CAP_CHOWN"
  std::vector<std::string> bounding;
  std::vector<std::string> effective;
  std::vector<std::string> permitted;
  std::vector<std::string> inheritable;
  std::vector<std::string> ambient;
};

struct Rlimit {
  std::string type;  // "RLIMIT_NOFILE"
  uint64_t soft = 0;
  uint64_t hard = 0;
};

struct Scheduler {  // sched_setattr(2)
  std::string policy;  // "SCHED_BATCH"
  int32_t nice = 0;
  int32_t priority = 0;
  std::vector<std::string> flags;  // "SCHED_FLAG_RESET_ON_FORK"
  uint64_t runtime = 0;
  uint64_t deadline = 0;
  uint64_t period = 0;
};

struct IoPriority {  // ioprio_set(2)
  std::string io_class;  // "IOPRIO_CLASS_BE"
  int32_t priority = 0;
};

struct ExecCpuAffinity {  // CPU lists as of cpuset(7), "0-3,7"
  std::string initial_cpus;
  std::string final_cpus;
};

struct Process {
  bool terminal = false;
  std::optional<ConsoleSize> console_size;
  User user;
  std::vector<std::string> args;  // may be empty for a container that is only created
  std::vector<std::string> env;
  std::string cwd;  // absolute
  std::optional<Capabilities> capabilities;
  std::vector<Rlimit> rlimits;
  bool no_new_privileges = false;
  std::string apparmor_profile;
  std::string selinux_label;
  std::optional<int> oom_score_adj;
  std::optional<Scheduler> scheduler;
  std::optional<IoPriority> io_priority;
  std::optional<ExecCpuAffinity> exec_cpu_affinity;
};

// ---- root, mounts, hooks ----

struct Root {
  std::string path;  // as written: absolute, or relative to the bundle
  bool readonly = false;
};

struct Mount {
  std::string destination;
  std::string type;
  std::string source;
  std::vector<std::string> options;
  std::vector<IdMapping> uid_mappings;
  std::vector<IdMapping> gid_mappings;
};

struct Hook {
  std::string path;  // absolute
  std::vector<std::string> args;  // with argv[0]; empty: the path alone
  std::vector<std::string> env;
  std::optional<int> timeout_seconds;
};

struct Hooks {
  std::vector<Hook> prestart;
  std::vector<Hook> create_runtime;
  std::vector<Hook> create_container;
  std::vector<Hook> start_container;
  std::vector<Hook> poststart;
  std::vector<Hook> poststop;
};

// ---- linux ----

enum class NamespaceType { kMount, kPid, kNetwork, kUts, kIpc, kUser, kCgroup, kTime };
// The word of config.json: "mount", "pid", ...
[[nodiscard]] std::string_view to_string(NamespaceType type);

struct Namespace {
  NamespaceType type = NamespaceType::kMount;
  std::string path;  // empty: a new one
};

struct Device {
  char type = 'c';  // c, b, p (u of the file reads as c)
  std::string path;
  int64_t major = 0;
  int64_t minor = 0;
  std::optional<uint32_t> file_mode;
  std::optional<uint32_t> uid;
  std::optional<uint32_t> gid;
};

struct NetDevice {
  std::string host_name;
  std::string name;  // inside; empty: as on the host
};

struct TimeOffset {
  int64_t secs = 0;
  uint32_t nanosecs = 0;
};

struct Personality {
  std::string domain;  // "LINUX", "LINUX32"
};

struct IntelRdt {
  std::string clos_id;
  std::vector<std::string> schemata;
  std::string l3_cache_schema;
  std::string mem_bw_schema;
  bool enable_monitoring = false;
};

struct MemoryPolicy {  // set_mempolicy(2)
  std::string mode;    // "MPOL_BIND"
  std::string nodes;   // "0-1,3"
  std::vector<std::string> flags;
};

// ---- linux.resources ----

struct DeviceRule {
  bool allow = false;
  char type = 'a';  // a, c, b
  std::optional<int64_t> major;  // absent (or -1): any
  std::optional<int64_t> minor;
  std::string access;  // of "rwm"; an absent or empty one is refused by the parser unless type is 'a'
};

struct MemoryResources {  // bytes; -1: no limit
  std::optional<int64_t> limit;
  std::optional<int64_t> reservation;
  std::optional<int64_t> swap;  // memory + swap, as cgroup v1 counts
  std::optional<int64_t> kernel;
  std::optional<int64_t> kernel_tcp;
  std::optional<uint64_t> swappiness;
  std::optional<bool> disable_oom_killer;
  std::optional<bool> use_hierarchy;
  std::optional<bool> check_before_update;
};

struct CpuResources {
  std::optional<uint64_t> shares;
  std::optional<int64_t> quota;    // microseconds
  std::optional<uint64_t> burst;   // microseconds
  std::optional<uint64_t> period;  // microseconds
  std::optional<int64_t> realtime_runtime;
  std::optional<uint64_t> realtime_period;
  std::optional<int64_t> idle;
  std::string cpus;
  std::string mems;
};

struct BlockIoWeightDevice {
  int64_t major = 0;
  int64_t minor = 0;
  std::optional<uint16_t> weight;
  std::optional<uint16_t> leaf_weight;
};

struct BlockIoThrottleDevice {
  int64_t major = 0;
  int64_t minor = 0;
  uint64_t rate = 0;
};

struct BlockIoResources {
  std::optional<uint16_t> weight;
  std::optional<uint16_t> leaf_weight;
  std::vector<BlockIoWeightDevice> weight_devices;
  std::vector<BlockIoThrottleDevice> throttle_read_bps;
  std::vector<BlockIoThrottleDevice> throttle_write_bps;
  std::vector<BlockIoThrottleDevice> throttle_read_iops;
  std::vector<BlockIoThrottleDevice> throttle_write_iops;
};

struct HugepageLimit {
  std::string page_size;  // "2MB"
  uint64_t limit = 0;
};

struct InterfacePriority {
  std::string name;
  uint32_t priority = 0;
};

struct NetworkResources {
  std::optional<uint32_t> class_id;
  std::vector<InterfacePriority> priorities;
};

struct Rdma {
  std::optional<uint32_t> hca_handles;
  std::optional<uint32_t> hca_objects;
};

struct Resources {
  std::vector<DeviceRule> devices;
  MemoryResources memory;
  CpuResources cpu;
  std::optional<int64_t> pids_limit;  // below 0: no limit
  BlockIoResources block_io;
  std::vector<HugepageLimit> hugepage_limits;
  NetworkResources network;
  std::map<std::string, Rdma> rdma;
  StringMap unified;  // cgroup v2 file -> text
};

// ---- linux.seccomp ----

struct SyscallArgument {
  uint32_t index = 0;
  uint64_t value = 0;
  uint64_t value_two = 0;
  std::string op;  // "SCMP_CMP_EQ"
};

struct SyscallRule {
  std::vector<std::string> names;
  std::string action;  // "SCMP_ACT_ALLOW"
  std::optional<uint32_t> errno_ret;
  std::vector<SyscallArgument> args;
};

struct Seccomp {
  std::string default_action;
  std::optional<uint32_t> default_errno_ret;
  std::vector<std::string> architectures;  // "SCMP_ARCH_X86_64"
  std::vector<std::string> flags;          // "SECCOMP_FILTER_FLAG_LOG"
  std::string listener_path;
  std::string listener_metadata;
  std::vector<SyscallRule> syscalls;
};

struct Linux {
  std::vector<IdMapping> uid_mappings;
  std::vector<IdMapping> gid_mappings;
  std::vector<Namespace> namespaces;
  std::vector<Device> devices;
  std::vector<NetDevice> net_devices;
  std::string cgroups_path;
  Resources resources;
  bool has_resources = false;
  std::optional<Seccomp> seccomp;
  StringMap sysctl;
  std::vector<std::string> masked_paths;
  std::vector<std::string> readonly_paths;
  std::string mount_label;
  std::string rootfs_propagation;  // "private", "rslave", ...; empty: absent
  std::optional<Personality> personality;
  std::optional<TimeOffset> time_offset_monotonic;
  std::optional<TimeOffset> time_offset_boottime;
  std::optional<IntelRdt> intel_rdt;
  std::optional<MemoryPolicy> memory_policy;

  // The first namespace of that type, or null.
  [[nodiscard]] const Namespace* find_namespace(NamespaceType type) const;
};

struct Config {
  std::string oci_version;
  std::optional<Process> process;
  Root root;
  std::string hostname;
  std::string domainname;
  std::vector<Mount> mounts;
  Hooks hooks;
  StringMap annotations;
  Linux linux;  // a macro in GNU mode only; we compile as ISO C++
};

// Each refuses a document of the wrong form with one line that names the place.
[[nodiscard]] Result<Config> parse_config(std::string_view json);
[[nodiscard]] Result<Process> parse_process(std::string_view json);
[[nodiscard]] Result<Resources> parse_resources(std::string_view json);

// What create refuses although the document is well formed, whatever the host looks like, in runc's
// words: no process, a relative cwd, a hostname without a UTS namespace, a sysctl that is not
// namespaced, and so on. exec validates its process alone.
[[nodiscard]] Result<void> validate_for_create(const Config& config);
[[nodiscard]] Result<void> validate_process(const Process& process);

// The same document with process.env emptied: what may be kept of it beside the container, since the
// environment is where real secrets come in.
[[nodiscard]] Result<std::string> redact_environment(std::string_view json);
// The same with another environment in its place.
[[nodiscard]] Result<std::string> replace_environment(std::string_view json, const std::vector<std::string>& env);

// The config.json that `spec` writes for a new bundle: the defaults that runc writes, indented by tabs. A
// cgroup namespace belongs to them on hosts with cgroup v2 alone.
[[nodiscard]] std::string default_config(bool rootless, bool has_cgroup_namespace, uint32_t host_uid, uint32_t host_gid);

}  // namespace leash::oci
