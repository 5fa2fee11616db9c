#include "oci-spec/ip_class.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace leash::oci {
namespace {

struct ClassRow {
  std::string_view network;
  IpClass ip_class;
};

// IANA's special-purpose registries (RFC 6890 and its updates); first match wins, so that the single
// metadata addresses stand before the networks around them.
constexpr ClassRow kRows[] = {
    {"169.254.169.254/32", IpClass::kMetadata},   // AWS, GCP, Azure, OpenStack ...
    {"169.254.170.2/32", IpClass::kMetadata},     // ECS task credentials
    {"169.254.170.23/32", IpClass::kMetadata},    // EKS pod identity
    {"100.100.100.200/32", IpClass::kMetadata},   // Alibaba
    {"168.63.129.16/32", IpClass::kMetadata},     // Azure's wire server: a public address, host-local service
    {"192.0.0.192/32", IpClass::kMetadata},       // Oracle
    {"fd00:ec2::254/128", IpClass::kMetadata},
    {"fd00:ec2::23/128", IpClass::kMetadata},
    {"fd20:ce::254/128", IpClass::kMetadata},     // GCP
    {"fd00:42::42/128", IpClass::kMetadata},      // Scaleway
    {"0.0.0.0/8", IpClass::kUnspecified},
    {"127.0.0.0/8", IpClass::kLoopback},
    {"10.0.0.0/8", IpClass::kPrivate},
    {"172.16.0.0/12", IpClass::kPrivate},
    {"192.168.0.0/16", IpClass::kPrivate},
    {"100.64.0.0/10", IpClass::kPrivate},
    {"169.254.0.0/16", IpClass::kLinkLocal},
    {"192.0.0.0/24", IpClass::kPrivate},
    {"192.88.99.0/24", IpClass::kPrivate},        // 6to4 relays
    {"198.18.0.0/15", IpClass::kPrivate},
    {"224.0.0.0/4", IpClass::kMulticast},
    {"255.255.255.255/32", IpClass::kMulticast},
    {"240.0.0.0/4", IpClass::kPrivate},
    {"::/128", IpClass::kUnspecified},
    {"::1/128", IpClass::kLoopback},
    {"fe80::/10", IpClass::kLinkLocal},
    {"fec0::/10", IpClass::kPrivate},
    {"fc00::/7", IpClass::kPrivate},
    {"ff00::/8", IpClass::kMulticast},
    {"100::/64", IpClass::kPrivate},              // discard
    {"2001:2::/48", IpClass::kPrivate},           // benchmarking
    {"2001:10::/28", IpClass::kPrivate},          // ORCHID
    {"5f00::/16", IpClass::kPrivate},             // segment routing
};

struct CompiledRow {
  IpNetwork network;
  IpClass ip_class = IpClass::kPublic;
};

const std::array<CompiledRow, std::size(kRows)>& compiled_rows() {
  static const auto rows = [] {
    std::array<CompiledRow, std::size(kRows)> result;
    for (size_t i = 0; i < result.size(); ++i) {
      result[i] = {parse_network(kRows[i].network).value(), kRows[i].ip_class};
    }
    return result;
  }();
  return rows;
}

bool has_prefix(const IpAddress& address, const std::array<uint8_t, 16>& prefix, size_t bits) {
  const size_t bytes = bits / 8;
  if (std::memcmp(address.bytes.data(), prefix.data(), bytes) != 0) return false;
  if (bits % 8 == 0) return true;
  const auto mask = static_cast<uint8_t>(0xff << (8 - bits % 8));
  return ((address.bytes[bytes] ^ prefix[bytes]) & mask) == 0;
}

IpAddress ipv4_at(const IpAddress& address, size_t offset, uint8_t flip = 0) {
  IpAddress inner;
  for (size_t i = 0; i < 4; ++i) inner.bytes[i] = static_cast<uint8_t>(address.bytes[offset + i] ^ flip);
  return inner;
}

constexpr std::array<uint8_t, 16> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr std::array<uint8_t, 16> kCompatible = {};
constexpr std::array<uint8_t, 16> kTranslated = {0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};  // ::ffff:0:a.b.c.d (SIIT)
constexpr std::array<uint8_t, 16> kNat64 = {0, 0x64, 0xff, 0x9b};
constexpr std::array<uint8_t, 16> kNat64Local = {0, 0x64, 0xff, 0x9b, 0, 1};
constexpr std::array<uint8_t, 16> k6to4 = {0x20, 0x02};
constexpr std::array<uint8_t, 16> kTeredo = {0x20, 0x01, 0, 0};

// The least public of two classes: what hides inside a transition address decides.
IpClass stricter(IpClass a, IpClass b) { return a == IpClass::kPublic ? b : a; }

}  // namespace

std::optional<IpAddress> parse_ip(std::string_view text) {
  if (text.empty() || text.size() > 45) return std::nullopt;
  const std::string copy(text);
  IpAddress address;
  // inet_pton(3) takes dotted decimal only for IPv4, but with leading zeros on some libcs.
  if (inet_pton(AF_INET, copy.c_str(), address.bytes.data()) == 1) {
    return print(address) == text ? std::optional(address) : std::nullopt;
  }
  if (inet_pton(AF_INET6, copy.c_str(), address.bytes.data()) == 1) {
    address.is_ipv6 = true;
    return address;
  }
  return std::nullopt;
}

std::optional<IpNetwork> parse_network(std::string_view text) {
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const auto address = parse_ip(text.substr(0, slash));
  const std::string_view digits = text.substr(slash + 1);
  if (!address || digits.empty() || digits.size() > 3 || (digits.size() > 1 && digits[0] == '0')) return std::nullopt;
  unsigned prefix = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), prefix);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  const size_t size = address->is_ipv6 ? 16 : 4;
  if (prefix > size * 8) return std::nullopt;
  for (size_t bit = prefix; bit < size * 8; ++bit) {
    if ((address->bytes[bit / 8] & (0x80U >> (bit % 8))) != 0) return std::nullopt;
  }
  return IpNetwork{*address, static_cast<uint8_t>(prefix)};
}

std::string print(const IpAddress& address) {
  char buffer[INET6_ADDRSTRLEN] = {};
  inet_ntop(address.is_ipv6 ? AF_INET6 : AF_INET, address.bytes.data(), buffer, sizeof(buffer));
  return buffer;
}

std::string print(const IpNetwork& network) {
  return print(network.address) + "/" + std::to_string(network.prefix);
}

bool IpNetwork::contains(const IpAddress& other) const {
  const IpAddress plain = address.is_ipv6 ? other : unmapped(other);
  return plain.is_ipv6 == address.is_ipv6 && has_prefix(plain, address.bytes, prefix);
}

IpAddress unmapped(const IpAddress& address) {
  return address.is_ipv6 && has_prefix(address, kMapped, 96) ? ipv4_at(address, 12) : address;
}

IpClass classify(const IpAddress& address) {
  for (const CompiledRow& row : compiled_rows()) {
    if (row.network.address.is_ipv6 == address.is_ipv6 && has_prefix(address, row.network.address.bytes, row.network.prefix)) {
      return row.ip_class;
    }
  }
  if (!address.is_ipv6) return IpClass::kPublic;

  if (has_prefix(address, kMapped, 96)) return classify(ipv4_at(address, 12));
  // Deprecated and never on the wire in good faith: not public even around a public address.
  if (has_prefix(address, kCompatible, 96) || has_prefix(address, kTranslated, 96)) {
    return stricter(classify(ipv4_at(address, 12)), IpClass::kPrivate);
  }
  if (has_prefix(address, kNat64, 96)) return classify(ipv4_at(address, 12));
  if (has_prefix(address, kNat64Local, 48)) return stricter(classify(ipv4_at(address, 12)), IpClass::kPrivate);
  if (has_prefix(address, k6to4, 16)) return classify(ipv4_at(address, 2));
  if (has_prefix(address, kTeredo, 32)) {
    // RFC 4380: the server's address, and the client's with all bits flipped.
    return stricter(classify(ipv4_at(address, 4)), classify(ipv4_at(address, 12, 0xff)));
  }
  // Only 2000::/3 is global unicast; what IANA has not handed out is nobody's public host.
  return (address.bytes[0] & 0xe0) == 0x20 ? IpClass::kPublic : IpClass::kPrivate;
}

std::string_view word(IpClass ip_class) {
  switch (ip_class) {
    case IpClass::kPublic: return "public";
    case IpClass::kPrivate: return "private";
    case IpClass::kLinkLocal: return "link-local";
    case IpClass::kMetadata: return "metadata";
    case IpClass::kLoopback: return "loopback";
    case IpClass::kMulticast: return "multicast";
    case IpClass::kUnspecified: return "unspecified";
  }
  return "unspecified";
}

bool is_never_destination(const IpAddress& address) {
  switch (classify(address)) {
    case IpClass::kLoopback:
    case IpClass::kMulticast:
    case IpClass::kUnspecified: return true;
    case IpClass::kPublic:
    case IpClass::kPrivate:
    case IpClass::kLinkLocal:
    case IpClass::kMetadata: return false;
  }
  return true;
}

}  // namespace leash::oci
