// flows.jsonl and blocked.jsonl: one JSON object a line, always valid UTF-8, under 16 KiB, LF at its
// end. The proxy (and the shim, for a killed proxy's exchanges) prints lines, `leash logs` reads them.
//
// Printing is on the path of every request, so it is written by hand into one std::string. Text from
// the container or the origin is escaped; invalid UTF-8 becomes U+FFFD; overlong fields are cut and
// end in U+2026.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace leash::oci {

inline constexpr size_t kMaxEventLine = size_t{16} * 1024 - 1;  // with its LF

enum class FlowState { kInspected, kPassed, kBlocked };
[[nodiscard]] std::string_view word(FlowState state);

struct FlowEvent {
  int64_t time_us = 0;  // CLOCK_REALTIME when it began: `ts` (seconds, a number) and `time` (RFC 3339 UTC)
  uint64_t seq = 0;
  std::string id;         // of the exchange, unique within the container
  std::string container;
  FlowState state = FlowState::kInspected;
  std::string decision = "allow";
  bool observed = false;  // enforce mode would have blocked it
  std::string reason;     // observed: why it would have been blocked; passed: why not inspected
  std::string rule;
  std::string scheme;     // "https", "http", "tls", "tcp"
  std::string host;
  uint16_t port = 0;
  std::string method;     // empty prints as null, as do path, sni, dst_ip, http_version, process, error
  std::string path;       // with query, as sent
  std::string http_version;  // "1.1"
  int status = 0;            // 0 prints as null
  std::string sni;
  std::string dst_ip;        // the address that was dialled
  uint64_t req_size = 0;     // bytes of the bodies
  uint64_t resp_size = 0;
  std::string req_body_sha256;   // empty prints as null
  std::string req_body_preview;
  uint64_t bytes_up = 0;     // what crossed the container's interface for this exchange
  uint64_t bytes_down = 0;
  double duration_ms = 0;
  std::string process;               // who connected: "17 curl (/usr/bin/curl)", pid as the container counts
  std::vector<std::string> secrets;  // names of those put in
  std::string error;                 // a word of reasons.h
};

struct BlockedEvent {
  int64_t time_us = 0;
  uint64_t seq = 0;
  std::string id;
  std::string container;
  std::string decision = "deny";
  std::string reason;  // of reasons.h
  std::string layer;   // of reasons.h
  std::string rule;
  std::string scheme;
  std::string host;    // name, or the address when there is no name
  uint16_t port = 0;
  std::string method;  // HTTP's method; for layer dns the type that was asked for
  std::string path;
  std::string sni;
  std::string dst_ip;
  uint64_t bytes_up = 0;  // offered
  uint64_t bytes_down = 0;  // of the refusal
  std::string process;
  uint32_t count = 1;  // equal refusals that this line stands for (DNS floods, dropped packets)
};

// Appends the line with its LF to `out`.
void print(const FlowEvent& event, std::string& out);
void print(const BlockedEvent& event, std::string& out);

[[nodiscard]] Result<FlowEvent> parse_flow_event(std::string_view line);
[[nodiscard]] Result<BlockedEvent> parse_blocked_event(std::string_view line);

// `seq` of the last whole line in `tail` (the last 32 KiB of a log will do); 0 if there is none.
[[nodiscard]] uint64_t last_seq(std::string_view tail);

// "2026-11-30T04:05:06.789Z"
[[nodiscard]] std::string rfc3339(int64_t time_us);

struct Refusal {
  std::string_view reason;
  std::string_view host;
  std::string_view rule;    // empty prints as null
  std::string_view advice;  // empty: that of the reason
  std::string_view method;
  std::string_view path;
};
// {"error":"leash_blocked","reason":...,"host":...,"rule":...,"advice":...} and LF.
[[nodiscard]] std::string refusal_body(const Refusal& refusal);
// The value of the x-leash header: "blocked; reason=host_not_allowed".
[[nodiscard]] std::string refusal_header(std::string_view reason_word);

// Appends `text` as a JSON string with quotes, cut to about `limit` bytes of output.
void append_json_string(std::string& out, std::string_view text, size_t limit);

}  // namespace leash::oci
