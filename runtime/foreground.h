// The runtime in front of a container's process: `run` and `exec` without --detach wait for it, pass
// signals on, relay its terminal, and end with its exit code.
#pragma once

#include <sys/types.h>

#include "base/fd.h"
#include "base/result.h"

namespace leash::runtime {

class Foreground {
 public:
  // Blocks signals, so that none is lost between the start of the process and wait(). With a subreaper
  // the container's orphans come to us and are reaped.
  [[nodiscard]] static Result<Foreground> begin(bool is_subreaper);
  // In the child before execve nothing is to be done: run_last_steps resets the mask.

  // The exit code of `pid`, a child of ours: n, or 128 + signal. `console_master` may be invalid.
  [[nodiscard]] Result<int> wait(pid_t pid, const Fd& console_master);

 private:
  Fd signals_;
};

}  // namespace leash::runtime
