// `start`: the word to a waiting init, and the hooks after it.
#pragma once

#include "base/result.h"
#include "runtime/state_store.h"

namespace leash::runtime {

// Returns once the user's program is executing (init's end of the connection closed at execve) and the
// poststart hooks have run; one that fails kills the container. Errors: "cannot start an already running
// container", "cannot start a container that has stopped", or what init reports.
[[nodiscard]] Result<void> start_container(const Container& container);

}  // namespace leash::runtime
