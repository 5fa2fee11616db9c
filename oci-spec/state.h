// The state of a container: what `state`, `list` and hooks print (runtime-spec, runtime.md#state, with
// runc's extra fields), what a seccomp agent gets, and the record that the runtime keeps of a container
// between its commands (<root>/<id>/state.json).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "oci-spec/config.h"

namespace leash::oci {

enum class Status { kCreating, kCreated, kRunning, kPaused, kStopped };
[[nodiscard]] std::string_view to_string(Status status);

struct State {
  std::string oci_version;
  std::string id;
  Status status = Status::kCreating;
  int32_t pid = 0;  // 0 once stopped
  std::string bundle;
  StringMap annotations;
  // runc's own; left out of the text where empty, as they are for hooks
  std::string rootfs;   // absolute
  std::string created;  // RFC 3339 with nanoseconds, UTC
  std::optional<std::string> owner;  // user name, or "" where the uid has none
};

// As `state` prints it: two spaces of indent, no final newline. Always has a pid.
[[nodiscard]] std::string print(const State& state);
// As hooks get it on stdin: one line; the fields of the specification only.
[[nodiscard]] std::string print_for_hook(const State& state);
// As `list --format json` prints it: one line; "null" for none, as runc does.
[[nodiscard]] std::string print(const std::vector<State>& states);
[[nodiscard]] Result<State> parse_state(std::string_view json);

// What goes to the agent at seccomp.listenerPath, beside the descriptors (config-linux.md,
// "The container process state").
struct ContainerProcessState {
  std::string oci_version;
  std::vector<std::string> fds;  // one name per descriptor sent: "seccompFd"
  int32_t pid = 0;
  std::string metadata;  // seccomp.listenerMetadata
  State state;
};
[[nodiscard]] std::string print(const ContainerProcessState& document);

// One directory of a container in one cgroup hierarchy.
struct CgroupPath {
  std::string controllers;  // "memory", "cpu,cpuacct", "name=systemd"; empty: the v2 tree
  std::string path;         // the directory on the host, absolute
};

// What the runtime keeps in <root>/<id>/state.json. Its own document: no other program reads it.
struct ContainerRecord {
  std::string id;
  std::string oci_version;
  std::string bundle;   // absolute
  std::string rootfs;   // absolute
  std::string created;  // RFC 3339 with nanoseconds, UTC
  int32_t init_pid = 0;
  uint64_t init_start_time = 0;  // field 22 of /proc/PID/stat: tells a reused pid from ours
  uint32_t owner_uid = 0;
  bool systemd_cgroup = false;
  bool is_rootless = false;
  bool is_leashed = false;         // has a shim
  bool no_new_keyring = false;
  std::string policy_source;
  std::vector<CgroupPath> cgroups;
  std::string intel_rdt_path;
  StringMap annotations;
  std::vector<Hook> poststop_hooks;
};
[[nodiscard]] std::string print(const ContainerRecord& record);
[[nodiscard]] Result<ContainerRecord> parse_container_record(std::string_view json);

// `ps --format json`: "[12,34]", or "null" for none.
[[nodiscard]] std::string print_pids(const std::vector<int32_t>& pids);

// A line of the runtime's own --log-format json: {"level":"error","msg":"...","time":"..."} and no more,
// without newline.
[[nodiscard]] std::string print_log_line(std::string_view level, std::string_view message, std::string_view time);

}  // namespace leash::oci
