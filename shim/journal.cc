#include "shim/journal.h"

#include <unistd.h>

#include <array>
#include <ctime>
#include <string>

namespace leash::shim {

void note(std::string_view message) {
  const std::time_t now = std::time(nullptr);
  struct tm parts = {};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> stamp{};
  (void)std::strftime(stamp.data(), stamp.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  std::string line(stamp.data());
  line += " leash-shim: ";
  line += message;
  line += '\n';
  // A full disk must not stop the supervision; there is nowhere else to say it.
  (void)!::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace leash::shim
