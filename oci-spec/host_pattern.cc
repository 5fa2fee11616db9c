#include "oci-spec/host_pattern.h"

#include <algorithm>

namespace leash::oci {
namespace {

constexpr size_t kMaxName = 253;  // RFC 1035, without the trailing dot
constexpr size_t kMaxLabel = 63;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_character(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || c == '-' || c == '_'; }

// The URL standard's "ends in a number": such a host is an IPv4 address to browsers, curl and
// inet_aton(3), whatever else it looks like.
bool ends_in_number(std::string_view name) {
  const std::string_view last = name.substr(name.rfind('.') + 1);
  if (last.empty()) return false;
  if (std::all_of(last.begin(), last.end(), is_digit)) return true;
  return last.size() >= 2 && last[0] == '0' && last[1] == 'x' &&
         std::all_of(last.begin() + 2, last.end(), [](char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); });
}

bool is_below(std::string_view host, std::string_view parent) {
  return host.size() > parent.size() + 1 && host.ends_with(parent) && host[host.size() - parent.size() - 1] == '.';
}

}  // namespace

Result<std::string> normalise_host(std::string_view text) {
  if (text.empty()) return Error("empty host");
  if (text.front() == '[') {
    if (text.size() < 3 || text.back() != ']') return Error("host with an unclosed bracket");
    const auto address = parse_ip(text.substr(1, text.size() - 2));
    if (!address || !address->is_ipv6) return Error("host in brackets is not an IPv6 address");
    return print(unmapped(*address));
  }
  if (const auto address = parse_ip(text)) return print(unmapped(*address));

  if (text.back() == '.') text.remove_suffix(1);
  if (text.empty() || text.size() > kMaxName) return Error("host name is empty or longer than 253 characters");
  std::string name(text);
  size_t label = 0;
  for (char& c : name) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '.') {
      if (label == 0) return Error("host name with an empty label");
      label = 0;
      continue;
    }
    if (static_cast<unsigned char>(c) >= 0x80) return Error("host name is not ASCII: write it in its xn-- form");
    if (!is_name_character(c)) return Error("host name has a character that is no letter, digit, '-', '_' or '.'");
    if (++label > kMaxLabel) return Error("host name has a label longer than 63 characters");
  }
  if (label == 0) return Error("host name with an empty label");
  if (ends_in_number(name)) {
    if (const auto address = parse_ip(name)) return print(*address);
    return Error("host is an IPv4 address in an unusual spelling");
  }
  return name;
}

Result<HostPattern> HostPattern::parse(std::string_view text, bool exact) {
  HostPattern pattern;
  if (text.find('/') != std::string_view::npos) {
    if (text.find("://") != std::string_view::npos) return Error("expected a host, not a URL");
    pattern.network_ = parse_network(text);
    if (!pattern.network_) return Error("expected a network ADDRESS/PREFIX whose host bits are zero");
    if (pattern.network_->prefix < (pattern.network_->address.is_ipv6 ? 16 : 8)) {
      return Error("network is too wide: at least /8 for IPv4 and /16 for IPv6");
    }
    pattern.text_ = print(*pattern.network_);
    return pattern;
  }
  const bool wildcard = text.starts_with("*.");
  if (wildcard) {
    if (exact) return Error("'exact' and '*.' exclude each other");
    text.remove_prefix(2);
    pattern.self_ = false;
  } else if (exact) {
    pattern.subdomains_ = false;
  }
  if (text == "*" || (wildcard && text.empty())) {
    return Error("expected a host: '*' alone would allow everything; use 'mode: observe' to see what is needed");
  }
  if (text.find('*') != std::string_view::npos) return Error("'*' is only understood as '*.' at the start of a host");
  const auto colon = text.find(':');
  if (colon != std::string_view::npos && text.find(':', colon + 1) == std::string_view::npos) {
    return Error("expected a host without a port: write the port under 'ports'");
  }
  TRY(pattern.name_, normalise_host(text));
  pattern.text_ = (wildcard ? "*." : "") + pattern.name_;
  if (const auto address = parse_ip(pattern.name_)) {
    if (wildcard) return Error("'*.' before an address");
    pattern.network_ = IpNetwork{*address, static_cast<uint8_t>(address->is_ipv6 ? 128 : 32)};
  }
  return pattern;
}

bool HostPattern::matches(std::string_view host) const {
  if (network_) {
    const auto address = parse_ip(host);
    return address && network_->contains(*address);
  }
  if (self_ && host == name_) return true;
  // An address has no subdomains; a name that ends like one is refused by normalise_host().
  return subdomains_ && is_below(host, name_);
}

bool HostPattern::matches(const IpAddress& address) const { return network_ && network_->contains(address); }

bool HostPattern::names(std::string_view host) const {
  if (network_) return matches(host);
  return self_ && host == name_;
}

std::string_view HostPattern::labels_before(std::string_view host) const {
  if (network_ || host.size() <= name_.size()) return {};
  return host.substr(0, host.size() - name_.size() - 1);
}

}  // namespace leash::oci
