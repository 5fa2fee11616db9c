// Interfaces, addresses and routes of a network namespace as values: read from N1, compared, and the
// difference written to N2 in as few netlink packets as possible. Interfaces are known by name, which
// is what programs know them by; their numbers differ between namespaces.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace leash::hooks {

// The next hop that a socket bound to an interface gets in N2, whatever its destination: the mark by which
// the ruleset refuses it. 192.0.0.8 is the dummy address (RFC 7600); no packet ever goes there.
inline constexpr std::array<uint8_t, 4> kBoundNextHop4 = {192, 0, 0, 8};
inline constexpr std::array<uint8_t, 16> kBoundNextHop6 = {0xfe, 0x80, 0, 0, 0,   0,   0,   0,
                                                           0,    0,    0, 'l', 'e', 'a', 's', 'h'};

struct Link {
  std::string name;
  uint32_t index = 0;  // in the namespace it was read from; not part of the comparison
  uint32_t mtu = 0;
  std::array<uint8_t, 6> mac{};  // all zero: not Ethernet

  friend bool operator==(const Link& a, const Link& b) {
    return a.name == b.name && a.mtu == b.mtu && a.mac == b.mac;
  }
};

// Network byte order; IPv4 in the first four bytes.
struct IpAddress {
  bool is_ipv6 = false;
  std::array<uint8_t, 16> bytes{};

  [[nodiscard]] std::string text() const;
  [[nodiscard]] size_t size() const { return is_ipv6 ? 16 : 4; }
  [[nodiscard]] bool is_unset() const { return bytes == std::array<uint8_t, 16>{}; }
  friend bool operator==(const IpAddress&, const IpAddress&) = default;
};

struct Address {
  std::string link;
  IpAddress local;
  IpAddress peer;       // of a point-to-point interface; as `local` otherwise
  IpAddress broadcast;  // unset: none
  uint8_t prefix_length = 0;
  uint8_t scope = 0;

  friend bool operator==(const Address&, const Address&) = default;
};

// Unicast routes of the main table that the kernel did not make by itself from an address.
struct Route {
  std::string link;
  IpAddress destination;
  uint8_t prefix_length = 0;
  IpAddress gateway;    // unset: on-link
  IpAddress source;     // preferred; unset: none
  uint32_t metric = 0;
  uint8_t scope = 0;

  [[nodiscard]] std::string text() const;
  friend bool operator==(const Route&, const Route&) = default;
};

struct NetState {
  std::vector<Link> links;  // lo is never among them
  std::vector<Address> addresses;
  std::vector<Route> routes;
};

// What must go and what must come so that `from` becomes `to`. An interface that changed its MAC or
// MTU is removed and made anew, with its addresses and routes.
struct NetChange {
  NetState removed;
  NetState added;

  [[nodiscard]] bool empty() const;
};
[[nodiscard]] NetChange difference(const NetState& from, const NetState& to);

// `socket_fd`: rtnetlink, in the namespace that is read. Interfaces that are neither up nor carry an
// address (sit0 and its kind appear in every namespace) are left out.
[[nodiscard]] Result<NetState> read_net_state(int socket_fd);

// Where a change is made. New interfaces are one end of a veth pair whose other end stays in the dead end:
// an empty namespace that nothing leads out of.
struct Target {
  int n2_socket = -1;        // rtnetlink in N2
  int dead_end_socket = -1;  // rtnetlink in the dead end
  int n2_fd = -1;            // the namespace itself
};
// Interfaces come up with a carrier. Returns notes about routes that the kernel refused.
[[nodiscard]] Result<std::vector<std::string>> apply(const Target& target, const NetChange& change);

}  // namespace leash::hooks
