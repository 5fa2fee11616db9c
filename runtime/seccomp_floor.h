// The floor: a second seccomp filter below the engine's own, for leashed containers.
//
// It is stacked, not merged: libseccomp multiplexes socketcall and drops rules that equal the default,
// so an edited profile is not what was written. The kernel takes the strictest answer of all filters, so
// the floor holds whatever the engine's profile allows, "unconfined" included. It closes the ways around
// the lock-in that need no capability (AF_VSOCK, AF_ALG..., foreign ABIs whose socketcall no filter can
// look into, io_uring's own sockets) and the kernel's widest attack surface.
//
// Install it first, before the engine's filter (which may forbid seccomp(2)) and before capabilities are
// dropped (it then needs no no_new_privs).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/seccomp.h"

namespace leash::runtime {

// `allowed`: names that the policy's `syscalls.allow` takes out again: a system call ("bpf", "unshare",
// "socket"), or "userns" for all that user namespaces need (mount API, setns, unshare, clone's flags).
// `denied`: names of `syscalls.deny`: EPERM for them as well. A name that is no system call at all is an
// error: a misspelt rule must not pass for one that holds.
[[nodiscard]] Result<SeccompFilter> seccomp_floor(const std::vector<std::string>& allowed,
                                                  const std::vector<std::string>& denied = {});

}  // namespace leash::runtime
