// Redaction: a real value that an origin sends back (an echo service, an error page) never reaches the
// container. It is overwritten in place by its placeholder, cut or padded to the value's length, so
// that no framing changes. Works over borders of reads and of chunks: raw bytes from the start of a
// possible match on are held back until it is decided.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/http1_body.h"
#include "proxy/pattern_set.h"

namespace leash::proxy {

class StreamRedactor {
 public:
  // nullptr: nothing to look for.
  explicit StreamRedactor(std::shared_ptr<const PatternSet> patterns) : patterns_(std::move(patterns)) {}

  [[nodiscard]] bool idle() const { return patterns_ == nullptr || patterns_->empty(); }
  // Takes raw bytes of a message, of which `pieces` are payload, and appends to `out` those that may
  // go on. At the end of the message nothing is held back.
  void pass(std::string_view raw, const std::vector<Piece>& pieces, bool is_end, std::string& out);
  [[nodiscard]] size_t count() const { return count_; }

 private:
  size_t pass_framing(bool is_end);

  std::shared_ptr<const PatternSet> patterns_;  // shared with the secret store, which may be changed by exec
  std::string held_;           // raw bytes that wait
  std::vector<Piece> pieces_;  // payload within held_
  size_t count_ = 0;
};

}  // namespace leash::proxy
