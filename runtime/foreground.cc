#include "runtime/foreground.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <string>

#include "base/process.h"
#include "base/sys.h"

namespace leash::runtime {

namespace {

// Our own terminal in raw mode, so that control characters reach the container's.
class RawTerminal {
 public:
  RawTerminal() {
    struct termios raw = {};
    if (::tcgetattr(STDIN_FILENO, &raw) < 0) return;
    before_ = raw;
    ::cfmakeraw(&raw);
    raw.c_oflag |= OPOST;  // the newlines that the container's no longer turns into CR LF
    ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  }
  ~RawTerminal() {
    if (before_) ::tcsetattr(STDIN_FILENO, TCSANOW, &*before_);
  }
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

 private:
  std::optional<struct termios> before_;
};

void copy_window_size(int master) {
  struct winsize size = {};
  if (::ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0) ::ioctl(master, TIOCSWINSZ, &size);
}

// One chunk; false at the end of input.
bool relay(int from, int to) {
  std::array<char, 16384> buffer;
  const ssize_t length = ::read(from, buffer.data(), buffer.size());
  if (length < 0 && errno == EINTR) return true;
  if (length <= 0) return false;  // EIO: the last slave is closed
  return sys::write_all(to, std::string_view(buffer.data(), static_cast<size_t>(length))).has_value();
}

void drain(const Fd& master) {
  if (!master.valid()) return;
  struct pollfd entry = {master.get(), POLLIN, 0};
  while (::poll(&entry, 1, 0) > 0 && (entry.revents & POLLIN) != 0 && relay(master.get(), STDOUT_FILENO)) {
  }
}

}  // namespace

Result<Foreground> Foreground::begin(bool is_subreaper) {
  if (is_subreaper && ::prctl(PR_SET_CHILD_SUBREAPER, 1) < 0) return Error::last_errno("prctl PR_SET_CHILD_SUBREAPER");
  sigset_t all;
  ::sigfillset(&all);
  // A fault of ours must still end us; SIGURG and the like mean nothing to pass on.
  for (const int own : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGPIPE, SIGURG}) ::sigdelset(&all, own);
  if (::sigprocmask(SIG_BLOCK, &all, nullptr) < 0) return Error::last_errno("sigprocmask");
  Foreground foreground;
  foreground.signals_ = Fd(::signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!foreground.signals_.valid()) return Error::last_errno("signalfd");
  return foreground;
}

Result<int> Foreground::wait(pid_t pid, const Fd& console_master) {
  std::optional<RawTerminal> raw;
  if (console_master.valid()) {
    raw.emplace();
    copy_window_size(console_master.get());
  }
  std::optional<int> code;
  bool is_input_open = console_master.valid();
  bool is_output_open = console_master.valid();
  const auto reap = [&] {
    int status = 0;
    for (pid_t ended = ::waitpid(-1, &status, WNOHANG); ended > 0; ended = ::waitpid(-1, &status, WNOHANG)) {
      if (ended == pid) code = process::exit_code(status);
    }
  };
  reap();
  while (!code) {
    std::array<struct pollfd, 3> entries = {{{signals_.get(), POLLIN, 0},
                                             {is_input_open ? STDIN_FILENO : -1, POLLIN, 0},
                                             {is_output_open ? console_master.get() : -1, POLLIN, 0}}};
    if (::poll(entries.data(), entries.size(), -1) < 0 && errno != EINTR) return Error::last_errno("poll");
    if (entries[2].revents != 0) is_output_open = relay(console_master.get(), STDOUT_FILENO);
    if (entries[1].revents != 0) is_input_open = relay(STDIN_FILENO, console_master.get());
    struct signalfd_siginfo info = {};
    while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGCHLD) reap();
      else if (signal == SIGWINCH && console_master.valid()) copy_window_size(console_master.get());
      else ::kill(pid, signal);
    }
  }
  drain(console_master);
  return *code;
}

}  // namespace leash::runtime
