// What a container's cgroup has used, read from its files, and the notice of the OOM killer.
#pragma once

#include "base/fd.h"
#include "base/result.h"
#include "oci-spec/stats.h"
#include "runtime/cgroup.h"

namespace leash::runtime {

// A number whose file this kernel or host does not have stays zero.
[[nodiscard]] Result<oci::ContainerStats> container_stats(const Cgroup& cgroup);

// A descriptor that polls as `poll_events` when the OOM killer may have killed in this cgroup; oom_kills()
// then says whether it did. cgroup v1 also signals it when the cgroup is removed.
struct OomNotice {
  Fd fd;
  short poll_events = 0;  // POLLIN, POLLPRI
  Fd kept_open;           // v1: memory.oom_control
  // After the poll: makes the next one wait again.
  void acknowledge() const;
};
[[nodiscard]] Result<OomNotice> watch_oom(const Cgroup& cgroup);

}  // namespace leash::runtime
