// Where a message's body ends, and which of its raw bytes are payload. The raw bytes are forwarded as
// they came, chunk sizes, extensions and trailers included; this only follows along, strictly, and
// stops at the first byte that another implementation could read differently.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/http1_head.h"

namespace leash::proxy {

enum class BodyStatus { kMore, kDone, kBad };

// A run of payload within the raw bytes of one scan().
struct Piece {
  size_t offset;
  size_t length;
};

class BodyScanner {
 public:
  BodyScanner() = default;
  BodyScanner(BodyKind kind, uint64_t length);

  // Follows `raw`. *consumed: how many of its bytes belong to this message; the payload among them is
  // appended to `pieces`. kBad: the byte at *consumed has no place there.
  [[nodiscard]] BodyStatus scan(std::string_view raw, size_t& consumed, std::vector<Piece>& pieces);

  [[nodiscard]] bool done() const { return state_ == State::kDone; }
  // The peer has closed: is the body whole? True for a body that lasts until the close.
  [[nodiscard]] bool complete_at_close() const { return done() || kind_ == BodyKind::kUntilClose; }
  [[nodiscard]] BodyKind kind() const { return kind_; }
  [[nodiscard]] uint64_t payload_bytes() const { return payload_bytes_; }
  [[nodiscard]] std::string_view problem() const { return problem_; }

 private:
  enum class State {
    kPayload,        // of a chunk, of a length, or until close
    kSizeFirst,      // first digit of a chunk size
    kSize,           // further digits
    kExtension,      // after ";": tolerated, bounded
    kSizeLf,         // LF after a chunk size
    kPayloadCr,      // CR after a chunk's payload
    kPayloadLf,
    kTrailerStart,   // first byte of a trailer line, or of the empty line
    kTrailer,        // within a trailer line
    kTrailerLf,      // LF of a trailer line
    kEndLf,          // LF of the empty line that ends the message
    kDone,
    kBad,
  };

  [[nodiscard]] bool step(char byte);
  bool fail(std::string_view problem);

  BodyKind kind_ = BodyKind::kNone;
  State state_ = State::kDone;
  uint64_t left_ = 0;  // of the chunk or the length
  uint64_t payload_bytes_ = 0;
  uint32_t size_digits_ = 0;
  uint32_t line_bytes_ = 0;    // of the extension
  uint32_t trailer_bytes_ = 0;
  std::string trailer_;        // the line at hand
  std::string_view problem_;
};

}  // namespace leash::proxy
