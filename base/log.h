// The diagnostic log of a short-lived program that engines call: runc's format, because engines parse it.
//
//   no --log           time="..." level=error msg="..."  on stderr
//   --log FILE         the line goes to FILE (appended, 0644), the last error's bare message to stderr
//   --log-format json  {"level":"error","msg":"...","time":"..."}
//
// containerd takes the last error object of the file, podman parses the whole file as one object: so
// with json nothing but errors is written unless --debug asked for more.
//
// Not for audit events (oci-spec/event), and nothing secret: messages name objects, never values.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace leash::log {

enum class Format { kText, kJson };
enum class Level { kDebug, kInfo, kWarning, kError };

// Where lines go from now on. An empty `path` is stderr.
[[nodiscard]] Result<void> open(const std::string& path, Format format, bool is_debug);

void write(Level level, std::string_view message);
inline void debug(std::string_view message) { write(Level::kDebug, message); }
inline void warning(std::string_view message) { write(Level::kWarning, message); }
inline void error(std::string_view message) { write(Level::kError, message); }
// The error that ends the program: with a log file its bare text goes to stderr as well.
void fatal(std::string_view message);

// One line in either format, without newline. `time` is RFC 3339.
[[nodiscard]] std::string format_line(Format format, Level level, std::string_view message, std::string_view time);

// RFC 3339 UTC with nanoseconds, trailing zeros cut as Go does.
[[nodiscard]] std::string now_rfc3339();

}  // namespace leash::log
