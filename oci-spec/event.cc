#include "oci-spec/event.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "oci-spec/reasons.h"

namespace leash::oci {
namespace {

using nlohmann::json;

// What each field may take of a line, in bytes of output. Their sum is what keeps a line under
// kMaxEventLine whatever the texts are: the worst byte needs six characters.
constexpr size_t kHostLimit = 300;
constexpr size_t kPathLimit = 2048;
constexpr size_t kPreviewLimit = 8192;
constexpr size_t kRuleLimit = 512;
constexpr size_t kShortLimit = 128;
constexpr size_t kMaxSecrets = 16;
static_assert(3 * kHostLimit + kPathLimit + kPreviewLimit + kRuleLimit + (12 + kMaxSecrets) * kShortLimit + 1024 < kMaxEventLine);

constexpr char kHex[] = "0123456789abcdef";
constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD
constexpr std::string_view kEllipsis = "\xe2\x80\xa6";     // U+2026

// Length of the valid UTF-8 sequence at `i` (RFC 3629), 0 if there is none.
size_t sequence_length(std::string_view text, size_t i) {
  const auto at = [&](size_t k) { return static_cast<unsigned char>(text[i + k]); };
  const unsigned char c = at(0);
  const size_t length = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 0;
  if (length == 0 || i + length > text.size()) return 0;
  for (size_t k = 1; k < length; ++k) {
    if ((at(k) & 0xc0) != 0x80) return 0;
  }
  if ((c == 0xe0 && at(1) < 0xa0) || (c == 0xed && at(1) >= 0xa0) || (c == 0xf0 && at(1) < 0x90) || (c == 0xf4 && at(1) >= 0x90)) {
    return 0;
  }
  return length;
}

bool needs_care(unsigned char c) { return c < 0x20 || c >= 0x7f || c == '"' || c == '\\'; }

void append_number(std::string& out, uint64_t value) {
  char buffer[24];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value).ptr;
  out.append(buffer, end);
}

// Writes `"name":value` pairs with commas.
class LineWriter {
 public:
  explicit LineWriter(std::string& out) : out_(out) { out_ += '{'; }

  void number(std::string_view name, uint64_t value) {
    key(name);
    append_number(out_, value);
  }
  void number_or_null(std::string_view name, uint64_t value) {
    if (value == 0) return null(name);
    number(name, value);
  }
  void text(std::string_view name, std::string_view value, size_t limit) {
    key(name);
    append_json_string(out_, value, limit);
  }
  void text_or_null(std::string_view name, std::string_view value, size_t limit) {
    if (value.empty()) return null(name);
    text(name, value, limit);
  }
  void null(std::string_view name) {
    key(name);
    out_ += "null";
  }
  void truth(std::string_view name, bool value) {
    key(name);
    out_ += value ? "true" : "false";
  }
  // Seconds with microseconds, as a JSON number.
  void seconds(std::string_view name, int64_t time_us) {
    key(name);
    char buffer[32];
    const int length = std::snprintf(buffer, sizeof(buffer), "%lld.%06lld", static_cast<long long>(time_us / 1000000),
                                     static_cast<long long>(time_us % 1000000));
    out_.append(buffer, static_cast<size_t>(length));
  }
  void milliseconds(std::string_view name, double value) {
    key(name);
    if (!std::isfinite(value) || value < 0 || value > 1e12) value = 0;
    append_number(out_, static_cast<uint64_t>(value));
    const auto micro = static_cast<unsigned>((value - std::floor(value)) * 1000);
    const char digits[] = {'.', static_cast<char>('0' + micro / 100 % 10), static_cast<char>('0' + micro / 10 % 10),
                           static_cast<char>('0' + micro % 10)};
    out_.append(digits, sizeof(digits));
  }
  void list(std::string_view name, const std::vector<std::string>& values) {
    key(name);
    out_ += '[';
    for (size_t i = 0; i < std::min(values.size(), kMaxSecrets); ++i) {
      if (i != 0) out_ += ',';
      append_json_string(out_, values[i], kShortLimit);
    }
    out_ += ']';
  }
  void finish() { out_ += "}\n"; }

 private:
  void key(std::string_view name) {
    if (!first_) out_ += ',';
    first_ = false;
    out_ += '"';
    out_ += name;
    out_ += "\":";
  }

  std::string& out_;
  bool first_ = true;
};

// Reads fields of a parsed line; absent, null or of another type: the field's empty value.
class LineReader {
 public:
  explicit LineReader(const json& object) : object_(object) {}

  [[nodiscard]] std::string text(const char* name) const {
    const auto found = object_.find(name);
    return found != object_.end() && found->is_string() ? found->get<std::string>() : std::string();
  }
  [[nodiscard]] uint64_t number(const char* name) const {
    const auto found = object_.find(name);
    return found != object_.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
  }
  [[nodiscard]] double real(const char* name) const {
    const auto found = object_.find(name);
    return found != object_.end() && found->is_number() ? found->get<double>() : 0;
  }
  [[nodiscard]] bool truth(const char* name) const {
    const auto found = object_.find(name);
    return found != object_.end() && found->is_boolean() && found->get<bool>();
  }
  [[nodiscard]] std::vector<std::string> list(const char* name) const {
    std::vector<std::string> values;
    const auto found = object_.find(name);
    if (found == object_.end() || !found->is_array()) return values;
    for (const json& item : *found) {
      if (item.is_string()) values.push_back(item.get<std::string>());
    }
    return values;
  }
  [[nodiscard]] int64_t time_us() const { return std::llround(real("ts") * 1e6); }

 private:
  const json& object_;
};

Result<json> parse_line(std::string_view line) {
  if (line.size() > kMaxEventLine) return Error("log line longer than 16 KiB");
  json object = json::parse(line, nullptr, false);
  if (!object.is_object()) return Error("log line is not a JSON object");
  return object;
}

}  // namespace

std::string_view word(FlowState state) {
  switch (state) {
    case FlowState::kInspected: return "inspected";
    case FlowState::kPassed: return "passed";
    case FlowState::kBlocked: return "blocked";
  }
  return "blocked";
}

void append_json_string(std::string& out, std::string_view text, size_t limit) {
  out += '"';
  const size_t end = out.size() + limit;
  for (size_t i = 0; i < text.size();) {
    size_t plain = i;
    while (plain < text.size() && !needs_care(static_cast<unsigned char>(text[plain]))) ++plain;
    if (plain > i) {
      const size_t fits = std::min(plain - i, end - std::min(end, out.size()));
      out.append(text, i, fits);
      if (fits < plain - i) {
        out += kEllipsis;
        break;
      }
      i = plain;
      continue;
    }
    const auto c = static_cast<unsigned char>(text[i]);
    const size_t length = sequence_length(text, i);
    const bool is_c1 = length == 2 && c == 0xc2 && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (out.size() + 6 > end) {
      out += kEllipsis;
      break;
    }
    if (length == 0) {
      out += kReplacement;
      ++i;
      continue;
    }
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c < 0x20 || c == 0x7f || is_c1) {
      // Also DEL and C1: a log is read on terminals.
      const auto code = is_c1 ? static_cast<unsigned char>(text[i + 1]) : c;
      out += "\\u00";
      out += kHex[code >> 4];
      out += kHex[code & 15];
    } else {
      out.append(text, i, length);
    }
    i += length;
  }
  out += '"';
}

std::string rfc3339(int64_t time_us) {
  // Days to civil date as in Howard Hinnant's "chrono-compatible low-level date algorithms"; years from
  // 1970 on, which is all a clock gives.
  const int64_t total_ms = std::max<int64_t>(time_us, 0) / 1000;
  const int64_t days = total_ms / 86400000;
  const int64_t rest = total_ms % 86400000;
  const int64_t z = days + 719468;
  const int64_t era = z / 146097;
  const int64_t day_of_era = z - era * 146097;
  const int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
  const int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const int64_t shifted_month = (5 * day_of_year + 2) / 153;
  const int64_t day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
  const int64_t month = shifted_month < 10 ? shifted_month + 3 : shifted_month - 9;
  const int64_t year = year_of_era + era * 400 + (month <= 2 ? 1 : 0);
  char buffer[64];
  const int length = std::snprintf(buffer, sizeof(buffer), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", static_cast<int>(year),
                                   static_cast<int>(month), static_cast<int>(day), static_cast<int>(rest / 3600000),
                                   static_cast<int>(rest / 60000 % 60), static_cast<int>(rest / 1000 % 60),
                                   static_cast<int>(rest % 1000));
  return std::string(buffer, static_cast<size_t>(length));
}

void print(const FlowEvent& event, std::string& out) {
  LineWriter line(out);
  line.seconds("ts", event.time_us);
  line.text("host", event.host, kHostLimit);
  line.text_or_null("method", event.method, kShortLimit);
  line.text_or_null("path", event.path, kPathLimit);
  line.number_or_null("status", static_cast<uint64_t>(std::max(event.status, 0)));
  line.number("req_size", event.req_size);
  line.text_or_null("req_body_sha256", event.req_body_sha256, kShortLimit);
  line.text("req_body_preview", event.req_body_preview, kPreviewLimit);
  line.number("resp_size", event.resp_size);
  line.text("time", rfc3339(event.time_us), kShortLimit);
  line.number("seq", event.seq);
  line.text("id", event.id, kShortLimit);
  line.text("container", event.container, kShortLimit);
  line.text("state", word(event.state), kShortLimit);
  line.text("decision", event.decision, kShortLimit);
  line.truth("observed", event.observed);
  line.text_or_null("reason", event.reason, kShortLimit);
  line.text_or_null("rule", event.rule, kRuleLimit);
  line.text("scheme", event.scheme, kShortLimit);
  line.number("port", event.port);
  line.text_or_null("http_version", event.http_version, kShortLimit);
  line.text_or_null("sni", event.sni, kHostLimit);
  line.text_or_null("dst_ip", event.dst_ip, kShortLimit);
  line.number("bytes_up", event.bytes_up);
  line.number("bytes_down", event.bytes_down);
  line.milliseconds("duration_ms", event.duration_ms);
  line.text_or_null("process", event.process, kHostLimit);
  line.list("secrets", event.secrets);
  line.text_or_null("error", event.error, kShortLimit);
  line.finish();
}

void print(const BlockedEvent& event, std::string& out) {
  LineWriter line(out);
  line.seconds("ts", event.time_us);
  line.text("event", "blocked", kShortLimit);
  line.text("host", event.host, kHostLimit);
  line.text_or_null("method", event.method, kShortLimit);
  line.text_or_null("path", event.path, kPathLimit);
  line.text("reason", event.reason, kShortLimit);
  line.text("layer", event.layer, kShortLimit);
  line.text_or_null("rule", event.rule, kRuleLimit);
  line.text("state", word(FlowState::kBlocked), kShortLimit);
  line.text("decision", event.decision, kShortLimit);
  line.text("time", rfc3339(event.time_us), kShortLimit);
  line.number("seq", event.seq);
  line.text("id", event.id, kShortLimit);
  line.text("container", event.container, kShortLimit);
  line.text("scheme", event.scheme, kShortLimit);
  line.number("port", event.port);
  line.text_or_null("sni", event.sni, kHostLimit);
  line.text_or_null("dst_ip", event.dst_ip, kShortLimit);
  line.number("bytes_up", event.bytes_up);
  line.number("bytes_down", event.bytes_down);
  line.text_or_null("process", event.process, kHostLimit);
  line.number("count", event.count);
  line.finish();
}

Result<FlowEvent> parse_flow_event(std::string_view line) {
  TRY(const json object, parse_line(line));
  const LineReader reader(object);
  FlowEvent event;
  event.time_us = reader.time_us();
  event.host = reader.text("host");
  event.method = reader.text("method");
  event.path = reader.text("path");
  event.status = static_cast<int>(reader.number("status"));
  event.req_size = reader.number("req_size");
  event.req_body_sha256 = reader.text("req_body_sha256");
  event.req_body_preview = reader.text("req_body_preview");
  event.resp_size = reader.number("resp_size");
  event.seq = reader.number("seq");
  event.id = reader.text("id");
  event.container = reader.text("container");
  const std::string state = reader.text("state");
  if (state == "passed") event.state = FlowState::kPassed;
  else if (state == "blocked") event.state = FlowState::kBlocked;
  else if (state != "inspected") return Error("log line with an unknown state '" + state + "'");
  event.decision = reader.text("decision");
  event.observed = reader.truth("observed");
  event.reason = reader.text("reason");
  event.rule = reader.text("rule");
  event.scheme = reader.text("scheme");
  event.port = static_cast<uint16_t>(reader.number("port"));
  event.http_version = reader.text("http_version");
  event.sni = reader.text("sni");
  event.dst_ip = reader.text("dst_ip");
  event.bytes_up = reader.number("bytes_up");
  event.bytes_down = reader.number("bytes_down");
  event.duration_ms = reader.real("duration_ms");
  event.process = reader.text("process");
  event.secrets = reader.list("secrets");
  event.error = reader.text("error");
  return event;
}

Result<BlockedEvent> parse_blocked_event(std::string_view line) {
  TRY(const json object, parse_line(line));
  const LineReader reader(object);
  if (reader.text("event") != "blocked") return Error("log line is not of blocked.jsonl");
  BlockedEvent event;
  event.time_us = reader.time_us();
  event.seq = reader.number("seq");
  event.id = reader.text("id");
  event.container = reader.text("container");
  event.decision = reader.text("decision");
  event.reason = reader.text("reason");
  event.layer = reader.text("layer");
  event.rule = reader.text("rule");
  event.scheme = reader.text("scheme");
  event.host = reader.text("host");
  event.port = static_cast<uint16_t>(reader.number("port"));
  event.method = reader.text("method");
  event.path = reader.text("path");
  event.sni = reader.text("sni");
  event.dst_ip = reader.text("dst_ip");
  event.bytes_up = reader.number("bytes_up");
  event.bytes_down = reader.number("bytes_down");
  event.process = reader.text("process");
  event.count = static_cast<uint32_t>(std::max<uint64_t>(1, reader.number("count")));
  return event;
}

uint64_t last_seq(std::string_view tail) {
  // Within a line the quotes of a text are escaped, so that this key cannot be forged by one.
  static constexpr std::string_view kKey = "\"seq\":";
  const size_t end = tail.rfind('\n');
  if (end == std::string_view::npos) return 0;
  const std::string_view whole = tail.substr(0, end);
  const size_t found = whole.rfind(kKey);
  if (found == std::string_view::npos) return 0;
  uint64_t seq = 0;
  const char* first = whole.data() + found + kKey.size();
  std::from_chars(first, whole.data() + whole.size(), seq);
  return seq;
}

std::string refusal_body(const Refusal& refusal) {
  const ReasonWord* entry = find_reason(refusal.reason);
  std::string_view advice = refusal.advice;
  if (advice.empty() && entry != nullptr) advice = entry->advice;
  std::string out;
  LineWriter line(out);
  line.text("error", "leash_blocked", kShortLimit);
  line.text("reason", refusal.reason, kShortLimit);
  line.text_or_null("host", refusal.host, kHostLimit);
  line.text_or_null("method", refusal.method, kShortLimit);
  line.text_or_null("path", refusal.path, kPathLimit);
  line.text_or_null("rule", refusal.rule, kRuleLimit);
  line.text("message", entry != nullptr ? entry->meaning : std::string_view("refused by the policy of this container"), kRuleLimit);
  line.text("advice", advice, kRuleLimit);
  line.finish();
  return out;
}

std::string refusal_header(std::string_view reason_word) { return "blocked; reason=" + std::string(reason_word); }

}  // namespace leash::oci
