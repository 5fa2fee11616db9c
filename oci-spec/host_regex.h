// The regexes of `ignore_hosts`, matched in linear time.
//
// The text they are matched with comes from the container, so a backtracking matcher (std::regex,
// PCRE) would let it burn the proxy's CPU or stack. This one runs a Thompson NFA over a small
// dialect: literals, ., [classes], \d \w \s and their negations, groups, |, * + ? {m,n} (lazy forms
// too), ^ $. Anything else is an error at create, never a silently different meaning.
#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace leash::oci {

class HostRegex {
 public:
  [[nodiscard]] static Result<HostRegex> compile(std::string_view text);

  // Older Leash searched anywhere in "host:port". Here a match begins at the host's start or after a
  // dot, and ends at the end of the host (then the port is 443) or of "host:port": a name such as
  // pinned.example.com.evil.test must not slip through an expression that forgot its "$".
  [[nodiscard]] bool matches(std::string_view host, uint16_t port) const;

  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  enum class Op : uint8_t { kSet, kSplit, kJump, kBegin, kEnd, kMatch };
  struct Instruction {
    Op op = Op::kMatch;
    int32_t first = 0;   // kSet: index in sets_; kSplit, kJump: target relative to this instruction
    int32_t second = 0;  // kSplit: the other target
  };
  friend class RegexCompiler;

  [[nodiscard]] bool matches_rest(std::string_view subject, size_t begin) const;
  void follow(std::vector<uint32_t>& threads, std::vector<char>& seen, uint32_t start, bool at_begin, bool at_end) const;

  std::string text_;
  std::vector<Instruction> program_;
  std::vector<std::bitset<256>> sets_;
};

}  // namespace leash::oci
