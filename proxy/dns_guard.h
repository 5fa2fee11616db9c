// DnsGuard: what a name under an allowed suffix may look like, and how many of them there may be.
//
// `x.ok.test` reaches whoever runs ok.test's zone even when nobody ever connects, so each name is a
// message. Names that rules spell out say nothing; free labels are bounded in length, in how random
// they look, and in how many new ones there are in a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>

namespace leash::proxy {

// A bucket of tokens that fills with time.
class TokenBucket {
 public:
  using Time = std::chrono::steady_clock::time_point;

  TokenBucket(double per_second, double burst) : per_second_(per_second), burst_(burst), tokens_(burst) {}
  [[nodiscard]] bool take(Time now);

 private:
  double per_second_;
  double burst_;
  double tokens_;
  Time last_{};
};

// True for labels that look like data: very long ones, many of them, or long random ones.
[[nodiscard]] bool looks_like_data(std::string_view labels);

class DnsGuard {
 public:
  enum class Answer { kYes, kLooksLikeData, kTooFast };

  // `queries_per_second`: the policy's dns.rate. A 25th of it is how many new names a second may come up.
  explicit DnsGuard(uint32_t queries_per_second)
      : lookups_(queries_per_second, 2.0 * queries_per_second),
        new_names_(queries_per_second / 25.0, queries_per_second) {}

  // To be asked before a lookup goes out (not for what the cache answers). `labels`: those of `host`
  // that no rule spells out.
  [[nodiscard]] Answer may_look_up(std::string_view host, std::string_view labels, TokenBucket::Time now);

 private:
  static constexpr size_t kMaxKnown = 2048;

  TokenBucket lookups_;
  TokenBucket new_names_;
  std::list<std::string> order_;  // known names, longest unused first
  std::unordered_map<std::string, std::list<std::string>::iterator> known_;
};

}  // namespace leash::proxy
