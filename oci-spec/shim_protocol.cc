#include "oci-spec/shim_protocol.h"

#include <unistd.h>

#include <cstdlib>

#include "oci-spec/protocol_json.h"

namespace leash::oci {

using protocol::Of;

// Static and not in an unnamed namespace: argument-dependent lookup does not see into that.

static const char* enum_name(NetworkKind kind) {
  switch (kind) {
    case NetworkKind::kNew: return "new";
    case NetworkKind::kPath: return "path";
    case NetworkKind::kHost: return "host";
  }
  return "";
}

static bool enum_value(std::string_view name, NetworkKind& kind) {
  for (const NetworkKind candidate : {NetworkKind::kNew, NetworkKind::kPath, NetworkKind::kHost}) {
    if (name == enum_name(candidate)) {
      kind = candidate;
      return true;
    }
  }
  return false;
}

template <class Archive, Of<ExtraMount> T>
void fields(Archive& archive, T& document) {
  archive("destination", document.destination);
  archive("type", document.type);
  archive("source", document.source);
  archive("options", document.options);
}

template <class Archive, Of<PolicyText> T>
void fields(Archive& archive, T& document) {
  archive("source", document.source);
  archive("text", document.text);
}

template <class Archive, Of<PrepareRequest> T>
void fields(Archive& archive, T& document) {
  archive("container_id", document.container_id);
  archive("bundle", document.bundle);
  archive("rootfs", document.rootfs);
  archive("runtime_root", document.runtime_root);
  archive("policy", document.policy);
  archive("policy_is_explicit", document.policy_is_explicit);
  archive("env", document.env);
  archive("mounts", document.mounts);
  archive("trust_store", document.trust_store);
  archive("log_directory", document.log_directory);
  archive("has_user_namespace", document.has_user_namespace);
  archive("rootfs_readonly", document.rootfs_readonly);
}

template <class Archive, Of<PrepareReply> T>
void fields(Archive& archive, T& document) {
  archive("env", document.env);
  archive("mounts", document.mounts);
  archive("syscalls_allow", document.syscalls_allow);
  archive("syscalls_deny", document.syscalls_deny);
}

template <class Archive, Of<AttachRequest> T>
void fields(Archive& archive, T& document) {
  archive("init_pid", document.init_pid);
  archive("network", document.network);
  archive("net_sysctls", document.net_sysctls);
}

template <class Archive, Of<ExecRequest> T>
void fields(Archive& archive, T& document) {
  archive("container_id", document.container_id);
  archive("env", document.env);
}

template <class Archive, Of<EndRequest> T>
void fields(Archive& archive, T& document) {
  archive("container_id", document.container_id);
}

template <class Archive, Of<RegistryEntry> T>
void fields(Archive& archive, T& document) {
  archive("container_id", document.container_id);
  archive("name", document.name);
  archive("bundle", document.bundle);
  archive("runtime_root", document.runtime_root);
  archive("policy_source", document.policy_source);
  archive("log_directory", document.log_directory);
  archive("init_pid", document.init_pid);
  archive("shim_pid", document.shim_pid);
  archive("n1_inode", document.n1_inode);
  archive("n2_inode", document.n2_inode);
  archive("network_of", document.network_of);
  archive("started_us", document.started_us);
}

template <class Archive, Of<StatusReport> T>
void fields(Archive& archive, T& document) {
  archive("entry", document.entry);
  archive("policy", document.policy);
  archive("proxy_state", document.proxy_state);
  archive("proxy_pid", document.proxy_pid);
  archive("dialer_pid", document.dialer_pid);
  archive("proxy_restarts", document.proxy_restarts);
  archive("locked_in", document.locked_in);
  archive("members", document.members);
  archive("secrets", document.secrets);
  archive("inbound_ports", document.inbound_ports);
}

std::string print(const PrepareRequest& document) { return protocol::print_document(document); }
std::string print(const PrepareReply& document) { return protocol::print_document(document); }
std::string print(const AttachRequest& document) { return protocol::print_document(document); }
std::string print(const ExecRequest& document) { return protocol::print_document(document); }
std::string print(const EndRequest& document) { return protocol::print_document(document); }
std::string print(const StatusReport& document) { return protocol::print_document(document); }
std::string print(const RegistryEntry& document) { return protocol::print_document(document); }

Result<PrepareRequest> parse_prepare_request(std::string_view json) {
  return protocol::parse_document<PrepareRequest>(json, "prepare");
}
Result<PrepareReply> parse_prepare_reply(std::string_view json) {
  return protocol::parse_document<PrepareReply>(json, "prepared");
}
Result<AttachRequest> parse_attach_request(std::string_view json) {
  return protocol::parse_document<AttachRequest>(json, "attach");
}
Result<ExecRequest> parse_exec_request(std::string_view json) {
  return protocol::parse_document<ExecRequest>(json, "exec");
}
Result<EndRequest> parse_end_request(std::string_view json) {
  return protocol::parse_document<EndRequest>(json, "end");
}
Result<StatusReport> parse_status_report(std::string_view json) {
  return protocol::parse_document<StatusReport>(json, "status");
}
Result<RegistryEntry> parse_registry_entry(std::string_view json) {
  return protocol::parse_document<RegistryEntry>(json, "registry entry");
}

std::string registry_directory() {
  const char* runtime_directory = std::getenv("XDG_RUNTIME_DIR");
  if (::geteuid() == 0 || runtime_directory == nullptr || *runtime_directory != '/') return "/run/leash";
  return std::string(runtime_directory) + "/leash";
}

}  // namespace leash::oci
