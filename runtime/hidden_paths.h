// linux.maskedPaths and linux.readonlyPaths (config-linux.md), done below the root descriptor.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace leash::runtime {

// A file gets the host's /dev/null bound over it, a directory an empty read-only tmpfs. That /dev/null is
// opened from the host's tree and checked to be the device: the container's own may have been replaced by
// a link to something writable (CVE-2025-31133). Paths that do not exist are skipped.
[[nodiscard]] Result<void> mask_paths(int root_fd, const std::vector<std::string>& paths);
// Each is bound onto itself read-only, keeping its other flags.
[[nodiscard]] Result<void> make_paths_readonly(int root_fd, const std::vector<std::string>& paths);

}  // namespace leash::runtime
