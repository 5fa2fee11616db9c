#include "cli/log_view.h"

#include <array>
#include <cmath>
#include <cstdio>

#include "cli/table.h"
#include "oci-spec/reasons.h"

namespace leash::cli {

namespace {

constexpr size_t kContainerWidth = 14;
constexpr size_t kProcessWidth = 64;

std::string join(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += (out.empty() ? "" : ", ") + escaped(text, 64);
  return out;
}

void add_detail(std::string& details, const std::string& text) {
  if (text.empty()) return;
  if (!details.empty()) details += "  ";
  details += text;
}

bool is_usual_port(std::string_view scheme, uint16_t port) {
  return port == 0 || (scheme == "https" && port == 443) || (scheme == "http" && port == 80);
}

std::string target_of(std::string_view scheme, const std::string& host, uint16_t port, const std::string& path) {
  std::string target;
  if (!scheme.empty()) target = escaped(scheme, 16) + "://";
  const bool is_ipv6 = host.find(':') != std::string::npos;
  target += is_ipv6 ? "[" + escaped(host) + "]" : escaped(host);
  if (!is_usual_port(scheme, port)) target += ":" + std::to_string(port);
  return target + escaped(path);
}

Colour colour_of(const LogLine& line) {
  if (line.observed || line.failed) return Colour::kYellow;
  switch (line.state) {
    case oci::FlowState::kInspected: return Colour::kGreen;
    case oci::FlowState::kPassed: return Colour::kBlue;
    case oci::FlowState::kBlocked: return Colour::kRed;
  }
  return Colour::kNone;
}

LogLine of(const oci::FlowEvent& event) {
  LogLine line;
  line.time_us = event.time_us;
  line.state = event.state;
  line.observed = event.observed;
  line.failed = !event.error.empty();
  line.code = event.status != 0 ? std::to_string(event.status) : "-";
  line.method = event.method.empty() ? "-" : escaped(event.method, 16);
  line.target = target_of(event.scheme, event.host, event.port, event.path);
  add_detail(line.details, format_bytes(event.bytes_up) + " up, " + format_bytes(event.bytes_down) + " down");
  add_detail(line.details, format_duration(event.duration_ms));
  if (event.observed) add_detail(line.details, "would be blocked: " + escaped(event.reason));
  if (event.state == oci::FlowState::kPassed && !event.observed) add_detail(line.details, "not inspected: " + escaped(event.reason));
  if (!event.secrets.empty()) add_detail(line.details, "secret: " + join(event.secrets));
  if (!event.error.empty()) {
    const oci::ReasonWord* reason = oci::find_reason(event.error);
    add_detail(line.details, "failed: " + escaped(event.error) +
                                 (reason == nullptr ? "" : " (" + std::string(reason->meaning) + ")"));
  }
  if (!event.process.empty()) add_detail(line.details, "from " + escaped(event.process, kProcessWidth));
  return line;
}

LogLine of(const oci::BlockedEvent& event) {
  LogLine line;
  line.time_us = event.time_us;
  line.state = oci::FlowState::kBlocked;
  line.code = escaped(event.layer, 8);
  line.method = event.method.empty() ? "-" : escaped(event.method, 16);
  line.target = target_of(event.layer == oci::layer::kDns ? std::string_view() : std::string_view(event.scheme), event.host,
                          event.layer == oci::layer::kDns ? uint16_t{0} : event.port, event.path);
  add_detail(line.details, escaped(event.reason));
  if (!event.rule.empty()) add_detail(line.details, "by " + escaped(event.rule));
  if (event.count > 1) add_detail(line.details, std::to_string(event.count) + " times");
  if (!event.process.empty()) add_detail(line.details, "from " + escaped(event.process, kProcessWidth));
  return line;
}

}  // namespace

std::string format_bytes(uint64_t bytes) {
  if (bytes < 1000) return std::to_string(bytes) + " B";
  static constexpr std::array kUnits = {"kB", "MB", "GB", "TB", "PB", "EB"};
  double value = static_cast<double>(bytes) / 1000;
  size_t unit = 0;
  // 999.5 would print as 1000.
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), value < 9.95 ? "%.1f %s" : "%.0f %s", value, kUnits[unit]);
  return buffer.data();
}

std::string format_duration(double milliseconds) {
  std::array<char, 48> buffer{};
  const double seconds = milliseconds / 1000;
  if (!(milliseconds >= 0) || seconds > 1e9) return "?";
  if (milliseconds < 9.95) {
    std::snprintf(buffer.data(), buffer.size(), "%.1f ms", milliseconds);
  } else if (milliseconds < 999.5) {
    std::snprintf(buffer.data(), buffer.size(), "%.0f ms", milliseconds);
  } else if (seconds < 59.5) {
    std::snprintf(buffer.data(), buffer.size(), seconds < 9.95 ? "%.1f s" : "%.0f s", seconds);
  } else {
    const auto whole = static_cast<long>(std::lround(seconds));
    if (whole < 3600) {
      std::snprintf(buffer.data(), buffer.size(), "%ld min %ld s", whole / 60, whole % 60);
    } else {
      std::snprintf(buffer.data(), buffer.size(), "%ld h %ld min", whole / 3600, whole / 60 % 60);
    }
  }
  return buffer.data();
}

Result<LogLine> parse_log_line(LogKind kind, std::string_view line) {
  LogLine parsed;
  if (kind == LogKind::kFlows) {
    TRY(const oci::FlowEvent event, oci::parse_flow_event(line));
    parsed = of(event);
  } else {
    TRY(const oci::BlockedEvent event, oci::parse_blocked_event(line));
    parsed = of(event);
  }
  parsed.raw = line;
  return parsed;
}

std::string format_log_line(const LogLine& line, std::string_view container, const Painter& painter) {
  const Colour colour = colour_of(line);
  std::string out = painter.paint(Colour::kDim, oci::rfc3339(line.time_us)) + "  ";
  if (!container.empty()) out += padded(escaped(container, kContainerWidth), kContainerWidth) + "  ";
  const std::string state(line.observed ? "observed" : oci::word(line.state));
  out += painter.paint(colour, padded(state, 9)) + "  ";
  out += padded(line.code, 4) + "  ";
  out += padded(line.method, 7) + "  ";
  out += painter.paint(Colour::kBold, line.target) + "  ";
  out += line.state == oci::FlowState::kBlocked || line.failed || line.observed ? painter.paint(colour, line.details)
                                                                               : painter.paint(Colour::kDim, line.details);
  return out + "\n";
}

}  // namespace leash::cli
