// The container's root as a mount: made before the other mounts, entered after them.
#pragma once

#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace leash::runtime {

enum class RootChange {
  kPivot,   // pivot_root(2): the host's tree is gone from the mount namespace
  kMove,    // --no-pivot: MS_MOVE and chroot, for a rootfs on the initial ramdisk
  kChroot,  // no mount namespace of its own
};

// In init, in its mount namespace: sets the propagation of the tree as it was copied from the host
// (mount(2) flags; 0: rslave, so that the container's mounts never reach the host), then mounts `path`
// onto itself. The result is the root, for everything that follows.
[[nodiscard]] Result<Fd> prepare_root(const std::string& path, unsigned long propagation, bool is_mount_namespace_own);

// Makes `root_fd` this process's "/" and its cwd.
[[nodiscard]] Result<void> enter_root(int root_fd, RootChange how);

// linux.rootfsPropagation of the root that is entered: what is mounted in it later reaches, or comes from,
// its peers.
[[nodiscard]] Result<void> set_root_propagation(unsigned long flags);

// The root mount itself read-only; what is mounted below keeps its own flags.
[[nodiscard]] Result<void> make_root_readonly();

}  // namespace leash::runtime
