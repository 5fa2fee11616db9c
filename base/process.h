// Running other programs: with input, captured output and a deadline (hooks), or in the background as a
// session of its own (the shim). Every descriptor of ours is close-on-exec; what the program shall
// inherit is named.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace leash::process {

struct Command {
  std::string path;               // absolute; no search in $PATH
  std::vector<std::string> args;  // argv, with argv[0]; empty: the path alone
  std::vector<std::string> env;   // the whole environment
  std::string stdin_text;
  std::optional<std::chrono::milliseconds> timeout;
  size_t output_limit = size_t{64} << 10;  // of each stream: what is more is read and dropped
};

struct Output {
  int wait_status = 0;  // waitpid(2)
  bool is_timed_out = false;  // and killed
  std::string out;  // each cut at the command's output_limit
  std::string err;
};

// Runs to the end. The error is of the start alone: "fork/exec /x: no such file or directory".
[[nodiscard]] Result<Output> run(const Command& command);

// "exit status 4" or "signal: killed", as Go's os.ProcessState prints it.
[[nodiscard]] std::string describe_status(int wait_status);
// The exit code a shell would give: n, or 128 + signal.
[[nodiscard]] int exit_code(int wait_status);

// Starts `path` as a daemon: double fork, own session, cwd "/", stdio on /dev/null, nothing else
// inherited but `inherited`: pairs of (ours, number in the child). Returns its pid once it has been
// executed.
[[nodiscard]] Result<pid_t> spawn_daemon(const std::string& path, const std::vector<std::string>& args,
                                         const std::vector<std::string>& env,
                                         const std::vector<std::pair<int, int>>& inherited);

// waitpid(2) until it ends, retrying EINTR.
[[nodiscard]] Result<int> wait_for(pid_t pid);

}  // namespace leash::process
