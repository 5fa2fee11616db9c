#include "shim/children.h"

#include <sys/wait.h>

#include <cerrno>
#include <csignal>

namespace leash::shim {

void Children::destroy(pid_t pid) {
  if (pid <= 0) return;
  expected_.erase(pid);
  (void)::kill(pid, SIGKILL);
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Children::reap() {
  int status = 0;
  for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    auto node = expected_.extract(pid);
    if (!node.empty()) node.mapped()(status);
  }
}

}  // namespace leash::shim
