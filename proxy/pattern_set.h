// PatternSet: finds any of a few byte strings in bulk, in one pass that skips most bytes (Wu and
// Manber's method, blocks of two bytes). For redaction: every response of a host that holds a secret
// is searched for the real value and its encodings.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace leash::proxy {

struct Replacement {
  std::string pattern;
  std::string replacement;  // of the same length
};

class PatternSet {
 public:
  static constexpr size_t kMinimum = 8;  // shorter ones would hit innocent text

  PatternSet() = default;
  // Replacements whose pattern is shorter than kMinimum are left out.
  explicit PatternSet(std::vector<Replacement> replacements);
  ~PatternSet();
  PatternSet(const PatternSet&) = delete;
  PatternSet& operator=(const PatternSet&) = delete;

  [[nodiscard]] bool empty() const { return replacements_.empty(); }
  // Overwrites every occurrence. Returns how many there were.
  size_t replace(std::span<char> text) const;
  // Length of the longest end of `text` that is a proper beginning of a pattern.
  [[nodiscard]] size_t open_match(std::string_view text) const;
  // For a text that ends for good: overwrites that end as well, if it has kMinimum bytes. A value cut
  // short is still most of it.
  size_t replace_open_match(std::span<char> text) const;

 private:
  [[nodiscard]] size_t open_match(std::string_view text, const Replacement*& whose) const;

  std::vector<Replacement> replacements_;
  size_t window_ = 0;           // the shortest pattern
  std::vector<uint8_t> shift_;  // by a hash of two bytes: how far the window may move
};

}  // namespace leash::proxy
