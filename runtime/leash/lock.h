// Init's part of the lock-in, the last thing before the user's process: out of the engine's network
// namespace and into one of its own, which leash-shim then closes in (shim_protocol.h, "n2" and "go").
#pragma once

#include "base/channel.h"
#include "base/result.h"

namespace leash::runtime {

// Returns success only after the shim's "go". Everything else, also silence, is an error: init then ends
// and the user's process never runs.
[[nodiscard]] Result<void> lock_network_in(const Channel& shim);

}  // namespace leash::runtime
