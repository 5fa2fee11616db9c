#include "runtime/listen_fds.h"

#include <fcntl.h>

#include <cstdlib>


namespace leash::runtime {

Result<int> pass_listen_fds(std::vector<std::string>& env, int preserved) {
  int activated = 0;
  if (const char* text = std::getenv("LISTEN_FDS")) activated = std::atoi(text);
  if (activated < 0 || activated > 1024 || preserved < 0 || preserved > 65536) {
    return Error(EINVAL, "invalid number of file descriptors to preserve");
  }
  if (activated > 0) {
    env.push_back("LISTEN_FDS=" + std::to_string(activated));
    env.push_back("LISTEN_PID=1");
  }
  const int total = activated + preserved;
  for (int fd = 3; fd < 3 + total; ++fd) {
    // All of ours are close-on-exec: one that is not came from the caller.
    const int flags = ::fcntl(fd, F_GETFD);
    if (flags < 0 || (flags & FD_CLOEXEC) != 0) {
      return Error::from_errno(EBADF, "file descriptor " + std::to_string(fd) + " to preserve");
    }
  }
  return total;
}

}  // namespace leash::runtime
