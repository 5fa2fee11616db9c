#include "proxy/http1_body.h"

#include <algorithm>

namespace leash::proxy {

namespace {

constexpr uint32_t kMaxExtension = 256;
constexpr uint32_t kMaxTrailers = 16 << 10;
// 15 hexadecimal digits: no overflow in anybody's 64-bit arithmetic.
constexpr uint32_t kMaxSizeDigits = 15;

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Fields that frame or route a message must not come behind it, RFC 9110 section 6.5.1.
bool is_forbidden_trailer(std::string_view name) {
  for (const std::string_view word : {"content-length", "transfer-encoding", "host", "connection", "trailer", "te",
                                      "upgrade", "authorization", "content-encoding", "content-type"}) {
    if (equals_ignoring_case(name, word)) return true;
  }
  return false;
}

}  // namespace

BodyScanner::BodyScanner(BodyKind kind, uint64_t length) : kind_(kind) {
  switch (kind) {
    case BodyKind::kNone:
      state_ = State::kDone;
      break;
    case BodyKind::kLength:
      left_ = length;
      state_ = length == 0 ? State::kDone : State::kPayload;
      break;
    case BodyKind::kChunked:
      state_ = State::kSizeFirst;
      break;
    case BodyKind::kUntilClose:
      state_ = State::kPayload;
      break;
  }
}

bool BodyScanner::fail(std::string_view problem) {
  problem_ = problem;
  state_ = State::kBad;
  return false;
}

// One byte of chunk framing.
bool BodyScanner::step(char byte) {
  switch (state_) {
    case State::kSizeFirst:
    case State::kSize: {
      const int digit = hex_value(byte);
      if (digit >= 0) {
        if (state_ == State::kSizeFirst) {
          left_ = 0;
          size_digits_ = 0;
        }
        if (++size_digits_ > kMaxSizeDigits) return fail("chunk size is too large");
        left_ = (left_ << 4) | static_cast<uint64_t>(digit);
        state_ = State::kSize;
        return true;
      }
      if (state_ == State::kSizeFirst) return fail("bad chunk size");
      if (byte == '\r') {
        state_ = State::kSizeLf;
        return true;
      }
      if (byte == ';') {
        line_bytes_ = 0;
        state_ = State::kExtension;
        return true;
      }
      return fail("bad chunk size");
    }
    case State::kExtension:
      if (byte == '\r') {
        state_ = State::kSizeLf;
        return true;
      }
      if (++line_bytes_ > kMaxExtension || (byte < 0x20 && byte != '\t') || byte == 0x7f) {
        return fail("bad chunk extension");
      }
      return true;
    case State::kSizeLf:
      if (byte != '\n') return fail("bad end of a chunk size");
      state_ = left_ == 0 ? State::kTrailerStart : State::kPayload;
      return true;
    case State::kPayloadCr:
      if (byte != '\r') return fail("bad end of a chunk");
      state_ = State::kPayloadLf;
      return true;
    case State::kPayloadLf:
      if (byte != '\n') return fail("bad end of a chunk");
      state_ = State::kSizeFirst;
      return true;
    case State::kTrailerStart:
      if (byte == '\r') {
        state_ = State::kEndLf;
        return true;
      }
      trailer_.clear();
      state_ = State::kTrailer;
      [[fallthrough]];
    case State::kTrailer:
      if (byte == '\r') {
        state_ = State::kTrailerLf;
        return true;
      }
      if (++trailer_bytes_ > kMaxTrailers) return fail("trailers are too large");
      trailer_ += byte;
      return true;
    case State::kTrailerLf: {
      if (byte != '\n') return fail("bad end of a trailer");
      Header header;
      HeadProblem problem;
      if (!parse_field_line(trailer_, header, problem)) return fail(problem.text);
      if (is_forbidden_trailer(header.name)) return fail("forbidden trailer");
      state_ = State::kTrailerStart;
      return true;
    }
    case State::kEndLf:
      if (byte != '\n') return fail("bad end of the body");
      state_ = State::kDone;
      return true;
    case State::kPayload:
    case State::kDone:
    case State::kBad:
      break;
  }
  return false;
}

BodyStatus BodyScanner::scan(std::string_view raw, size_t& consumed, std::vector<Piece>& pieces) {
  size_t position = 0;
  while (position < raw.size() && state_ != State::kDone) {
    if (state_ != State::kPayload) {
      if (!step(raw[position])) {
        consumed = position;
        return BodyStatus::kBad;
      }
      ++position;
      continue;
    }
    size_t length = raw.size() - position;
    if (kind_ != BodyKind::kUntilClose) {
      length = static_cast<size_t>(std::min<uint64_t>(length, left_));
      left_ -= length;
      if (left_ == 0) state_ = kind_ == BodyKind::kChunked ? State::kPayloadCr : State::kDone;
    }
    pieces.push_back({position, length});
    payload_bytes_ += length;
    position += length;
  }
  consumed = position;
  return state_ == State::kDone ? BodyStatus::kDone : BodyStatus::kMore;
}

}  // namespace leash::proxy
