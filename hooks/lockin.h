// The lock-in (design C): makes N2, the namespace in which the container's processes live, a place
// without a way out, whose TCP and DNS end at our listeners and whose everything else is refused at
// once. The caller is leash-shim, single-threaded and root; it calls build() between init's "n2" and
// its own "go". Any error means: no "go".
//
// What keeps the promise is topology, not the ruleset: the interfaces of N2 are veth ends whose other
// ends sit in an empty namespace (the dead end). A container that holds NET_ADMIN and flushes the
// rules loses its redirect to the proxy and gains nothing.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "hooks/address_mirror.h"
#include "hooks/refusal_log.h"
#include "oci-spec/proxy_protocol.h"

namespace leash::hooks {

struct LockInPlan {
  int n1_fd = -1;  // borrowed; /proc/PID/ns/net of the engine's namespace (may be the host's)
  int n2_fd = -1;  // borrowed; the namespace that init made
  // "net.*" of config.json, repeated in N2; dots or slashes separate, as in sysctl(8).
  std::vector<std::pair<std::string, std::string>> net_sysctls;
  // Resolvers of the container's resolv.conf in 127.0.0.0/8, other than 127.0.0.11 (the host's stub
  // resolver with --network host): their port 53 goes to kDnsOther. Without it loopback is the container's own.
  std::vector<std::string> loopback_resolvers = {"127.0.0.53"};
};

struct Listener {
  oci::ListenerKind kind{};
  bool is_ipv6 = false;
  uint16_t port = 0;
  Fd socket;  // listening (TCP) or bound (UDP), non-blocking, in N2, on 127.0.0.1 or ::1
};

struct ListenerPorts {
  uint16_t proxy = 0;
  uint16_t dns_engine = 0;  // queries that were sent to 127.0.0.11
  uint16_t dns_other = 0;   // queries to any other server
};

// Keep it as long as the container: the mirror holds the dead end, and when that closes the interfaces
// vanish from N2 (which is what makes them go away with the shim).
struct LockIn {
  std::vector<Listener> listeners;  // no IPv6 ones where N2 has no ::1
  ListenerPorts ports;
  RefusalLog refusals;    // poll its fd
  AddressMirror mirror;   // poll its fd
  std::vector<std::string> notes;  // for the log: routes that could not be copied
};

[[nodiscard]] Result<LockIn> build(const LockInPlan& plan);

// Reads the ruleset of N2 back and compares it with what build() sent for these ports. The error
// names the first rule, chain or table that differs.
[[nodiscard]] Result<void> verify(int n2_fd, const LockInPlan& plan, const ListenerPorts& ports);

// Sum of what was refused so far, logged or not, by rule ("udp, icmp and others", ...).
struct RefusalCounter {
  std::string rule;
  uint64_t packets = 0;
  uint64_t bytes = 0;
};
[[nodiscard]] Result<std::vector<RefusalCounter>> read_refusal_counters(int n2_fd);

// ---- N1: what may come in ----

struct PortRange {
  uint16_t first = 0;
  uint16_t last = 0;  // inclusive
};

struct InboundPlan {
  int n1_fd = -1;  // borrowed; never the host's
  std::vector<PortRange> tcp_ports;  // published or exposed; empty: nothing comes in
  // Where the relay listens in N1, on 0.0.0.0 and [::] (the redirect goes to the address of the
  // interface on which the packet came). It learns the wanted port by SO_ORIGINAL_DST.
  uint16_t relay_port = 0;
};

// Table `inet leash` in N1: the allowed ports are redirected to the relay, all other new traffic from
// outside is dropped, nothing is forwarded. Replaces what an earlier shim left. Read back and compared.
[[nodiscard]] Result<void> guard_inbound(const InboundPlan& plan);

// Removes table `inet leash` from the namespace; none there is success. For an N1 that outlives the
// container.
[[nodiscard]] Result<void> remove_guard(int n1_fd);

}  // namespace leash::hooks
