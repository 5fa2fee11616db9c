#include "base/log.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <ctime>

#include "base/sys.h"

namespace leash::log {

namespace {

// What `open` set for the whole process: where a line goes is asked for in places that no owner reaches
// (a command's last error). Nothing else of ours is global.
struct Sink {
  Fd file;
  Format format = Format::kText;
  bool is_debug = false;
};

Sink& sink() {
  static Sink instance;
  return instance;
}

std::string_view level_name(Level level) {
  switch (level) {
    case Level::kDebug: return "debug";
    case Level::kInfo: return "info";
    case Level::kWarning: return "warning";
    case Level::kError: return "error";
  }
  return "error";
}

// A JSON string's inside. Bytes that are no UTF-8 are left to the reader's decoder, as in messages that
// quote a file name.
void append_escaped(std::string& out, std::string_view text) {
  for (const char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          std::array<char, 8> code{};
          std::snprintf(code.data(), code.size(), "\\u%04x", static_cast<unsigned>(c));
          out += code.data();
        } else {
          out += c;
        }
    }
  }
}

}  // namespace

std::string now_rfc3339() {
  struct timespec now = {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  struct tm utc = {};
  ::gmtime_r(&now.tv_sec, &utc);
  std::array<char, 64> date{};
  std::strftime(date.data(), date.size(), "%Y-%m-%dT%H:%M:%S", &utc);
  std::array<char, 16> fraction{};
  std::snprintf(fraction.data(), fraction.size(), ".%09ld", now.tv_nsec);
  std::string text = fraction.data();
  while (text.size() > 1 && text.back() == '0') text.pop_back();
  if (text == ".") text.clear();
  return date.data() + text + "Z";
}

std::string format_line(Format format, Level level, std::string_view message, std::string_view time) {
  std::string line;
  if (format == Format::kJson) {
    line = "{\"level\":\"";
    line += level_name(level);
    line += "\",\"msg\":\"";
    append_escaped(line, message);
    line += "\",\"time\":\"";
    line += time;
    line += "\"}";
    return line;
  }
  line = "time=\"";
  line += time;
  line += "\" level=";
  line += level_name(level);
  line += " msg=\"";
  append_escaped(line, message);
  line += '"';
  return line;
}

Result<void> open(const std::string& path, Format format, bool is_debug) {
  sink().format = format;
  sink().is_debug = is_debug;
  if (path.empty()) return {};
  TRY(sink().file, sys::open(path, O_WRONLY | O_CREAT | O_APPEND, 0644));
  return {};
}

void write(Level level, std::string_view message) {
  const Sink& to = sink();
  if (level == Level::kDebug && !to.is_debug) return;
  // One object is the whole file for podman: see the header.
  if (level != Level::kError && to.format == Format::kJson && !to.is_debug) return;
  std::string line = format_line(to.format, level, message, now_rfc3339());
  line += '\n';
  if (!to.file.valid()) {
    static_cast<void>(sys::write_all(STDERR_FILENO, line));
    return;
  }
  static_cast<void>(sys::write_all(to.file.get(), line));
}

void fatal(std::string_view message) {
  write(Level::kError, message);
  if (!sink().file.valid()) return;
  std::string bare(message);
  bare += '\n';
  static_cast<void>(sys::write_all(STDERR_FILENO, bare));
}

}  // namespace leash::log
