// The host of a rule: a name (itself and every subdomain), "*.name" (the subdomains alone), an address
// or a network; and the one form in which hosts are compared.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "oci-spec/ip_class.h"

namespace leash::oci {

// The form in which hosts are compared: lower case, no trailing dot, A-labels (xn--), addresses as
// print(IpAddress) writes them, without brackets. An error for what is no host, for non-ASCII text
// (clients send A-labels), and for the old inet_aton spellings (0x7f.1, 2130706433, 0177.0.0.1),
// which programs read differently.
[[nodiscard]] Result<std::string> normalise_host(std::string_view text);

class HostPattern {
 public:
  // `exact`: a name without its subdomains. Non-ASCII names and "*" alone are errors.
  [[nodiscard]] static Result<HostPattern> parse(std::string_view text, bool exact);

  // `host` as normalise_host() gives it. A name pattern never matches an address, an address or
  // network pattern matches an address written as host.
  [[nodiscard]] bool matches(std::string_view host) const;
  [[nodiscard]] bool matches(const IpAddress& address) const;
  // True if the rule names this very host, not just a parent of it.
  [[nodiscard]] bool names(std::string_view host) const;

  // The labels of `host`, which this pattern matches, in front of the pattern's own name.
  [[nodiscard]] std::string_view labels_before(std::string_view host) const;

  [[nodiscard]] bool is_network() const { return network_.has_value(); }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;  // as written, normalised
  std::string name_;  // without "*."
  bool self_ = true;
  bool subdomains_ = true;
  std::optional<IpNetwork> network_;
};

}  // namespace leash::oci
