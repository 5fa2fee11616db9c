// What later commands ask of a running container's shim, at <registry>/<id>/shim.sock.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "oci-spec/shim_protocol.h"
#include "runtime/command.h"
#include "runtime/state_store.h"

namespace leash::runtime {

// For a process of `exec`: its environment with secrets out and placeholders in, and the policy's words
// for the floor filter. No answer is an error: such a process is not started.
[[nodiscard]] Result<oci::PrepareReply> prepare_exec(const Container& container, const std::vector<std::string>& env);

// Ends the shim and waits until it is gone; removes what a killed one left. A no-op for a container that
// has none.
[[nodiscard]] Result<void> end_shim(const GlobalOptions& options, const Container& container);

}  // namespace leash::runtime
