// Which rule of a policy decides about a request, said step by step as the proxy takes them: the name at
// DNS, the connection, the request.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "oci-spec/policy.h"

namespace leash::cli {

struct Url {
  std::string scheme;  // "http" or "https"
  std::string host;    // normalised
  uint16_t port = 0;
  std::string target;  // path and query
};
// http://HOST[:PORT][/PATH][?QUERY]; https if there is no scheme.
[[nodiscard]] Result<Url> parse_url(std::string_view text);

struct Explanation {
  bool allowed = false;
  std::string text;  // lines, escaped
};
[[nodiscard]] Explanation explain(const oci::Policy& policy, std::string_view method, const Url& url);

}  // namespace leash::cli
