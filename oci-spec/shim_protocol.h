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
//
//   init (at start, on its end of `lock`)         leash-shim
//     | unshare(CLONE_NEWNET)                            |
//     | -- n2 {} --------------------------------------> |  opens /proc/PID/ns/net, builds the lock-in
//     | <- go {} | failed {text} ----------------------- |
//   No "go" in 10 s, or an end of file: init exits and `start` reports the reason.
//
//   leash-runtime exec -> <registry>/<id>/shim.sock
//     | -- exec {ExecRequest} -------------------------> |
//     | <- prepared {PrepareReply} | failed {text} ----- |
//   leash-runtime delete -> shim.sock: -- end {} --> , then waits until the shim has closed.
//   A container that joins a leashed one's network (docker run --network container:X) sends `prepare`
//   and then `join {AttachRequest} [pidfd]` to X's shim.sock instead of starting a shim of its own.
//
// The body of `failed` is the error text itself. All other bodies are JSON, see the .cc.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
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
  std::vector<std::string> env;  // process.env as the engine wrote it, real secrets included
  std::vector<ExtraMount> mounts;  // config.json's mounts, for resolv.conf, hostname and /dev
  std::string trust_store;   // PEM file against which origins are verified; empty: the host's own
  std::string log_directory; // empty: /var/lib/leash/<id>
  bool has_user_namespace = false;
};

struct PrepareReply {
  std::vector<std::string> env;      // the whole new process.env: placeholders in, trust variables added
  std::vector<ExtraMount> mounts;    // to be mounted after config.json's own, in this order
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
  std::vector<std::string> env;
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
};

[[nodiscard]] std::string print(const PrepareRequest& document);
[[nodiscard]] std::string print(const PrepareReply& document);
[[nodiscard]] std::string print(const AttachRequest& document);
[[nodiscard]] std::string print(const ExecRequest& document);
[[nodiscard]] std::string print(const RegistryEntry& document);
[[nodiscard]] Result<PrepareRequest> parse_prepare_request(std::string_view json);
[[nodiscard]] Result<PrepareReply> parse_prepare_reply(std::string_view json);
[[nodiscard]] Result<AttachRequest> parse_attach_request(std::string_view json);
[[nodiscard]] Result<ExecRequest> parse_exec_request(std::string_view json);
[[nodiscard]] Result<RegistryEntry> parse_registry_entry(std::string_view json);

// /run/leash for root, $XDG_RUNTIME_DIR/leash otherwise: one directory per leashed container.
[[nodiscard]] std::string registry_directory();

}  // namespace leash::oci
