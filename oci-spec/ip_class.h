// IP addresses as values, and which of them are not the public internet.
//
// An address can be spelt so that it looks public and goes somewhere private: IPv4-mapped and
// -compatible, NAT64 (64:ff9b::/96 and 64:ff9b:1::/48), 6to4 and Teredo forms carry an IPv4 address
// inside. classify() looks through them. The documentation nets 192.0.2/24, 198.51.100/24 and
// 203.0.113/24 count as public: nothing of the host's is there, and tests need addresses.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace leash::oci {

struct IpAddress {
  bool is_ipv6 = false;
  std::array<uint8_t, 16> bytes{};  // network order; IPv4 in the first four

  bool operator==(const IpAddress&) const = default;
  auto operator<=>(const IpAddress&) const = default;
};

struct IpNetwork {
  IpAddress address;
  uint8_t prefix = 0;

  [[nodiscard]] bool contains(const IpAddress& other) const;  // an IPv4-mapped address is its IPv4
  bool operator==(const IpNetwork&) const = default;
};

enum class IpClass {
  kPublic,
  kPrivate,      // RFC 1918, CGNAT, ULA, site-local, benchmarking, protocol assignments, future use
  kLinkLocal,
  kMetadata,     // the addresses at which clouds hand out credentials
  kLoopback,
  kMulticast,    // and broadcast
  kUnspecified,  // 0/8, ::
};

// Strict: dotted decimal without leading zeros, or RFC 4291 text without brackets or zone.
[[nodiscard]] std::optional<IpAddress> parse_ip(std::string_view text);
// "ADDRESS/PREFIX"; host bits must be zero.
[[nodiscard]] std::optional<IpNetwork> parse_network(std::string_view text);
[[nodiscard]] std::string print(const IpAddress& address);  // RFC 5952, no brackets
[[nodiscard]] std::string print(const IpNetwork& network);

[[nodiscard]] IpClass classify(const IpAddress& address);
[[nodiscard]] std::string_view word(IpClass ip_class);  // "private", "link-local" ...
// ::ffff:a.b.c.d as a.b.c.d; any other address as it is.
[[nodiscard]] IpAddress unmapped(const IpAddress& address);
// Never a destination, whatever the policy says: loopback, multicast, unspecified.
[[nodiscard]] bool is_never_destination(const IpAddress& address);

}  // namespace leash::oci
