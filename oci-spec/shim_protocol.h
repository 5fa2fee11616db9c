// What leash-runtime and leash-shim say to each other: the documents behind the Channel messages.
//
//   leash-runtime create                          leash-shim (started by create, own session)
//     | -- prepare {PrepareRequest} -------------------> |  parse the policy, CA, placeholders, trust
//     | <- prepared {PrepareReply} | failed {text} ----- |
//     | clone init in N1, hooks                          |
//     | -- attach {AttachRequest} [pidfd, N1, lock] ---> |  dialer in N1, proxy started and configured
//     | <- ready {} | failed {text} -------------------- |
//     | state, pid file, -- commit {} -----------------> |  from here the shim lives and ends with init
//   EOF before commit: the shim takes everything down again.
//   How the shim is started: fork, execve("leash-shim", {"leash-shim", ID}) with the Channel as descriptor
//   3. The shim makes its own session and puts /dev/null on 0, 1 and 2: it keeps nothing of the engine's.
//
//   init (at start, on its end of `lock`)         leash-shim
//     | unshare(CLONE_NEWNET)                            |
//     | -- n2 {} --------------------------------------> |  opens /proc/PID/ns/net, builds the lock-in
//     | <- go {} | failed {text} ----------------------- |
//   No "go" in 10 s, or an end of file: init exits and `start` reports the reason.
//
//   leash-runtime exec -> <registry>/<id>/shim.sock
//     | -- exec {ExecRequest} -------------------------> |
//     | <- prepared {PrepareReply} | failed {text} ----- |  mounts is empty
//   leash-runtime delete -> <registry>/<id>/shim.sock
//     | -- end {EndRequest} ---------------------------> |  then waits until the shim has closed
//   leash -> <registry>/<id>/shim.sock
//     | -- status {} ----------------------------------> |
//     | <- status {StatusReport} ----------------------- |
//
//   A container M that joins a leashed one's network (docker run --network container:X), on one
//   connection to X's shim.sock instead of starting a shim of its own:
//     | -- prepare {PrepareRequest of M} --------------> |
//     | <- prepared {PrepareReply} [N2] | failed {text}  |  init of M joins this descriptor's namespace
//     | -- join {AttachRequest} [pidfd] ---------------> |
//     | <- joined {} | failed {text} ------------------- |  M has a registry directory of its own, whose
//     |                                                  |  shim.sock leads here: exec, end as above
//   M has no lock and sends no n2: it is born in N2.
//
// `leash-shim --cleanup ID` removes what a killed shim left; delete runs it when shim.sock does not answer.
//
// The body of `failed` is the error text itself. It never holds the words from which engines derive
// 126 or 127 (a lock-in that fails is 125). All other bodies are JSON, see the .cc.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace leash::oci {

// An OCI mount as it goes into config.json (runtime-spec, config.md#mounts).
struct ExtraMount {
  std::string destination;
  std::string type;
  std::string source;
  std::vector<std::string> options;
};

struct PolicyText {
  std::string source;  // path on the host, or "built-in"
  std::string text;    // YAML as read at create
};

struct PrepareRequest {
  std::string container_id;
  std::string bundle;        // absolute
  std::string rootfs;        // absolute, on the host
  std::string runtime_root;  // --root of the runtime that creates the container
  PolicyText policy;
  bool policy_is_explicit = false;  // named for this container (annotation, mount), not a default of the host
  std::vector<std::string> env;  // process.env as the engine wrote it, real secrets included
  std::vector<ExtraMount> mounts;  // config.json's mounts, for resolv.conf, hostname and /dev
  std::string trust_store;   // PEM file against which origins are verified; empty: the host's own
  std::string log_directory; // empty: /var/lib/leash/<id>
  bool has_user_namespace = false;
  bool rootfs_readonly = false;  // config.json root.readonly
};

struct PrepareReply {
  std::vector<std::string> env;      // the whole new process.env: placeholders in, trust variables added
  std::vector<ExtraMount> mounts;    // to be mounted after config.json's own, in this order
  std::vector<std::string> syscalls_allow;  // the policy's, for the runtime's floor filter
  std::vector<std::string> syscalls_deny;
};

enum class NetworkKind {
  kNew,        // config.json has a network namespace without a path
  kPath,       // ... with a path
  kHost,       // no network namespace, or a path to the host's own
};

struct AttachRequest {
  int32_t init_pid = 0;  // in the runtime's pid namespace
  NetworkKind network = NetworkKind::kNew;
  std::vector<std::pair<std::string, std::string>> net_sysctls;  // "net.*" of config.json, to repeat in N2
};

struct ExecRequest {
  std::string container_id;
  std::vector<std::string> env;
};

struct EndRequest {
  std::string container_id;
};

// <registry>/<id>/container.json: what the shim publishes for the runtime's classification of network
// namespaces and for the operator's command.
struct RegistryEntry {
  std::string container_id;
  std::string name;  // the engine's name for it, empty if unknown
  std::string bundle;
  std::string runtime_root;
  std::string policy_source;
  std::string log_directory;
  int32_t init_pid = 0;
  int32_t shim_pid = 0;
  uint64_t n1_inode = 0;  // nsfs inode numbers; 0 until known
  uint64_t n2_inode = 0;
  std::string network_of;  // of a container that joined: the id of the one whose shim serves it
  int64_t started_us = 0;  // CLOCK_REALTIME, microseconds: when the shim was ready
};

// What the operator's command shows of one shim.
struct StatusReport {
  RegistryEntry entry;
  PolicyText policy;
  std::string proxy_state;  // "running", "restarting", "absent"
  int32_t proxy_pid = 0;    // 0 unless running
  int32_t dialer_pid = 0;
  uint32_t proxy_restarts = 0;
  bool locked_in = false;   // N2 is built and "go" was said
  std::vector<std::string> members;  // ids of containers that joined
  std::vector<std::string> secrets;  // names of hidden variables, never values
  std::vector<uint16_t> inbound_ports;
};

[[nodiscard]] std::string print(const PrepareRequest& document);
[[nodiscard]] std::string print(const PrepareReply& document);
[[nodiscard]] std::string print(const AttachRequest& document);
[[nodiscard]] std::string print(const ExecRequest& document);
[[nodiscard]] std::string print(const EndRequest& document);
[[nodiscard]] std::string print(const StatusReport& document);
[[nodiscard]] std::string print(const RegistryEntry& document);
[[nodiscard]] Result<PrepareRequest> parse_prepare_request(std::string_view json);
[[nodiscard]] Result<PrepareReply> parse_prepare_reply(std::string_view json);
[[nodiscard]] Result<AttachRequest> parse_attach_request(std::string_view json);
[[nodiscard]] Result<ExecRequest> parse_exec_request(std::string_view json);
[[nodiscard]] Result<EndRequest> parse_end_request(std::string_view json);
[[nodiscard]] Result<StatusReport> parse_status_report(std::string_view json);
[[nodiscard]] Result<RegistryEntry> parse_registry_entry(std::string_view json);

// /run/leash for root, $XDG_RUNTIME_DIR/leash otherwise: one directory per leashed container.
[[nodiscard]] std::string registry_directory();

}  // namespace leash::oci
