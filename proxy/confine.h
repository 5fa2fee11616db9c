// What leash-proxy takes from itself before the first hostile byte: the system calls that it never makes
// and that whoever takes it over would want.
//
// It has no namespace of its own: it lives in the engine's network namespace, where a socket of its own
// would reach the world past the lock-in, the dialer and the logs. So it makes none: all its sockets come
// over the control channel. Nor may a socket that the dialer made be connected anew, to an address that
// the dialer would have refused. No exec, no look into other processes.
#pragma once

#include "base/result.h"

namespace leash::proxy {

// Needs no_new_privs (the shim has set it) or CAP_SYS_ADMIN. For good, and for all threads to come.
[[nodiscard]] Result<void> confine_self();

}  // namespace leash::proxy
