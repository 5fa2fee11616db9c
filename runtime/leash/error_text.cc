#include "runtime/leash/error_text.h"

#include <array>
#include <string_view>
#include <utility>

namespace leash::runtime {

namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kWords = {{
    {"executable file not found", "program not found"},
    {"no such file or directory", "not found"},
    {"permission denied", "access refused (EACCES)"},
    {"operation not permitted", "refused by the kernel (EPERM)"},
    {"is a directory", "is no file (EISDIR)"},
    {"not a directory", "no directory (ENOTDIR)"},
    {"does not exist", "is not there"},
}};

}  // namespace

Error lock_in_error(Error error) {
  std::string text = error.message();
  for (const auto& [word, other] : kWords) {
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + other.size())) {
      text.replace(at, word.size(), other);
    }
  }
  if (!text.starts_with("leash: ")) text.insert(0, "leash: ");
  return {error.code(), std::move(text)};
}

}  // namespace leash::runtime
