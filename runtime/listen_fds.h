// Descriptors that the container inherits above 2: --preserve-fds and systemd's socket activation
// (sd_listen_fds(3)).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace leash::runtime {

// How many descriptors from 3 on are passed: $LISTEN_FDS of our own environment plus `preserved`. Adds
// LISTEN_FDS and LISTEN_PID=1 to `env` for the former. Each must be open.
[[nodiscard]] Result<int> pass_listen_fds(std::vector<std::string>& env, int preserved);

}  // namespace leash::runtime
