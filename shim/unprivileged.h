// How a child of the shim gives up everything: used by the dialer, the relay and leash-proxy.
#pragma once

#include <sys/types.h>

#include <vector>

#include "base/result.h"

namespace leash::shim {

// An unprivileged identity that no other process of this pid namespace has: processes of one uid may
// signal, trace and read one another, so each of our children gets its own. systemd's table of UIDs
// leaves 0x70000000..0x7ffdffff unassigned; a pid is below 2^22.
enum class ChildKind : uid_t { kProxy = 0x70000000, kDialer = 0x71000000, kRelay = 0x72000000 };
[[nodiscard]] uid_t child_uid(ChildKind kind, pid_t pid);

// In the child, single-threaded. Afterwards: uid = gid = `id`, no supplementary groups, empty capability
// and bounding sets, no_new_privs, no core, not dumpable, own name, cwd "/", default signals, and SIGKILL
// when `parent` dies. Must come after every setns(2).
[[nodiscard]] Result<void> give_up_privileges(uid_t id, pid_t parent);

// Closes every descriptor from 3 on that is not in `kept`.
[[nodiscard]] Result<void> close_all_but(std::vector<int> kept);

}  // namespace leash::shim
