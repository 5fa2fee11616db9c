// Hooks of config.json (config.md#posix-platform-hooks): programs run in order, each with the container's
// state on stdin.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "oci-spec/config.h"

namespace leash::runtime {

// Stops at the first that fails. Errors: "error running hook #0: error running hook: exit status 4,
// stdout: , stderr: ...", "error running hook #0: fork/exec /x: no such file or directory",
// "error running hook #0: hook ran past specified timeout of 1.0s".
[[nodiscard]] Result<void> run_hooks(const std::vector<oci::Hook>& hooks, const std::string& state);

// For poststop: each failure is logged, the next one still runs.
void run_hooks_logging_errors(const std::vector<oci::Hook>& hooks, const std::string& state);

}  // namespace leash::runtime
