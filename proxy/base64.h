// Base64 (RFC 4648 section 4) of short text: Basic credentials and what redaction looks for.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace leash::proxy {

[[nodiscard]] std::string base64_encode(std::string_view text);
// nullopt for what is no base64. Missing padding is accepted, as origins do.
[[nodiscard]] std::optional<std::string> base64_decode(std::string_view text);

}  // namespace leash::proxy
