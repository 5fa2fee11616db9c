#include "base/args.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace leash::args {

namespace {

// Calls `use` for each spelling in "bundle, b".
template <class Use>
void for_each_name(std::string_view names, Use use) {
  while (!names.empty()) {
    const size_t comma = names.find(',');
    std::string_view name = names.substr(0, comma);
    while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
    use(name);
    if (comma == std::string_view::npos) return;
    names.remove_prefix(comma + 1);
  }
}

std::string_view key_of(const Flag& flag) { return flag.names.substr(0, flag.names.find(',')); }

const Flag* find(std::span<const Flag> flags, std::string_view name) {
  for (const Flag& flag : flags) {
    bool is_it = false;
    for_each_name(flag.names, [&](std::string_view spelling) { is_it = is_it || spelling == name; });
    if (is_it) return &flag;
  }
  return nullptr;
}

// Go's strconv.ParseBool.
bool is_true(std::string_view text) {
  return text == "1" || text == "t" || text == "T" || text == "true" || text == "TRUE" || text == "True";
}
bool is_false(std::string_view text) {
  return text == "0" || text == "f" || text == "F" || text == "false" || text == "FALSE" || text == "False";
}

}  // namespace

bool Parsed::is_set(std::string_view name) const {
  const auto found = values_.find(name);
  return found != values_.end() && is_true(found->second.back());
}

std::string Parsed::value(std::string_view name, std::string_view fallback) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::string(fallback) : found->second.back();
}

std::vector<std::string> Parsed::list(std::string_view name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::vector<std::string>() : found->second;
}

Result<int> Parsed::integer(std::string_view name, int fallback) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return fallback;
  const std::string& text = found->second.back();
  int number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || end != text.data() + text.size()) {
    return Error(EINVAL, "invalid value \"" + text + "\" for flag -" + std::string(name) + ": parse error");
  }
  return number;
}

Result<Parsed> parse(std::span<const Flag> flags, std::span<const std::string> words, bool stops_at_positional) {
  Parsed parsed;
  for (size_t i = 0; i < words.size(); ++i) {
    std::string_view word = words[i];
    if (word == "--") {
      parsed.positionals_.insert(parsed.positionals_.end(), words.begin() + static_cast<ptrdiff_t>(i) + 1, words.end());
      break;
    }
    if (word.size() < 2 || word[0] != '-') {
      if (stops_at_positional) {
        parsed.positionals_.insert(parsed.positionals_.end(), words.begin() + static_cast<ptrdiff_t>(i), words.end());
        break;
      }
      parsed.positionals_.emplace_back(word);
      continue;
    }
    word.remove_prefix(word[1] == '-' ? 2 : 1);
    const size_t equals = word.find('=');
    const std::string name(word.substr(0, equals));
    const Flag* flag = find(flags, name);
    if (flag == nullptr) return Error(EINVAL, "flag provided but not defined: -" + name);
    std::string value;
    if (equals != std::string_view::npos) {
      value = word.substr(equals + 1);
      if (flag->kind == Kind::kBool && !is_true(value) && !is_false(value)) {
        return Error(EINVAL, "invalid boolean value \"" + value + "\" for -" + name + ": parse error");
      }
    } else if (flag->kind == Kind::kBool) {
      value = "true";
    } else {
      if (i + 1 == words.size()) return Error(EINVAL, "flag needs an argument: -" + name);
      value = words[++i];
    }
    parsed.values_[std::string(key_of(*flag))].push_back(std::move(value));
  }
  return parsed;
}

std::string describe(std::span<const Flag> flags) {
  std::vector<std::pair<std::string, std::string>> lines;
  size_t width = 0;
  for (const Flag& flag : flags) {
    std::string left;
    for_each_name(flag.names, [&](std::string_view name) {
      if (!left.empty()) left += ", ";
      left += name.size() == 1 ? "-" : "--";
      left += name;
      if (flag.kind != Kind::kBool) left += " value";
    });
    std::string right(flag.help);
    if (!flag.default_text.empty()) {
      right += " (default: ";
      right += flag.default_text;
      right += ')';
    }
    width = std::max(width, left.size());
    lines.emplace_back(std::move(left), std::move(right));
  }
  std::string text;
  for (const auto& [left, right] : lines) {
    text += "   " + left + std::string(width - left.size() + 2, ' ') + right + "\n";
  }
  return text;
}

}  // namespace leash::args
