// A mount of type "cgroup" in config.json: the container's own part of the host's cgroup file systems.
#pragma once

#include "base/result.h"
#include "oci-spec/config.h"
#include "runtime/mount_options.h"
#include "runtime/mounts.h"

namespace leash::runtime {

// On a v2 host cgroup2 itself; otherwise a tmpfs with one mount for each v1 hierarchy and the usual links
// (cpu -> cpu,cpuacct), and the v2 tree at "unified" where the host is hybrid. With a cgroup namespace the
// mounts are fresh ones that begin at its root; without, the container's directories are bound. Called in
// init, after it has joined its cgroup and namespace.
[[nodiscard]] Result<void> mount_cgroups(const MountContext& context, const oci::Mount& mount,
                                         const MountOptions& options);

}  // namespace leash::runtime
