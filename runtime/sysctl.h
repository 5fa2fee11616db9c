// linux.sysctl, written through a procfs that is known to be one.
#pragma once

#include "base/fd.h"
#include "base/result.h"
#include "oci-spec/config.h"

namespace leash::runtime {

// The host's /proc, opened and checked before any mount of the container: what is written below this
// descriptor goes to the kernel, whatever the image or a volume puts over /proc (CVE-2025-52881). The
// entries act on the namespaces of the writer, not of the mount.
[[nodiscard]] Result<Fd> open_host_proc();

[[nodiscard]] Result<void> write_sysctls(int proc_fd, const oci::StringMap& sysctls);

// Opens a file below that /proc, "self/attr/exec". No links, no other mounts.
[[nodiscard]] Result<Fd> open_in_proc(int proc_fd, const std::string& path, int flags);

}  // namespace leash::runtime
