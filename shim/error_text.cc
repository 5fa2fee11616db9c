#include "shim/error_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace leash::shim {

namespace {

// moby (daemon/errors.go, docker/cli cmd/docker/run.go) and libpod (oci_util.go); Podman ignores case.
constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kWords = {{
    {"no such file or directory", "the file is missing"},
    {"executable file not found", "the program is missing"},
    {"system cannot find the file specified", "the file is missing"},
    {"open executable", "open program"},
    {"permission denied", "access was refused"},
    {"operation not permitted", "the kernel refused it"},
    {"not a directory", "it is no directory"},
    {"is a directory", "it is one of the directories"},
}};

}  // namespace

std::string for_engine(std::string_view text) {
  std::string result(text);
  const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  for (const auto& [word, replacement] : kWords) {
    for (;;) {
      const auto found = std::search(result.begin(), result.end(), word.begin(), word.end(), same);
      if (found == result.end()) break;
      result.replace(static_cast<size_t>(found - result.begin()), word.size(), replacement);
    }
  }
  return result;
}

}  // namespace leash::shim
