#include "proxy/confine.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "tests/unit/catch.h"

using namespace leash;

namespace {

// f's value in a child that is confined; 250 if it could not be.
template <class F>
int confined(const F& f) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || !proxy::confine_self()) ::_exit(250);
    ::_exit(f());
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

int errno_of(long result) { return result < 0 ? errno : 0; }

}  // namespace

TEST_CASE("confine: the proxy makes no socket of any family") {
  for (const int family : {AF_INET, AF_INET6, AF_UNIX, AF_NETLINK, AF_PACKET}) {
    CHECK(confined([&] { return errno_of(::socket(family, SOCK_DGRAM, 0)); }) == EPERM);
  }
  int pair[2];
  CHECK(confined([&] { return errno_of(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair)); }) == EPERM);
  CHECK(confined([] { return errno_of(::syscall(SYS_io_uring_setup, 1, nullptr)); }) == EPERM);
}

TEST_CASE("confine: a socket that was handed over works, and cannot be sent elsewhere") {
  int pair[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
  CHECK(confined([&] { return ::write(pair[0], "x", 1) == 1 ? 0 : 1; }) == 0);
  ::close(pair[0]);
  ::close(pair[1]);
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::bind(listener, reinterpret_cast<struct sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::listen(listener, 1) == 0);
  socklen_t size = sizeof address;
  REQUIRE(::getsockname(listener, reinterpret_cast<struct sockaddr*>(&address), &size) == 0);
  const int made = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CHECK(confined([&] { return errno_of(::connect(made, reinterpret_cast<struct sockaddr*>(&address), size)); }) == EPERM);
  CHECK(confined([&] { return errno_of(::listen(made, 1)); }) == EPERM);
  ::close(made);
  ::close(listener);
}

TEST_CASE("confine: no program is executed, no process looked into, no namespace entered") {
  char path[] = "/bin/true";
  char* const arguments[] = {path, nullptr};
  CHECK(confined([&] { return errno_of(::execv(path, arguments)); }) == EPERM);
  CHECK(confined([] { return errno_of(::syscall(SYS_ptrace, 0, 0, 0, 0)); }) == EPERM);
  CHECK(confined([] { return errno_of(::syscall(SYS_setns, -1, 0)); }) == EPERM);
  CHECK(confined([] { return errno_of(::syscall(SYS_pidfd_getfd, -1, 0, 0)); }) == EPERM);
}

#if defined(__x86_64__)
TEST_CASE("confine: another ABI ends the proxy") {
  CHECK(confined([] { return static_cast<int>(::syscall(0x40000000L + SYS_getpid)); }) == 1000 + SIGSYS);
}
#endif
