// The head of an HTTP/1.1 message (RFC 9112), parsed strictly: whatever two implementations are known
// to read differently is an error, since a request that we and the origin read differently is a way
// around the policy (request smuggling). Pure code over bytes; nothing is copied or normalised, the
// views point into the caller's buffer, and what is forwarded is those very bytes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace leash::proxy {

inline constexpr size_t kMaxHeadBytes = size_t{64} << 10;
inline constexpr size_t kMaxHeaders = 256;

struct Header {
  std::string_view name;   // as sent
  std::string_view value;  // without surrounding blanks
  std::string_view line;   // the whole line with its CRLF
};

enum class BodyKind { kNone, kLength, kChunked, kUntilClose };

// What the framing headers and Connection say; the same in both directions.
struct MessageHead {
  std::string_view bytes;  // the whole head with its empty line
  std::vector<Header> headers;
  int minor_version = 1;
  bool has_length = false;
  uint64_t content_length = 0;
  bool is_chunked = false;
  bool says_close = false;       // Connection: close
  bool says_keep_alive = false;  // Connection: keep-alive
  bool has_connection = false;   // any Connection header

  // The connection lives on after this message, RFC 9112 section 9.3.
  [[nodiscard]] bool keeps_alive() const { return !says_close && (minor_version == 1 || says_keep_alive); }
};

struct RequestHead : MessageHead {
  std::string_view method;
  std::string_view target;     // as sent
  std::string_view host;       // value of Host
  std::string_view scheme;     // of an absolute-form target, else empty
  std::string_view authority;  // of an absolute-form target or CONNECT, else empty
  std::string_view path;       // path and query, "/" if an absolute form has none; "*" for OPTIONS *
  std::string_view upgrade;    // value of the first Upgrade; empty if none
  std::string_view method_override;  // value of X-HTTP-Method-Override and its like; empty if none
  bool overrides_path = false;       // X-Original-URL and its like, which some origins route by
  bool expects_continue = false;

  [[nodiscard]] BodyKind body_kind() const;
};

struct ResponseHead : MessageHead {
  int status = 0;
  bool is_encoded = false;  // a Content-Encoding, or several, that are not "identity"

  // RFC 9112 section 6.3.
  [[nodiscard]] BodyKind body_kind(bool to_head_request) const;
};

enum class HeadStatus { kIncomplete, kComplete, kBad };

// Why a head is bad. `status` is what to answer (400, 431, 501, 505).
struct HeadProblem {
  int status = 400;
  std::string_view text;
};

// Finds the end of a head without reading any byte twice; bare LF is found at once.
class HeadScanner {
 public:
  // `bytes`: all so far of the same message. *length: of the whole head, when complete.
  [[nodiscard]] HeadStatus scan(std::string_view bytes, size_t& length, HeadProblem& problem);

 private:
  size_t line_start_ = 0;
  size_t scanned_ = 0;
};

// `bytes`: exactly one head, as HeadScanner measured it.
[[nodiscard]] bool parse_request_head(std::string_view bytes, RequestHead& head, HeadProblem& problem);
[[nodiscard]] bool parse_response_head(std::string_view bytes, ResponseHead& head, HeadProblem& problem);

// One field line without its CRLF, as in a head or a trailer section.
[[nodiscard]] bool parse_field_line(std::string_view line, Header& header, HeadProblem& problem);

[[nodiscard]] bool equals_ignoring_case(std::string_view left, std::string_view right);
// True if the comma-separated `list` has `word` (RFC 9110 section 5.6.1), ignoring case.
[[nodiscard]] bool list_has(std::string_view list, std::string_view word);

// "host:port" or "[v6]:port" taken apart; false if it is neither. No port: 0.
[[nodiscard]] bool split_authority(std::string_view authority, std::string_view& host, uint16_t& port);

}  // namespace leash::proxy
