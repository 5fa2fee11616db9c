// The runtime's own binary, out of the container's reach (CVE-2019-5736): a container can open
// /proc/PID/exe of the process that enters it, keep it, and write to it later, when nobody executes it.
//
// So commands that enter a container first execute themselves again through a detached, read-only mount of
// their own file: what the container then finds at /proc/PID/exe is on that mount, which no one can
// remount since it belongs to no mount namespace any more. It costs one execve and copies nothing. Where
// the kernel refuses such a mount, a sealed copy in memory does the same.
#pragma once

#include <string>

#include "base/result.h"

namespace leash::runtime {

// Executes this program again unless that has been done; returns then. The directory of the original is
// the result in both cases: leash-shim lies there.
[[nodiscard]] Result<std::string> seal_self(char** argv);

// The directory of this program, without sealing.
[[nodiscard]] Result<std::string> own_directory();

}  // namespace leash::runtime
