// A YAML document as a tree of our own, each node with its line and column.
//
// yaml-cpp's own Node is not used: it keeps duplicate keys, follows aliases (a bomb in a few lines) and
// throws on access. Here anchors, aliases, tags, duplicate keys, second documents, NUL, invalid UTF-8
// and oversized input are errors, and the tree is plain data.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace leash::oci {

struct YamlNode {
  enum class Kind { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  int line = 1;
  int column = 1;
  bool is_plain = true;  // a scalar without quotes
  std::string text;
  std::vector<YamlNode> keys;   // kMap, in order
  std::vector<YamlNode> items;  // kList; kMap: the value of keys[i] is items[i]

  // "a list", "a map", "nothing", "'text'": the second half of "expected ..., found ...".
  [[nodiscard]] std::string description() const;
};

inline constexpr size_t kMaxYaml = size_t{256} << 10;

// Errors read "SOURCE:LINE:COLUMN: ...".
[[nodiscard]] Result<YamlNode> parse_yaml(const std::string& source, std::string_view text);
[[nodiscard]] Error yaml_error(const std::string& source, const YamlNode& node, std::string_view text);

}  // namespace leash::oci
