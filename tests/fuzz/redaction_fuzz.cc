// However an answer is cut into reads and chunks: nothing is lost or moved, and the value is not in it.
// The first two bytes of the input choose the sizes of chunks and reads.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "proxy/redaction.h"

namespace {

using namespace leash::proxy;

constexpr std::string_view kValue = "sk-real-0123456789abcdef";
constexpr std::string_view kPlaceholder = "sk-fake-ZZZZZZZZZZZZZZZZ";

void require(bool claim) {
  if (!claim) std::abort();
}

std::string payload_of(std::string_view raw) {
  BodyScanner scanner(BodyKind::kChunked, 0);
  std::vector<Piece> pieces;
  size_t consumed = 0;
  require(scanner.scan(raw, consumed, pieces) == BodyStatus::kDone && consumed == raw.size());
  std::string payload;
  for (const Piece& piece : pieces) payload += raw.substr(piece.offset, piece.length);
  return payload;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  const size_t chunk = 1 + data[0] % 64;
  const size_t step = 1 + data[1] % 64;
  const std::string text(reinterpret_cast<const char*>(data) + 2, size - 2);
  std::string raw;
  for (size_t i = 0; i < text.size(); i += chunk) {
    const std::string part = text.substr(i, chunk);
    char line[20];
    std::snprintf(line, sizeof line, "%zx\r\n", part.size());
    raw += line + part + "\r\n";
  }
  raw += "0\r\n\r\n";
  const auto patterns = std::make_shared<const PatternSet>(
      std::vector<Replacement>{{std::string(kValue), std::string(kPlaceholder)}});
  StreamRedactor redactor(patterns);
  BodyScanner scanner(BodyKind::kChunked, 0);
  std::string out;
  for (size_t i = 0; i < raw.size(); i += step) {
    const std::string_view part = std::string_view(raw).substr(i, step);
    std::vector<Piece> pieces;
    size_t consumed = 0;
    require(scanner.scan(part, consumed, pieces) != BodyStatus::kBad);
    redactor.pass(part, pieces, scanner.done(), out);
  }
  require(out.size() == raw.size());
  std::string wanted = text;
  for (size_t at = wanted.find(kValue); at != std::string::npos; at = wanted.find(kValue)) {
    wanted.replace(at, kValue.size(), kPlaceholder);
  }
  // A value that the end cuts short is one as well.
  for (size_t length = kValue.size() - 1; length >= PatternSet::kMinimum; --length) {
    if (!wanted.ends_with(kValue.substr(0, length))) continue;
    wanted.replace(wanted.size() - length, length, kPlaceholder.substr(0, length));
    break;
  }
  require(payload_of(out) == wanted);
  return 0;
}
