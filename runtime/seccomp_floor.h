// The floor: a second seccomp filter below the engine's own, for leashed containers.
//
// It is stacked, not merged: libseccomp multiplexes socketcall and drops rules that equal the default,
// so an edited profile is not what was written. The kernel takes the strictest answer of all filters, so
// the floor holds whatever the engine's profile allows, "unconfined" included. It closes the ways around
// the lock-in that need no capability (AF_VSOCK, AF_ALG..., foreign ABIs whose socketcall no filter can
// look into, io_uring's own sockets) and the kernel's widest attack surface.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/seccomp.h"

namespace leash::runtime {

// `allowed`: names that the policy's `syscalls.allow` gives back ("bpf", "userfaultfd", "unshare",
// "mount" for one call, or "userns" for all that user namespaces need). A name that is neither a system
// call the floor refuses nor a group is an error.
[[nodiscard]] Result<SeccompFilter> seccomp_floor(const std::vector<std::string>& allowed);

}  // namespace leash::runtime
