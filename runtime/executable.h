// Finds the program of process.args, as Go's exec.LookPath does, whose words engines look for.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace leash::runtime {

// In the container's root, with the container's user's rights (fsuid). Errors, which docker's exit codes
// 126 and 127 hang on: `exec: "x": executable file not found in $PATH`,
// `exec: "/x": stat /x: no such file or directory`, `exec: "/x": permission denied`.
[[nodiscard]] Result<std::string> find_executable(const std::string& name, const std::vector<std::string>& env);

}  // namespace leash::runtime
