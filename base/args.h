// Command lines as Go's flag package and urfave/cli read them, because engines were written for that:
// `-name` and `--name` are the same, a value follows as `--name value` or `--name=value`, `--` ends the
// flags. A flag after the first positional argument counts too, unless the command takes a whole command
// line of its own (exec).
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace leash::args {

enum class Kind { kBool, kValue, kList };  // kList: may be given several times

struct Flag {
  std::string_view names;  // "bundle, b": the first one is the key in Parsed
  Kind kind = Kind::kValue;
  std::string_view help;
  std::string_view default_text = {};  // shown in the help only
};

class Parsed {
 public:
  [[nodiscard]] bool has(std::string_view name) const { return values_.find(name) != values_.end(); }
  // A boolean flag: given, and not as "=false".
  [[nodiscard]] bool is_set(std::string_view name) const;
  // The last value, or `fallback`.
  [[nodiscard]] std::string value(std::string_view name, std::string_view fallback = {}) const;
  [[nodiscard]] std::vector<std::string> list(std::string_view name) const;
  // An integer value, or `fallback` when absent. The error is Go's.
  [[nodiscard]] Result<int> integer(std::string_view name, int fallback) const;
  [[nodiscard]] const std::vector<std::string>& positionals() const { return positionals_; }

 private:
  friend Result<Parsed> parse(std::span<const Flag> flags, std::span<const std::string> words,
                              bool stops_at_positional);
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
  std::vector<std::string> positionals_;
};

// `words` without the program's and the command's name. Errors: "flag provided but not defined: -x",
// "flag needs an argument: -x", `invalid boolean value "x" for -y: parse error`.
[[nodiscard]] Result<Parsed> parse(std::span<const Flag> flags, std::span<const std::string> words,
                                   bool stops_at_positional);

// The OPTIONS section: one aligned line for each flag, three spaces of indent.
[[nodiscard]] std::string describe(std::span<const Flag> flags);

}  // namespace leash::args
