#include "base/result.h"

#include <cctype>

namespace leash {

std::string errno_text(int code) {
  // strerrordesc_np is async-signal-safe, needs no locale and allocates nothing.
  const char* text = strerrordesc_np(code);
  if (text == nullptr) return "errno " + std::to_string(code);
  std::string lower(text);
  // Go lowers the whole text but keeps names such as "RPC"; only the first word matters to callers.
  if (lower.size() > 1 && std::isupper(static_cast<unsigned char>(lower[1])) == 0) {
    lower[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(lower[0])));
  }
  return lower;
}

Error Error::from_errno(int code, std::string_view what) {
  std::string message(what);
  message += ": ";
  message += errno_text(code);
  return {code, std::move(message)};
}

}  // namespace leash
