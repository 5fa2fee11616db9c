// `delete`: everything a container has on the host goes, in the reverse order of its making.
#pragma once

#include "base/result.h"
#include "runtime/command.h"
#include "runtime/state_store.h"

namespace leash::runtime {

// Kills what still runs, ends the shim, removes cgroups and state, runs poststop hooks (whose failures
// are logged only). Idempotent: it can be repeated after a kill at any step.
[[nodiscard]] Result<void> destroy_container(const GlobalOptions& options, const Container& container);

// The pid namespace's init takes all its processes along; without one of its own, the cgroup does.
[[nodiscard]] Result<void> kill_everything(const Container& container);

}  // namespace leash::runtime
