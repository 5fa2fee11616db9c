#include "proxy/pattern_set.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <cstring>

namespace leash::proxy {

namespace {

size_t block(const char* at) {
  return static_cast<size_t>(static_cast<uint8_t>(at[0])) << 8 | static_cast<uint8_t>(at[1]);
}

}  // namespace

PatternSet::PatternSet(std::vector<Replacement> replacements) : replacements_(std::move(replacements)) {
  std::erase_if(replacements_, [](const Replacement& item) { return item.pattern.size() < kMinimum; });
  if (replacements_.empty()) return;
  window_ = 255;
  for (const Replacement& item : replacements_) window_ = std::min(window_, item.pattern.size());
  shift_.assign(size_t{1} << 16, static_cast<uint8_t>(window_ - 1));
  for (const Replacement& item : replacements_) {
    for (size_t i = 0; i + 2 <= window_; ++i) {
      uint8_t& shift = shift_[block(item.pattern.data() + i)];
      shift = std::min(shift, static_cast<uint8_t>(window_ - 2 - i));
    }
  }
}

PatternSet::~PatternSet() {
  for (Replacement& item : replacements_) OPENSSL_cleanse(item.pattern.data(), item.pattern.size());
}

size_t PatternSet::replace(std::span<char> text) const {
  size_t count = 0;
  size_t position = 0;
  while (position + window_ <= text.size()) {
    const uint8_t shift = shift_[block(text.data() + position + window_ - 2)];
    if (shift != 0) {
      position += shift;
      continue;
    }
    size_t matched = 0;
    for (const Replacement& item : replacements_) {
      const size_t length = item.pattern.size();
      if (length > text.size() - position || std::memcmp(text.data() + position, item.pattern.data(), length) != 0) {
        continue;
      }
      std::memcpy(text.data() + position, item.replacement.data(), length);
      matched = length;
      ++count;
      break;
    }
    position += std::max<size_t>(matched, 1);
  }
  return count;
}

size_t PatternSet::open_match(std::string_view text) const {
  const Replacement* ignored = nullptr;
  return open_match(text, ignored);
}

size_t PatternSet::open_match(std::string_view text, const Replacement*& whose) const {
  size_t longest = 0;
  for (const Replacement& item : replacements_) {
    const std::string_view pattern = item.pattern;
    for (size_t length = std::min(text.size(), pattern.size() - 1); length > longest; --length) {
      if (text.substr(text.size() - length) != pattern.substr(0, length)) continue;
      longest = length;
      whose = &item;
    }
  }
  return longest;
}

size_t PatternSet::replace_open_match(std::span<char> text) const {
  const Replacement* whose = nullptr;
  const size_t length = open_match({text.data(), text.size()}, whose);
  if (length < kMinimum || std::memcmp(text.data() + text.size() - length, whose->replacement.data(), length) == 0) return 0;
  std::memcpy(text.data() + text.size() - length, whose->replacement.data(), length);
  return 1;
}

}  // namespace leash::proxy
