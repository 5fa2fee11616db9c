// Heads and bodies are read within their bounds; cutting them differently changes nothing; and what is
// accepted has none of the forms that smuggle.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "proxy/http1_body.h"
#include "proxy/http1_head.h"

namespace {

using namespace leash::proxy;

void require(bool claim) {
  if (!claim) std::abort();
}

HeadStatus scan(std::string_view bytes, size_t step, size_t& length) {
  HeadScanner scanner;
  HeadProblem problem;
  HeadStatus status = HeadStatus::kIncomplete;
  for (size_t size = 0; size < bytes.size() && status == HeadStatus::kIncomplete;) {
    size = std::min(bytes.size(), size + step);
    status = scanner.scan(bytes.substr(0, size), length, problem);
  }
  return status;
}

void check_head(std::string_view head, const MessageHead& parsed) {
  require(parsed.bytes == head);
  require(!(parsed.is_chunked && parsed.has_length));
  for (size_t i = 0; i < head.size(); ++i) {
    if (head[i] == '\n') require(i > 0 && head[i - 1] == '\r');
    if (head[i] == '\r') require(i + 1 < head.size() && head[i + 1] == '\n');
    require(head[i] != '\0');
  }
  for (const Header& header : parsed.headers) require(!header.name.empty() && header.name.find(' ') == std::string_view::npos);
}

struct Body {
  BodyStatus status = BodyStatus::kMore;
  size_t consumed = 0;
  std::string payload;
};

Body read_body(std::string_view raw, size_t step) {
  BodyScanner scanner(BodyKind::kChunked, 0);
  Body body;
  while (body.consumed < raw.size() && body.status == BodyStatus::kMore) {
    const std::string_view part = raw.substr(body.consumed, step);
    std::vector<Piece> pieces;
    size_t consumed = 0;
    body.status = scanner.scan(part, consumed, pieces);
    for (const Piece& piece : pieces) body.payload += part.substr(piece.offset, piece.length);
    body.consumed += consumed;
  }
  return body;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  size_t length = 0;
  size_t again = 0;
  const HeadStatus status = scan(bytes, size, length);
  require(scan(bytes, 1, again) == status);
  if (status != HeadStatus::kComplete) return 0;
  require(length == again && length <= size);
  const std::string_view head = bytes.substr(0, length);
  RequestHead request;
  ResponseHead response;
  HeadProblem problem;
  if (parse_request_head(head, request, problem)) {
    check_head(head, request);
    require(!request.host.empty() && !request.method.empty());
    require(request.method == "CONNECT" || !request.path.empty());
  } else {
    require(problem.status >= 400 && !problem.text.empty());
  }
  if (parse_response_head(head, response, problem)) check_head(head, response);
  const std::string_view rest = bytes.substr(length);
  const Body whole = read_body(rest, rest.size());
  const Body slow = read_body(rest, 1);
  require(whole.status == slow.status && whole.consumed == slow.consumed && whole.payload == slow.payload);
  return 0;
}
