#include "base/process.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/sys.h"

namespace leash::process {

namespace {

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> list;
  list.reserve(words.size() + 1);
  for (const std::string& word : words) list.push_back(const_cast<char*>(word.c_str()));
  list.push_back(nullptr);
  return list;
}

// In the child only: signals as a fresh program expects them.
void reset_signals() {
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
}

// In the child only. The error goes to the parent through a close-on-exec pipe: nothing comes when the
// program has started.
[[noreturn]] void execute(const std::string& path, char* const* argv, char* const* env, int error_fd) {
  ::execve(path.c_str(), argv, env);
  const int code = errno;
  static_cast<void>(!::write(error_fd, &code, sizeof code));
  ::_exit(127);
}

// 0, or the errno of the child's failed execve.
Result<int> read_exec_error(const Fd& pipe) {
  int code = 0;
  ssize_t length = 0;
  do {
    length = ::read(pipe.get(), &code, sizeof code);
  } while (length < 0 && errno == EINTR);
  if (length < 0) return Error::last_errno("read exec result");
  return length == static_cast<ssize_t>(sizeof code) ? code : 0;
}

void take(int fd, std::string& text, bool& is_open, size_t limit) {
  std::array<char, 4096> buffer;
  const ssize_t length = ::read(fd, buffer.data(), buffer.size());
  if (length < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (length <= 0) {
    is_open = false;
    return;
  }
  // What is over the bound is read and dropped, so that the program does not block.
  text.append(buffer.data(), std::min(static_cast<size_t>(length), limit - std::min(limit, text.size())));
}

// What is in the pipe already, without waiting for more.
Result<void> take_rest(const Fd& pipe, std::string& text, bool& is_open, size_t limit) {
  TRY_VOID(sys::set_nonblocking(pipe.get(), true));
  for (size_t before = text.size() + 1; is_open && before != text.size();) {
    before = text.size();
    take(pipe.get(), text, is_open, limit);
  }
  return {};
}

}  // namespace

Result<int> wait_for(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return Error::last_errno("waitpid " + std::to_string(pid));
  }
  return status;
}

Result<Output> run(const Command& command) {
  TRY(auto input, sys::pipe());
  TRY(auto out, sys::pipe());
  TRY(auto err, sys::pipe());
  TRY(auto failure, sys::pipe());
  std::vector<std::string> words = command.args;
  if (words.empty()) words.push_back(command.path);
  const std::vector<char*> argv = pointers(words);
  const std::vector<char*> env = pointers(command.env);

  const pid_t pid = ::fork();
  if (pid < 0) return Error::last_errno("fork");
  if (pid == 0) {
    ::dup2(input.first.get(), STDIN_FILENO);
    ::dup2(out.second.get(), STDOUT_FILENO);
    ::dup2(err.second.get(), STDERR_FILENO);
    reset_signals();
    execute(command.path, argv.data(), env.data(), failure.second.get());
  }
  input.first.reset();
  out.second.reset();
  err.second.reset();
  failure.second.reset();

  TRY(const int code, read_exec_error(failure.first));
  if (code != 0) {
    TRY_VOID(wait_for(pid));
    return Error::from_errno(code, "fork/exec " + command.path);
  }

  TRY_VOID(sys::set_nonblocking(input.second.get(), true));
  TRY(Fd pidfd, sys::pidfd_open(pid));
  Output output;
  std::string_view pending = command.stdin_text;
  if (pending.empty()) input.second.reset();
  bool is_out_open = true;
  bool is_err_open = true;
  const auto deadline = std::chrono::steady_clock::now() + command.timeout.value_or(std::chrono::hours(1));
  // A background process that the program leaves may hold the pipes for ever: the program's own end is
  // what counts, then what is in the pipes is taken.
  for (bool is_running = true; is_running;) {
    std::array<struct pollfd, 4> entries = {{{pidfd.get(), POLLIN, 0},
                                             {is_out_open ? out.first.get() : -1, POLLIN, 0},
                                             {is_err_open ? err.first.get() : -1, POLLIN, 0},
                                             {input.second.get(), POLLOUT, 0}}};
    int wait_ms = -1;
    if (command.timeout && !output.is_timed_out) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
      wait_ms = static_cast<int>(std::clamp<int64_t>(left + 1, 0, 3'600'000));
    }
    const int ready = ::poll(entries.data(), entries.size(), wait_ms);
    if (ready < 0 && errno != EINTR) return Error::last_errno("poll");
    if (ready == 0) {
      output.is_timed_out = true;
      TRY_VOID(sys::pidfd_send_signal(pidfd.get(), SIGKILL));
    }
    if (entries[1].revents != 0) take(out.first.get(), output.out, is_out_open, command.output_limit);
    if (entries[2].revents != 0) take(err.first.get(), output.err, is_err_open, command.output_limit);
    if (entries[3].revents != 0) {
      // A program that does not read its stdin is none of our errors: EPIPE ends the writing.
      struct sigaction ignore = {};
      struct sigaction before = {};
      ignore.sa_handler = SIG_IGN;
      ::sigaction(SIGPIPE, &ignore, &before);
      const ssize_t length = ::write(input.second.get(), pending.data(), pending.size());
      const int write_error = errno;
      ::sigaction(SIGPIPE, &before, nullptr);
      if (length > 0) pending.remove_prefix(static_cast<size_t>(length));
      if (pending.empty() || (length < 0 && write_error != EAGAIN && write_error != EINTR)) input.second.reset();
    }
    is_running = entries[0].revents == 0;
  }
  TRY(output.wait_status, wait_for(pid));
  TRY_VOID(take_rest(out.first, output.out, is_out_open, command.output_limit));
  TRY_VOID(take_rest(err.first, output.err, is_err_open, command.output_limit));
  return output;
}

std::string describe_status(int wait_status) {
  if (!WIFSIGNALED(wait_status)) return "exit status " + std::to_string(WEXITSTATUS(wait_status));
  const char* text = ::sigdescr_np(WTERMSIG(wait_status));
  std::string name = text == nullptr ? std::to_string(WTERMSIG(wait_status)) : text;
  if (!name.empty() && name[0] >= 'A' && name[0] <= 'Z') name[0] = static_cast<char>(name[0] - 'A' + 'a');
  return "signal: " + name;
}

int exit_code(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

Result<pid_t> spawn_daemon(const std::string& path, const std::vector<std::string>& args,
                           const std::vector<std::string>& env,
                           const std::vector<std::pair<int, int>>& inherited) {
  TRY(auto failure, sys::pipe());
  TRY(auto born, sys::pipe());
  TRY(Fd null, sys::open("/dev/null", O_RDWR));
  const std::vector<char*> argv = pointers(args);
  const std::vector<char*> environment = pointers(env);
  const pid_t middle = ::fork();
  if (middle < 0) return Error::last_errno("fork");
  if (middle == 0) {
    // The child in the middle exits at once: the daemon is nobody's to wait for.
    const pid_t child = ::fork();
    if (child != 0) {
      const pid_t result = child < 0 ? -errno : child;
      static_cast<void>(!::write(born.second.get(), &result, sizeof result));
      ::_exit(0);
    }
    ::setsid();
    static_cast<void>(!::chdir("/"));
    // First out of the way of all target numbers, then into place; the rest is closed, also what the
    // engine left open without close-on-exec.
    int top = 100;
    for (const auto& pair : inherited) top = std::max(top, pair.second + 1);
    const int error_fd = ::fcntl(failure.second.get(), F_DUPFD_CLOEXEC, top);
    std::array<int, 16> moved{};
    for (size_t i = 0; i < inherited.size() && i < moved.size(); ++i) {
      moved[i] = ::fcntl(inherited[i].first, F_DUPFD_CLOEXEC, top);
    }
    for (int fd = 0; fd < 3; ++fd) ::dup2(null.get(), fd);
    ::syscall(SYS_close_range, 3U, static_cast<unsigned>(top - 1), 0U);
    ::syscall(SYS_close_range, static_cast<unsigned>(top), ~0U, 4U /* CLOSE_RANGE_CLOEXEC */);
    for (size_t i = 0; i < inherited.size() && i < moved.size(); ++i) ::dup2(moved[i], inherited[i].second);
    reset_signals();
    execute(path, argv.data(), environment.data(), error_fd);
  }
  failure.second.reset();
  born.second.reset();
  TRY_VOID(wait_for(middle));
  pid_t pid = -1;
  if (::read(born.first.get(), &pid, sizeof pid) != static_cast<ssize_t>(sizeof pid)) {
    return Error("fork '" + path + "': the child ended early");
  }
  if (pid < 0) return Error::from_errno(-pid, "fork");
  TRY(const int code, read_exec_error(failure.first));
  if (code != 0) return Error::from_errno(code, "fork/exec " + path);
  return pid;
}

}  // namespace leash::process
