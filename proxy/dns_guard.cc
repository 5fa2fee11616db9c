#include "proxy/dns_guard.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace leash::proxy {
namespace {

constexpr size_t kMaxLabel = 48;   // the longest of well-known services: 32 hex digits and a prefix
constexpr size_t kMaxLabels = 5;
constexpr size_t kMaxTotal = 96;
constexpr size_t kRandomLength = 24;  // shorter labels have too few letters to tell
constexpr double kRandomBits = 4.1;   // words and hyphens stay below, base32 and base64 above
constexpr size_t kHexLength = 34;     // an MD5 in hex is a common bucket name; more is data

bool is_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// Shannon entropy in bits per character.
double entropy(std::string_view text) {
  std::array<size_t, 256> counts{};
  for (const char c : text) ++counts[static_cast<unsigned char>(c)];
  double bits = 0;
  for (const size_t count : counts) {
    if (count == 0) continue;
    const double share = static_cast<double>(count) / static_cast<double>(text.size());
    bits -= share * std::log2(share);
  }
  return bits;
}

}  // namespace

bool TokenBucket::take(Time now) {
  if (last_ != Time{}) {
    tokens_ = std::min(burst_, tokens_ + per_second_ * std::chrono::duration<double>(now - last_).count());
  }
  last_ = now;
  if (tokens_ < 1) return false;
  tokens_ -= 1;
  return true;
}

bool looks_like_data(std::string_view labels) {
  if (labels.size() > kMaxTotal) return true;
  size_t count = 0;
  std::string letters;
  while (!labels.empty()) {
    const size_t dot = std::min(labels.find('.'), labels.size());
    const std::string_view label = labels.substr(0, dot);
    if (++count > kMaxLabels || label.size() > kMaxLabel) return true;
    if (label.size() >= kHexLength && is_hex(label)) return true;
    if (label.size() >= kRandomLength && !is_hex(label) && entropy(label) > kRandomBits) return true;
    letters += label;
    labels.remove_prefix(std::min(dot + 1, labels.size()));
  }
  // The same, cut into short labels.
  if (letters.size() > kHexLength && is_hex(letters)) return true;
  return letters.size() >= 2 * kRandomLength && entropy(letters) > kRandomBits + 0.3;
}

DnsGuard::Answer DnsGuard::may_look_up(std::string_view host, std::string_view labels, TokenBucket::Time now) {
  if (labels.empty()) return lookups_.take(now) ? Answer::kYes : Answer::kTooFast;
  if (looks_like_data(labels)) return Answer::kLooksLikeData;
  const std::string name(host);
  if (const auto known = known_.find(name); known != known_.end()) {
    order_.splice(order_.end(), order_, known->second);
    return lookups_.take(now) ? Answer::kYes : Answer::kTooFast;
  }
  if (!new_names_.take(now) || !lookups_.take(now)) return Answer::kTooFast;
  order_.push_back(name);
  known_.emplace(name, std::prev(order_.end()));
  if (known_.size() > kMaxKnown) {
    known_.erase(order_.front());
    order_.pop_front();
  }
  return Answer::kYes;
}

}  // namespace leash::proxy
