// `exec`: another process in a running container, confined like its first one.
#pragma once

#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "oci-spec/config.h"
#include "runtime/command.h"
#include "runtime/state_store.h"

namespace leash::runtime {

struct ExecOptions {
  oci::Process process;  // complete: from --process, or the container's own with the flags applied
  std::string pid_file;
  std::string console_socket;
  std::vector<std::string> sub_cgroups;  // --cgroup
  int preserved_fds = 0;
  bool is_detached = false;
  bool ignores_paused = false;
};

struct Executed {
  pid_t pid = 0;  // a child of ours
  Fd console_master;
};

// Returns once the program is executing; the pid file is written then and not before, since its absence
// is how engines see a failure.
[[nodiscard]] Result<Executed> exec_in_container(const GlobalOptions& options, const Container& container,
                                                 ExecOptions request);

// config.json as it was at create, without the environment where that held secrets.
[[nodiscard]] Result<oci::Config> container_config(const Container& container);

}  // namespace leash::runtime
