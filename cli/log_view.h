// Lines of flows.jsonl and blocked.jsonl as a person reads them: one line each, columns that line up,
// everything from the container escaped.
//
//   2026-11-30T04:05:06.789Z  web           inspected  200   POST     https://api.example.com/v1  ...
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/terminal.h"
#include "oci-spec/event.h"

namespace leash::cli {

struct LogLine {
  int64_t time_us = 0;
  oci::FlowState state = oci::FlowState::kBlocked;
  std::string raw;   // as it stands in the file, without LF
  std::string code;  // HTTP status; of blocked lines the layer
  std::string method;
  std::string target;
  std::string details;  // sizes, time, reason, rule
  bool observed = false;
  bool failed = false;
};

enum class LogKind { kFlows, kBlocked };

// An error for a line that is not of that log.
[[nodiscard]] Result<LogLine> parse_log_line(LogKind kind, std::string_view line);

// With LF. `container` is left out if empty.
[[nodiscard]] std::string format_log_line(const LogLine& line, std::string_view container, const Painter& painter);

// "812 B", "1.2 kB", "34 MB": decimal, three digits at most.
[[nodiscard]] std::string format_bytes(uint64_t bytes);
// "0.8 ms", "532 ms", "12 s", "3 min 20 s"
[[nodiscard]] std::string format_duration(double milliseconds);

}  // namespace leash::cli
