#include "proxy/http1_head.h"

#include <array>
#include <cstring>

namespace leash::proxy {

namespace {

// tchar of RFC 9110 section 5.6.2.
constexpr std::array<bool, 256> make_token_table() {
  std::array<bool, 256> table{};
  for (int c = '0'; c <= '9'; ++c) table[static_cast<size_t>(c)] = true;
  for (int c = 'a'; c <= 'z'; ++c) table[static_cast<size_t>(c)] = true;
  for (int c = 'A'; c <= 'Z'; ++c) table[static_cast<size_t>(c)] = true;
  for (const char c : std::string_view("!#$%&'*+-.^_`|~")) table[static_cast<size_t>(c)] = true;
  return table;
}
// field-value bytes: visible ASCII, blank, tab and obs-text; no other control characters.
constexpr std::array<bool, 256> make_value_table() {
  std::array<bool, 256> table{};
  for (size_t c = 0x20; c < 0x100; ++c) table[c] = c != 0x7f;
  table['\t'] = true;
  return table;
}
constexpr std::array<bool, 256> kToken = make_token_table();
constexpr std::array<bool, 256> kValue = make_value_table();

bool is_token(std::string_view text) {
  if (text.empty()) return false;
  for (const char c : text) {
    if (!kToken[static_cast<uint8_t>(c)]) return false;
  }
  return true;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; }

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool bad(HeadProblem& problem, std::string_view text, int status = 400) {
  problem = {status, text};
  return false;
}

// True of the name itself and of what reaches some origins' programs as it: CGI spells "-" and "_" alike.
bool reads_as(std::string_view name, std::string_view known) {
  if (name.size() != known.size()) return false;
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i] == '_' ? '-' : lower(name[i]);
    if (c != known[i]) return false;
  }
  return true;
}

// "Content_Length" for Content-Length.
bool imitates(std::string_view name, std::string_view framing_name) {
  return reads_as(name, framing_name) && name.find('_') != std::string_view::npos;
}

// Headers by which frameworks carry out another method, or serve another path, than the request line's.
bool read_overrides(const Header& header, RequestHead& head, HeadProblem& problem) {
  switch (header.name.size()) {
    case 13:
      if (reads_as(header.name, "x-rewrite-url")) head.overrides_path = true;
      if (!reads_as(header.name, "x-http-method")) return true;
      break;
    case 14:
      if (reads_as(header.name, "x-original-url")) head.overrides_path = true;
      return true;
    case 17:
      if (!reads_as(header.name, "x-method-override")) return true;
      break;
    case 22:
      if (!reads_as(header.name, "x-http-method-override")) return true;
      break;
    default:
      return true;
  }
  // With two of them we and the origin might obey different ones.
  if (!head.method_override.empty()) return bad(problem, "more than one method override");
  head.method_override = header.value;
  return true;
}

bool read_content_length(std::string_view value, MessageHead& head, HeadProblem& problem) {
  // Even an identical second one is refused: "4, 4" and two lines are read in different ways.
  if (head.has_length) return bad(problem, "more than one content-length");
  if (value.empty() || value.size() > 18) return bad(problem, "bad content-length");
  uint64_t length = 0;
  for (const char c : value) {
    if (!is_digit(c)) return bad(problem, "bad content-length");
    length = length * 10 + static_cast<uint64_t>(c - '0');
  }
  head.has_length = true;
  head.content_length = length;
  return true;
}

bool read_transfer_encoding(std::string_view value, MessageHead& head, HeadProblem& problem) {
  if (head.is_chunked) return bad(problem, "more than one transfer-encoding");
  if (!equals_ignoring_case(value, "chunked")) return bad(problem, "transfer-encoding is not chunked", 501);
  head.is_chunked = true;
  return true;
}

// The headers that both directions share. Returns false on a problem.
bool read_common(const Header& header, MessageHead& head, HeadProblem& problem) {
  switch (header.name.size()) {
    case 10:
      if (equals_ignoring_case(header.name, "connection")) {
        head.has_connection = true;
        head.says_close = head.says_close || list_has(header.value, "close");
        head.says_keep_alive = head.says_keep_alive || list_has(header.value, "keep-alive");
      }
      return true;
    case 14:
      if (equals_ignoring_case(header.name, "content-length")) return read_content_length(header.value, head, problem);
      if (imitates(header.name, "content-length")) return bad(problem, "imitated content-length");
      return true;
    case 17:
      if (equals_ignoring_case(header.name, "transfer-encoding")) {
        return read_transfer_encoding(header.value, head, problem);
      }
      if (imitates(header.name, "transfer-encoding")) return bad(problem, "imitated transfer-encoding");
      return true;
    default:
      return true;
  }
}

// Walks the field lines of a head whose start line ends at `position`.
template <class Read>
bool read_fields(std::string_view bytes, size_t position, MessageHead& head, HeadProblem& problem, Read read) {
  for (;;) {
    const size_t end = bytes.find('\n', position);
    if (end == std::string_view::npos) return bad(problem, "head has no end");
    const std::string_view line = bytes.substr(position, end + 1 - position);
    position = end + 1;
    if (line.size() < 2 || line[line.size() - 2] != '\r') return bad(problem, "bare line feed");
    if (line.size() == 2) break;
    if (head.headers.size() == kMaxHeaders) return bad(problem, "too many headers", 431);
    Header header;
    if (!parse_field_line(line.substr(0, line.size() - 2), header, problem)) return false;
    header.line = line;
    if (!read_common(header, head, problem)) return false;
    if (!read(header)) return false;
    head.headers.push_back(header);
  }
  if (position != bytes.size()) return bad(problem, "bytes after the head");
  if (head.is_chunked && head.has_length) return bad(problem, "both transfer-encoding and content-length");
  if (head.is_chunked && head.minor_version == 0) return bad(problem, "transfer-encoding in http/1.0");
  return true;
}

bool read_version(std::string_view text, int& minor_version) {
  if (text == "HTTP/1.1") {
    minor_version = 1;
    return true;
  }
  if (text == "HTTP/1.0") {
    minor_version = 0;
    return true;
  }
  return false;
}

// RFC 9112 section 3.2: origin-form, absolute-form, authority-form, asterisk-form.
bool read_target(RequestHead& head, HeadProblem& problem) {
  const std::string_view target = head.target;
  for (const char c : target) {
    // Not "#": a fragment is never sent. Not bytes above 0x7e: origins decode them differently.
    if (c <= 0x20 || c >= 0x7f || c == '#') return bad(problem, "bad character in the request target");
  }
  if (head.method == "CONNECT") {
    head.authority = target;
    return true;
  }
  if (target == "*") {
    if (head.method != "OPTIONS") return bad(problem, "bad request target");
    head.path = target;
    return true;
  }
  if (target.front() == '/') {
    head.path = target;
    return true;
  }
  const size_t colon = target.find("://");
  if (colon == std::string_view::npos) return bad(problem, "bad request target");
  head.scheme = target.substr(0, colon);
  if (!equals_ignoring_case(head.scheme, "http") && !equals_ignoring_case(head.scheme, "https")) {
    return bad(problem, "bad scheme in the request target");
  }
  const std::string_view rest = target.substr(colon + 3);
  const size_t slash = rest.find_first_of("/?");
  head.authority = rest.substr(0, slash);
  head.path = slash == std::string_view::npos ? std::string_view("/") : rest.substr(slash);
  if (head.path.front() == '?') return bad(problem, "request target without a path");
  if (head.authority.empty() || head.authority.find('@') != std::string_view::npos) {
    return bad(problem, "bad authority in the request target");
  }
  return true;
}

}  // namespace

bool equals_ignoring_case(std::string_view left, std::string_view right) {
  if (left.size() != right.size()) return false;
  for (size_t i = 0; i < left.size(); ++i) {
    if (lower(left[i]) != lower(right[i])) return false;
  }
  return true;
}

bool list_has(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    if (equals_ignoring_case(trim(list.substr(0, comma)), word)) return true;
    if (comma == std::string_view::npos) return false;
    list.remove_prefix(comma + 1);
  }
  return false;
}

bool split_authority(std::string_view authority, std::string_view& host, uint16_t& port) {
  port = 0;
  size_t end = authority.find(':');
  if (!authority.empty() && authority.front() == '[') {
    const size_t bracket = authority.find(']');
    if (bracket == std::string_view::npos) return false;
    end = bracket + 1 == authority.size() ? std::string_view::npos : bracket + 1;
    if (end != std::string_view::npos && authority[end] != ':') return false;
  }
  host = authority.substr(0, end);
  if (host.empty()) return false;
  if (end == std::string_view::npos) return true;
  const std::string_view digits = authority.substr(end + 1);
  if (digits.empty() || digits.size() > 5) return false;
  uint32_t number = 0;
  for (const char c : digits) {
    if (!is_digit(c)) return false;
    number = number * 10 + static_cast<uint32_t>(c - '0');
  }
  if (number == 0 || number > 0xffff) return false;
  port = static_cast<uint16_t>(number);
  return true;
}

HeadStatus HeadScanner::scan(std::string_view bytes, size_t& length, HeadProblem& problem) {
  for (;;) {
    const void* const found = scanned_ < bytes.size()
                                  ? std::memchr(bytes.data() + scanned_, '\n', bytes.size() - scanned_)
                                  : nullptr;
    if (found == nullptr) {
      scanned_ = bytes.size();
      if (bytes.size() <= kMaxHeadBytes) return HeadStatus::kIncomplete;
      problem = {431, "head is too large"};
      return HeadStatus::kBad;
    }
    const size_t end = static_cast<size_t>(static_cast<const char*>(found) - bytes.data());
    scanned_ = end + 1;
    if (scanned_ > kMaxHeadBytes) {
      problem = {431, "head is too large"};
      return HeadStatus::kBad;
    }
    if (end == line_start_ || bytes[end - 1] != '\r') {
      problem = {400, "bare line feed"};
      return HeadStatus::kBad;
    }
    const bool is_empty = end - 1 == line_start_;
    if (is_empty && line_start_ == 0) {
      problem = {400, "empty start line"};
      return HeadStatus::kBad;
    }
    line_start_ = scanned_;
    if (is_empty) {
      length = scanned_;
      return HeadStatus::kComplete;
    }
  }
}

bool parse_field_line(std::string_view line, Header& header, HeadProblem& problem) {
  if (line.empty() || line.front() == ' ' || line.front() == '\t') return bad(problem, "folded header line");
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return bad(problem, "header line without a colon");
  header.name = line.substr(0, colon);
  if (!is_token(header.name)) return bad(problem, "bad character in a header name");
  header.value = trim(line.substr(colon + 1));
  for (const char c : line.substr(colon + 1)) {
    if (!kValue[static_cast<uint8_t>(c)]) return bad(problem, "control character in a header value");
  }
  return true;
}

bool parse_request_head(std::string_view bytes, RequestHead& head, HeadProblem& problem) {
  head = RequestHead();
  head.bytes = bytes;
  head.headers.reserve(24);
  const size_t line_end = bytes.find("\r\n");
  if (line_end == std::string_view::npos) return bad(problem, "head has no end");
  const std::string_view line = bytes.substr(0, line_end);
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string_view::npos || last == first) return bad(problem, "bad request line");
  head.method = line.substr(0, first);
  head.target = line.substr(first + 1, last - first - 1);
  // Methods are case-sensitive (RFC 9110 section 9.1); origins that fold "get" to GET exist.
  if (!is_token(head.method) || head.method.size() > 20) return bad(problem, "bad method");
  for (const char c : head.method) {
    if (c != lower(c) || is_digit(c) || c == '-') continue;
    return bad(problem, "bad method");
  }
  const std::string_view version = line.substr(last + 1);
  if (!read_version(version, head.minor_version)) {
    return version.starts_with("HTTP/") ? bad(problem, "http version is not 1.1", 505)
                                        : bad(problem, "bad request line");
  }
  if (head.target.empty()) return bad(problem, "bad request target");
  if (!read_target(head, problem)) return false;
  bool has_host = false;
  const bool read = read_fields(bytes, line_end + 2, head, problem, [&](const Header& header) {
    switch (header.name.size()) {
      case 4:
        if (equals_ignoring_case(header.name, "host")) {
          if (has_host) return bad(problem, "more than one host");
          has_host = true;
          head.host = header.value;
        }
        return true;
      case 6:
        if (equals_ignoring_case(header.name, "expect")) {
          if (!equals_ignoring_case(header.value, "100-continue")) return bad(problem, "unknown expectation", 417);
          head.expects_continue = true;
        }
        return true;
      case 7:
        if (equals_ignoring_case(header.name, "upgrade") && head.upgrade.empty()) head.upgrade = header.value;
        return true;
      default:
        return read_overrides(header, head, problem);
    }
  });
  if (!read) return false;
  if (!has_host || head.host.empty()) return bad(problem, "no host");
  return true;
}

bool parse_response_head(std::string_view bytes, ResponseHead& head, HeadProblem& problem) {
  head = ResponseHead();
  head.bytes = bytes;
  head.headers.reserve(24);
  const size_t line_end = bytes.find("\r\n");
  if (line_end == std::string_view::npos) return bad(problem, "head has no end");
  const std::string_view line = bytes.substr(0, line_end);
  // "HTTP/1.1 200" and, after a blank, any reason phrase or none.
  if (line.size() < 12 || !read_version(line.substr(0, 8), head.minor_version) || line[8] != ' ' ||
      (line.size() > 12 && line[12] != ' ')) {
    return bad(problem, "bad status line");
  }
  for (size_t i = 9; i < 12; ++i) {
    if (!is_digit(line[i])) return bad(problem, "bad status line");
    head.status = head.status * 10 + (line[i] - '0');
  }
  if (head.status < 100) return bad(problem, "bad status line");
  for (const char c : line.substr(12)) {
    if (!kValue[static_cast<uint8_t>(c)]) return bad(problem, "bad status line");
  }
  return read_fields(bytes, line_end + 2, head, problem, [&](const Header& header) {
    if (header.name.size() == 16 && equals_ignoring_case(header.name, "content-encoding") && !header.value.empty() &&
        !equals_ignoring_case(header.value, "identity")) {
      head.is_encoded = true;
    }
    return true;
  });
}

BodyKind RequestHead::body_kind() const {
  if (is_chunked) return BodyKind::kChunked;
  return content_length > 0 ? BodyKind::kLength : BodyKind::kNone;
}

BodyKind ResponseHead::body_kind(bool to_head_request) const {
  if (to_head_request || status < 200 || status == 204 || status == 304) return BodyKind::kNone;
  if (is_chunked) return BodyKind::kChunked;
  if (has_length) return content_length > 0 ? BodyKind::kLength : BodyKind::kNone;
  return BodyKind::kUntilClose;
}

}  // namespace leash::proxy
