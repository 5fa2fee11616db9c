// Resource limits (prlimit(2)) and the OOM score of the container's process.
#pragma once

#include <sys/types.h>

#include <vector>

#include "base/result.h"
#include "oci-spec/config.h"

namespace leash::runtime {

// At create, before anything is made: "wrong rlimit value: RLIMIT_X" for an unknown type.
[[nodiscard]] Result<void> check_rlimits(const std::vector<oci::Rlimit>& limits);

// "error setting rlimits for ready process: error setting rlimit type 7: operation not permitted", as runc
// says it: a hard limit above the present one needs CAP_SYS_RESOURCE. `pid` 0 is the caller.
[[nodiscard]] Result<void> apply_rlimits(const std::vector<oci::Rlimit>& limits, pid_t pid = 0);

// Writes /proc/self/oom_score_adj, unless it already has that value: lowering it needs CAP_SYS_RESOURCE
// even where nothing would change.
[[nodiscard]] Result<void> set_oom_score_adj(int score);

}  // namespace leash::runtime
