#include "runtime/signals.h"

#include <signal.h>
#include <string.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <tuple>

namespace leash::runtime {

Result<int> parse_signal(const std::string& text) {
  int number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code == std::errc() && end == text.data() + text.size()) return number;
  std::string name = text;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  if (name.starts_with("SIG")) name.erase(0, 3);
  for (int signal = 1; signal < NSIG; ++signal) {
    const char* known = ::sigabbrev_np(signal);
    if (known != nullptr && name == known) return signal;
  }
  if (name == "CLD") return SIGCHLD;
  if (name == "IOT") return SIGABRT;
  if (name == "POLL" || name == "IO") return SIGIO;
  for (const auto& [prefix, base, sign] : {std::tuple<const char*, int, int>{"RTMIN", SIGRTMIN, 1}, {"RTMAX", SIGRTMAX, -1}}) {
    if (!name.starts_with(prefix)) continue;
    const std::string rest = name.substr(5);
    if (rest.empty()) return base;
    int offset = 0;
    const auto parsed = std::from_chars(rest.data() + 1, rest.data() + rest.size(), offset);
    const bool is_right_sign = rest[0] == (sign > 0 ? '+' : '-');
    if (is_right_sign && parsed.ec == std::errc() && parsed.ptr == rest.data() + rest.size() && offset <= SIGRTMAX - SIGRTMIN) {
      return base + sign * offset;
    }
  }
  return Error(EINVAL, "unknown signal \"" + text + "\"");
}

}  // namespace leash::runtime
