// The one normalised form of a request path, made once and before any rule is looked at.
//
// Origins differ in how they read %2e, %2f, //, ;x=y and \ : whatever two servers could read
// differently is ambiguous, and a request whose verdict depends on its path is then refused.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace leash::oci {

struct UrlPath {
  std::string path;       // decoded, no query, no dot segments, no trailing slash but "/"
  std::string ambiguity;  // why two servers could read it differently; empty if they could not
};

// `target` is the path of a request target, with or without "?query". "" is "/".
[[nodiscard]] UrlPath normalise_path(std::string_view target);

// A path of a rule: "*" is any run of characters within a segment, "**" any run at all; "/x/**" also
// matches "/x", "/x/**/y" also "/x/y". Compared with UrlPath::path. `deny` ignores case, since some
// origins do; `allow` does not.
class PathPattern {
 public:
  [[nodiscard]] static Result<PathPattern> parse(std::string_view text);
  [[nodiscard]] bool matches(std::string_view path, bool ignore_case = false) const;
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace leash::oci
