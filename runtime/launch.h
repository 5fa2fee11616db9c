// `create`, and the first half of `run`: from a bundle to an init that waits to be started.
#pragma once

#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "runtime/command.h"
#include "runtime/state_store.h"

namespace leash::runtime {

struct LaunchRequest {
  std::string container_id;
  std::string bundle;          // as given; empty: the current directory
  std::string pid_file;
  std::string console_socket;
  int preserved_fds = 0;
  bool no_pivot = false;
  bool no_new_keyring = false;
  bool is_detached = true;     // create, or run --detach: nobody relays a terminal
};

struct Launched {
  Container container;
  Fd console_master;  // in the foreground with process.terminal: the terminal to relay
};

// On failure nothing is left: no process, cgroup, shim or directory. Once it returns, the pid file is
// there and init waits at init.sock, in its final cgroup.
[[nodiscard]] Result<Launched> launch(const GlobalOptions& options, const LaunchRequest& request);

}  // namespace leash::runtime
