#include "runtime/listen_fds.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/catch.h"

using namespace leash::runtime;

namespace {

// In a child, so that descriptors 3 and 4 are the test's to set. `body` returns the exit code.
template <class Body>
int in_child(Body body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body());
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("listen fds: an open descriptor of the caller is passed, a missing one is an error") {
  CHECK(in_child([] {
          ::dup2(0, 3);
          ::close(4);
          std::vector<std::string> env;
          if (*pass_listen_fds(env, 1) != 1 || !env.empty()) return 1;
          return pass_listen_fds(env, 2) ? 2 : 0;
        }) == 0);
}

TEST_CASE("listen fds: a descriptor of our own is not the caller's") {
  CHECK(in_child([] {
          ::dup3(0, 3, O_CLOEXEC);
          std::vector<std::string> env;
          return pass_listen_fds(env, 1) ? 1 : 0;
        }) == 0);
}

TEST_CASE("listen fds: socket activation is told to the program") {
  CHECK(in_child([] {
          ::dup2(0, 3);
          ::dup2(0, 4);
          ::setenv("LISTEN_FDS", "1", 1);
          std::vector<std::string> env;
          if (*pass_listen_fds(env, 1) != 2) return 1;
          return env == std::vector<std::string>{"LISTEN_FDS=1", "LISTEN_PID=1"} ? 0 : 2;
        }) == 0);
}
