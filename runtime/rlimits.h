// Resource limits (prlimit(2)) and the OOM score of the container's process.
#pragma once

#include <sys/types.h>

#include <vector>

#include "base/result.h"
#include "oci-spec/config.h"

namespace leash::runtime {

// Errors: an unknown type ("wrong rlimit value: RLIMIT_X"), or the kernel's refusal
// ("error setting rlimit type 7: operation not permitted"). `pid` 0 is the caller.
[[nodiscard]] Result<void> apply_rlimits(const std::vector<oci::Rlimit>& limits, pid_t pid = 0);

// Writes /proc/self/oom_score_adj; a no-op when it already has that value, since lowering it needs
// CAP_SYS_RESOURCE even when nothing changes in effect.
[[nodiscard]] Result<void> set_oom_score_adj(int score);

}  // namespace leash::runtime
