#include "oci-spec/proxy_protocol.h"

#include <array>

#include "oci-spec/protocol_json.h"

namespace leash::oci {

using protocol::Of;

// Static and not in an unnamed namespace: argument-dependent lookup does not see into that.

static constexpr std::array kListenerKinds = {ListenerKind::kTcp, ListenerKind::kDnsEngineUdp, ListenerKind::kDnsEngineTcp,
                                       ListenerKind::kDnsOtherUdp, ListenerKind::kDnsOtherTcp};

static const char* enum_name(ListenerKind kind) {
  switch (kind) {
    case ListenerKind::kTcp: return "tcp";
    case ListenerKind::kDnsEngineUdp: return "dns-engine-udp";
    case ListenerKind::kDnsEngineTcp: return "dns-engine-tcp";
    case ListenerKind::kDnsOtherUdp: return "dns-other-udp";
    case ListenerKind::kDnsOtherTcp: return "dns-other-tcp";
  }
  return "";
}

static bool enum_value(std::string_view name, ListenerKind& kind) {
  for (const ListenerKind candidate : kListenerKinds) {
    if (name == enum_name(candidate)) {
      kind = candidate;
      return true;
    }
  }
  return false;
}

template <class Archive, Of<PolicyText> T>
void fields(Archive& archive, T& document) {
  archive("source", document.source);
  archive("text", document.text);
}

template <class Archive, Of<ProxySecret> T>
void fields(Archive& archive, T& document) {
  archive("name", document.name);
  archive("placeholder", document.placeholder);
  archive("value", document.value);
  archive("hosts", document.hosts);
  archive("headers", document.headers);
  archive("exclusive", document.exclusive);
}

template <class Archive, Of<ProxyConfig> T>
void fields(Archive& archive, T& document) {
  archive("container_id", document.container_id);
  archive("container_name", document.container_name);
  archive("policy", document.policy);
  archive("ca_certificate_pem", document.ca_certificate_pem);
  archive("ca_key_pem", document.ca_key_pem);
  archive("secrets", document.secrets);
  archive("dns_servers", document.dns_servers);
  archive("has_engine_dns", document.has_engine_dns);
  archive("flows_seq", document.flows_seq);
  archive("blocked_seq", document.blocked_seq);
}

template <class Archive, Of<NetworkFacts> T>
void fields(Archive& archive, T& document) {
  archive("onlink_networks", document.onlink_networks);
  archive("never_destinations", document.never_destinations);
  archive("has_engine_dns", document.has_engine_dns);
}

template <class Archive, Of<ListenerList> T>
void fields(Archive& archive, T& document) {
  archive("kinds", document.kinds);
}

template <class Archive, Of<RefusedPacket> T>
void fields(Archive& archive, T& document) {
  archive("protocol", document.protocol);
  archive("destination", document.destination);
  archive("port", document.port);
  archive("bytes", document.bytes);
}

template <class Archive, Of<RotateRequest> T>
void fields(Archive& archive, T& document) {
  archive("log", document.log);
}

template <class Archive, Of<WhoRequest> T>
void fields(Archive& archive, T& document) {
  archive("tag", document.tag);
  archive("source", document.source);
  archive("source_port", document.source_port);
  archive("destination", document.destination);
  archive("destination_port", document.destination_port);
}

template <class Archive, Of<WhoReply> T>
void fields(Archive& archive, T& document) {
  archive("tag", document.tag);
  archive("pid", document.pid);
  archive("comm", document.comm);
  archive("exe", document.exe);
}

std::string process_text(const WhoReply& reply) {
  if (reply.pid == 0) return {};
  std::string text = std::to_string(reply.pid) + " " + reply.comm.substr(0, kMaxProcessText);
  if (!reply.exe.empty()) text += " (" + reply.exe.substr(0, kMaxProcessText) + ")";
  return text;
}

std::string print(const ProxySecret& document) { return protocol::print_document(document); }
std::string print(const ProxyConfig& document) { return protocol::print_document(document); }
std::string print(const NetworkFacts& document) { return protocol::print_document(document); }
std::string print(const ListenerList& document) { return protocol::print_document(document); }
std::string print(const RefusedPacket& document) { return protocol::print_document(document); }
std::string print(const RotateRequest& document) { return protocol::print_document(document); }
std::string print(const WhoRequest& document) { return protocol::print_document(document); }
std::string print(const WhoReply& document) { return protocol::print_document(document); }

Result<ProxySecret> parse_proxy_secret(std::string_view json) {
  return protocol::parse_document<ProxySecret>(json, "secret");
}
Result<ProxyConfig> parse_proxy_config(std::string_view json) {
  return protocol::parse_document<ProxyConfig>(json, "configure");
}
Result<NetworkFacts> parse_network_facts(std::string_view json) {
  return protocol::parse_document<NetworkFacts>(json, "network");
}
Result<ListenerList> parse_listener_list(std::string_view json) {
  return protocol::parse_document<ListenerList>(json, "listen");
}
Result<RefusedPacket> parse_refused_packet(std::string_view json) {
  return protocol::parse_document<RefusedPacket>(json, "refused");
}
Result<RotateRequest> parse_rotate_request(std::string_view json) {
  return protocol::parse_document<RotateRequest>(json, "rotate");
}
Result<WhoRequest> parse_who_request(std::string_view json) {
  return protocol::parse_document<WhoRequest>(json, "who");
}
Result<WhoReply> parse_who_reply(std::string_view json) {
  return protocol::parse_document<WhoReply>(json, "who");
}

}  // namespace leash::oci
