// What later commands ask of a running container's shim, at <registry>/<id>/shim.sock.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/command.h"
#include "runtime/state_store.h"

namespace leash::runtime {

// The environment for a process of `exec`: secrets out, placeholders in. No answer is an error: such a
// process is not started.
[[nodiscard]] Result<std::vector<std::string>> environment_for_exec(const Container& container,
                                                                    const std::vector<std::string>& env);

// Ends the shim and waits until it is gone; removes what a killed one left. A no-op for a container that
// has none.
[[nodiscard]] Result<void> end_shim(const GlobalOptions& options, const Container& container);

}  // namespace leash::runtime
