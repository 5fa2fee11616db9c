// What leash-shim and leash-proxy say to each other, and what leash-proxy asks of the dialer.
//
//   leash-shim                                     leash-proxy (fd 3: control, no files, no capabilities)
//     | -- configure {ProxyConfig} [flows, blocked, dialer, in-flight table, trust store] -> |
//     | <- configured {} | failed {text} -------------------------------------- |
//     | -- network {NetworkFacts} --------------------------------------------> |  before listen, and when N1 changes
//     | -- listen {ListenerList} [one socket per entry] ----------------------> |  at start, in N2
//     | <- listening {} | failed {text} --------------------------------------- |
//     | -- secret {ProxySecret} ----------------------------------------------> |  a key brought by exec
//     | <- stored {} ---------------------------------------------------------- |
//     | -- refused {RefusedPacket} -------------------------------------------> |  NFLOG: to blocked.jsonl
//     | -- explain {ExplainRequest} / <- explained {text} --------------------> |  (reserved)
//     | <- rotate {RotateRequest} --------------------------------------------- |  at log.max_size
//     | -- rotated {RotateRequest} [new fd] ----------------------------------> |
//     | <- who {WhoRequest} --------------------------------------------------- |  a client has connected
//     | -- who {WhoReply} ----------------------------------------------------> |  in order; empty: not known
//   End of file on the control socket: the proxy exits.
//
// The trust store (PEM roots that origins are verified with; may be empty) is a file of some 200 KB: read where it
// is used, since as a JSON string it cost both sides more than all the rest of a container's start.
//
// leash-proxy is the only writer of flows.jsonl and blocked.jsonl, so that `seq` of each has no holes:
// the shim hands it the last seq of each file (which it reads back after a crash). Exchanges that are
// under way stand in the in-flight table (a shared file on /run); when the proxy is killed the shim writes
// their lines from it, with error "proxy_terminated", before it starts the next proxy.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "oci-spec/shim_protocol.h"

namespace leash::oci {

struct ProxySecret {
  std::string name;         // of the environment variable
  std::string placeholder;  // what the container holds
  std::string value;        // what the origin shall get
  std::vector<std::string> hosts;
  std::vector<std::string> headers;  // empty: any header
  bool exclusive = false;
};

struct ProxyConfig {
  std::string container_id;
  std::string container_name;
  PolicyText policy;
  std::string ca_certificate_pem;
  std::string ca_key_pem;
  std::vector<ProxySecret> secrets;
  std::vector<std::string> dns_servers;  // "ADDRESS" or "ADDRESS:PORT"; asked from N1 for DNS_OTHER queries
  bool has_engine_dns = false;           // 127.0.0.11 answers in N1
  uint64_t flows_seq = 0;    // last seq in the file
  uint64_t blocked_seq = 0;
};

// What N1 looks like: an engine may wire it after `configure`, and `docker network connect` later on.
struct NetworkFacts {
  std::vector<std::string> onlink_networks;     // "ADDRESS/PREFIX" of N1's interfaces but lo: where peers are
  std::vector<std::string> never_destinations;  // addresses: N1's gateways (that is, the host) and N1's own
  bool has_engine_dns = false;  // 127.0.0.11 answers in N1: some engines set it up only between create and start
};

enum class ListenerKind { kTcp, kDnsEngineUdp, kDnsEngineTcp, kDnsOtherUdp, kDnsOtherTcp };

struct ListenerList {
  std::vector<ListenerKind> kinds;  // kinds[i] is the socket fds[i]; v4 and v6 are separate entries
};

struct RefusedPacket {
  std::string protocol;     // "udp", "icmp", "tcp", "icmpv6", or the number
  std::string destination;  // address
  uint16_t port = 0;
  uint64_t bytes = 0;       // length of the IP packet
};

// The proxy asks for a new file when the named log has reached log.max_size; until the answer it goes on
// with the old one.
struct RotateRequest {
  std::string log;  // "flows" or "blocked"
};

// Which process made this connection? Asked at accept(2); nobody waits for the answer on the way of a request.
struct WhoRequest {
  uint32_t tag = 0;
  std::string source;       // addresses as the client's socket has them, that is, before the redirect
  uint16_t source_port = 0;
  std::string destination;
  uint16_t destination_port = 0;
};

inline constexpr size_t kMaxProcessText = 64;

// Names are the container's to choose: hostile text.
struct WhoReply {
  uint32_t tag = 0;
  uint32_t pid = 0;  // in the container's pid namespace; 0: not known
  std::string comm;  // of /proc/PID/comm, at most kMaxProcessText bytes
  std::string exe;   // the path of its program, cut likewise
};
// "17 curl (/usr/bin/curl)", as it stands in a log line: what the kernel says comes first. Empty if not known.
[[nodiscard]] std::string process_text(const WhoReply& reply);

[[nodiscard]] std::string print(const ProxySecret& document);
[[nodiscard]] std::string print(const ProxyConfig& document);
[[nodiscard]] std::string print(const NetworkFacts& document);
[[nodiscard]] std::string print(const ListenerList& document);
[[nodiscard]] std::string print(const RefusedPacket& document);
[[nodiscard]] std::string print(const RotateRequest& document);
[[nodiscard]] std::string print(const WhoRequest& document);
[[nodiscard]] std::string print(const WhoReply& document);
[[nodiscard]] Result<ProxySecret> parse_proxy_secret(std::string_view json);
[[nodiscard]] Result<ProxyConfig> parse_proxy_config(std::string_view json);
[[nodiscard]] Result<NetworkFacts> parse_network_facts(std::string_view json);
[[nodiscard]] Result<ListenerList> parse_listener_list(std::string_view json);
[[nodiscard]] Result<RefusedPacket> parse_refused_packet(std::string_view json);
[[nodiscard]] Result<RotateRequest> parse_rotate_request(std::string_view json);
[[nodiscard]] Result<WhoRequest> parse_who_request(std::string_view json);
[[nodiscard]] Result<WhoReply> parse_who_reply(std::string_view json);

// ---- the dialer: a child of the shim that lives in N1 and makes sockets there ----
//
// One request per SOCK_SEQPACKET packet, answered in order of completion by one DialReply, with the
// descriptor of a non-blocking socket whose connect(2) is under way (TCP) or done (UDP). Addresses that
// are never destinations (loopback but 127.0.0.11:53, unspecified, multicast, N1's own addresses, the
// host's when N1 is the host's) get EACCES: a second check beside the proxy's own.
struct DialRequest {
  uint32_t tag = 0;
  uint8_t is_udp = 0;
  uint8_t is_ipv6 = 0;
  uint16_t port = 0;         // host byte order
  uint8_t address[16] = {};  // network byte order; IPv4 in the first four
};
struct DialReply {
  uint32_t tag = 0;
  int32_t error = 0;  // errno; 0 with a descriptor
};

// ---- the in-flight table: kInFlightSlots slots in a file mapped by proxy (writes) and shim (reads) ----
struct InFlightSlot {
  uint32_t state = 0;  // 0 free, 1 under way; stored last with release order
  uint32_t log = 0;    // where `seq` counts: 0 flows.jsonl, 1 blocked.jsonl
  uint64_t seq = 0;    // the seq its line got, set before the line is written; 0 until then
  int64_t started_us = 0;  // CLOCK_REALTIME, microseconds
  uint64_t bytes_up = 0;
  uint64_t bytes_down = 0;
  uint16_t port = 0;
  uint16_t status = 0;
  char scheme[8] = {};
  char method[20] = {};
  char host[256] = {};
  char path[184] = {};  // cut
};
inline constexpr uint32_t kInFlightSlots = 8192;
static_assert(sizeof(InFlightSlot) == 512);

}  // namespace leash::oci
