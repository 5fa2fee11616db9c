#include "proxy/http1_body.h"

#include <string>

#include "tests/unit/catch.h"

namespace leash::proxy {
namespace {

struct Outcome {
  BodyStatus status = BodyStatus::kMore;
  std::string payload;
  size_t consumed = 0;
};

// Scans `raw` in parts of `step` bytes.
Outcome scan(BodyScanner scanner, const std::string& raw, size_t step) {
  Outcome outcome;
  while (outcome.consumed < raw.size() && outcome.status == BodyStatus::kMore) {
    const std::string_view part = std::string_view(raw).substr(outcome.consumed, step);
    std::vector<Piece> pieces;
    size_t consumed = 0;
    outcome.status = scanner.scan(part, consumed, pieces);
    for (const Piece& piece : pieces) outcome.payload += part.substr(piece.offset, piece.length);
    outcome.consumed += consumed;
  }
  return outcome;
}

}  // namespace

TEST_CASE("http1_body: a chunked body ends at its end, however it is cut") {
  const std::string body = "5\r\nhello\r\nA;x=\"y\"\r\n0123456789\r\n000\r\nX-Sum: 1\r\nY: 2\r\n\r\n";
  for (size_t step = 1; step <= body.size() + 3; ++step) {
    const Outcome outcome = scan(BodyScanner(BodyKind::kChunked, 0), body + "GET", step);
    INFO(step);
    CHECK(outcome.status == BodyStatus::kDone);
    CHECK(outcome.payload == "hello0123456789");
    CHECK(outcome.consumed == body.size());
  }
}

TEST_CASE("http1_body: chunk framing that could be read differently is refused") {
  for (const char* const body :
       {"g\r\n", "\r\n", " 5\r\nhello\r\n", "5 \r\nhello\r\n", "+5\r\nhello\r\n", "0x5\r\nhello\r\n", "5\nhello\r\n",
        "5\r\nhello\n", "5\r\nhelloX\r\n", "5\r\nhello0\r\n\r\n", "1234567890123456\r\n", "5;a\nb\r\nhello\r\n", "5\rX",
        "0\r\nX-A : 1\r\n\r\n", "0\r\nX-A\r\n\r\n", "0\r\n X: 1\r\n\r\n", "0\r\nContent-Length: 4\r\n\r\n",
        "0\r\nTransfer-Encoding: chunked\r\n\r\n", "0\r\nHost: evil.test\r\n\r\n", "0\r\n\rX", "0\r\nX: 1\rY",
        "-1\r\n", "5,5\r\nhello\r\n"}) {
    INFO(body);
    CHECK(scan(BodyScanner(BodyKind::kChunked, 0), body, 1000).status == BodyStatus::kBad);
    CHECK(scan(BodyScanner(BodyKind::kChunked, 0), body, 1).status == BodyStatus::kBad);
  }
}

TEST_CASE("http1_body: a length is counted off and nothing behind it is taken") {
  const Outcome outcome = scan(BodyScanner(BodyKind::kLength, 5), "helloGET", 3);
  CHECK(outcome.status == BodyStatus::kDone);
  CHECK(outcome.payload == "hello");
  CHECK(outcome.consumed == 5);
}

TEST_CASE("http1_body: only a body until close is whole at the close") {
  CHECK(BodyScanner(BodyKind::kUntilClose, 0).complete_at_close());
  CHECK_FALSE(BodyScanner(BodyKind::kChunked, 0).complete_at_close());
  CHECK_FALSE(BodyScanner(BodyKind::kLength, 5).complete_at_close());
  CHECK(BodyScanner(BodyKind::kNone, 0).done());
}

TEST_CASE("http1_body: endless extensions and trailers are bounded") {
  CHECK(scan(BodyScanner(BodyKind::kChunked, 0), "5;" + std::string(1000, 'a'), 100).status == BodyStatus::kBad);
  CHECK(scan(BodyScanner(BodyKind::kChunked, 0), "0\r\nX: " + std::string(20000, 'a'), 100).status == BodyStatus::kBad);
}

}  // namespace leash::proxy
