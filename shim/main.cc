// leash-shim ID            descriptor 3: the Channel to `leash-runtime create` (oci-spec/shim_protocol.h)
// leash-shim --cleanup ID  removes what a killed shim left
//
// The order below matters. What the engine gave us is let go first, since engines wait for the end of
// pipes. The cgroup comes with the fork, because a fork into it is free and a migration is not. Secrets
// arrive after core dumps, tracing and swapping are off.
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <string_view>

#include "base/channel.h"
#include "base/file.h"
#include "base/sys.h"
#include "shim/error_text.h"
#include "shim/journal.h"
#include "shim/left_over.h"
#include "shim/loop.h"
#include "shim/own_cgroup.h"
#include "shim/registry.h"
#include "shim/shim.h"
#include "shim/unprivileged.h"

namespace leash::shim {
namespace {

constexpr int kRuntimeSocket = 3;

Result<void> let_go_of_the_engine() {
  TRY(const Fd null, sys::open("/dev/null", O_RDWR));
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::dup2(null.get(), fd) < 0) return Error::last_errno("dup2 /dev/null");
  }
  TRY_VOID(close_all_but({kRuntimeSocket, null.get()}));
  return sys::set_cloexec(kRuntimeSocket, true);
}

// Installed side by side; opened now, so that a proxy started in a year is the one of today.
Result<Fd> open_proxy_program() {
  TRY(const std::string self, sys::readlinkat(AT_FDCWD, "/proc/self/exe"));
  return sys::open(self.substr(0, self.rfind('/')) + "/leash-proxy", O_PATH);
}

Result<void> harden() {
  (void)::setsid();
  if (::chdir("/") < 0) return Error::last_errno("chdir '/'");
  (void)::umask(077);
  const struct rlimit no_core = {0, 0};
  if (::setrlimit(RLIMIT_CORE, &no_core) < 0) return Error::last_errno("setrlimit RLIMIT_CORE");
  if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) return Error::last_errno("PR_SET_DUMPABLE");
  // The supervisor should be the last to go; where lowering is not allowed, it stays as it is.
  (void)file::write_control("/proc/self/oom_score_adj", "-999");
  struct rlimit files = {};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &files);
  }
  for (const int ignored : {SIGHUP, SIGINT, SIGQUIT, SIGPIPE}) (void)::signal(ignored, SIG_IGN);
  return {};
}

Result<Fd> take_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  sigaddset(&set, SIGTERM);
  if (::sigprocmask(SIG_SETMASK, &set, nullptr) < 0) return Error::last_errno("sigprocmask");
  Fd signals(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals) return Error::last_errno("signalfd");
  return signals;
}

Result<void> serve(const std::string& container_id, Channel& runtime) {
  TRY_VOID(check_container_id(container_id));
  TRY(Fd proxy_program, open_proxy_program().context("proxy"));
  OwnCgroup cgroup = OwnCgroup::create(container_id);
  TRY(const pid_t pid, cgroup.fork_into());
  if (pid > 0) ::_exit(0);  // the runtime talks to the child
  TRY_VOID(harden());
  TRY(Fd signals, take_signals());
  TRY(Loop loop, Loop::create());
  Shim shim(loop, container_id, std::move(runtime), std::move(cgroup), std::move(signals), std::move(proxy_program));
  return shim.run();
}

int run_shim(const std::string& container_id) {
  auto free = let_go_of_the_engine();
  if (!free) return 1;
  Channel runtime{Fd(kRuntimeSocket)};
  auto served = serve(container_id, runtime);
  if (served) return 0;
  note(served.error().message());
  // Before the Shim had it: create is still waiting for an answer.
  if (runtime.valid()) {
    // Its request first: a socket closed over unread data is a reset, which overtakes the answer.
    (void)runtime.receive(std::chrono::milliseconds(5000));
    (void)runtime.send("failed", for_engine(served.error().message()));
  }
  return 1;
}

int run_cleanup(const std::string& container_id) {
  auto cleaned = check_container_id(container_id);
  if (cleaned) cleaned = clean_up(container_id);
  if (cleaned) return 0;
  std::fprintf(stderr, "%s\n", cleaned.error().message().c_str());
  return 1;
}

}  // namespace
}  // namespace leash::shim

int main(int argc, char** argv) {
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (argc == 2 && first == "--version") {
    std::printf("leash-shim version %s\n", LEASH_VERSION);
    return 0;
  }
  if (argc == 3 && first == "--cleanup") return leash::shim::run_cleanup(argv[2]);
  if (argc == 2 && !first.starts_with("-")) return leash::shim::run_shim(argv[1]);
  std::fprintf(stderr, "usage: leash-shim ID | --cleanup ID | --version\n");
  return 2;
}
