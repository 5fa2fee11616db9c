// The control groups of one container: cgroup v1, v2, or the hybrid of both (v1 controllers, and a v2
// tree beside them that may hold controllers of its own), by files (the "cgroupfs" manager).
//
//   create:  Cgroup::plan -> create(resources) -> join(pid)
//   later:   Cgroup::from_record(paths of state.json) -> join, update, freeze, pids, kill_all, destroy
//
// cgroup.cc has the directories and processes; what is written for limits differs by version and stands in
// cgroup_v1.cc, cgroup_v2.cc and cgroup_devices.cc; the numbers of `events` in cgroup_stats.cc.
//
// Limits are written before the process joins: there is no moment without them, and v1's cpuset and
// kernel memory take processes only once they are set. On a pure v2 host init can be born inside
// (CLONE_INTO_CGROUP with v2_directory()) instead of joining.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "oci-spec/config.h"
#include "oci-spec/state.h"

namespace leash::runtime {

enum class CgroupMode { kV1, kHybrid, kV2 };

// One mounted hierarchy of this host.
struct CgroupHierarchy {
  std::string controllers;  // "memory", "cpu,cpuacct", "name=systemd"; empty: the v2 tree
  std::string mount_point;  // "/sys/fs/cgroup/memory"
  std::string own_path;     // where the runtime itself is, "/user.slice/..." (third field of /proc/self/cgroup)
};

struct CgroupHost {
  CgroupMode mode = CgroupMode::kV2;
  std::vector<CgroupHierarchy> hierarchies;
  // Reads /proc/self/cgroup, and /proc/self/mountinfo only where the mounts are not in their usual places.
  [[nodiscard]] static Result<CgroupHost> discover();
};

struct CgroupRequest {
  std::string cgroups_path;  // linux.cgroupsPath; empty: /<container_id>
  std::string container_id;
  bool use_systemd = false;  // --systemd-cgroup
  bool is_rootless = false;  // directories that cannot be made are then left out, unless limits need them
};

class Cgroup {
 public:
  Cgroup() = default;

  // The directories for a new container, not made yet. An absolute cgroupsPath is below each hierarchy's
  // root; a relative one below the runtime's own cgroup (v2: below its parent, which has no processes).
  [[nodiscard]] static Result<Cgroup> plan(const CgroupRequest& request);
  [[nodiscard]] static Cgroup from_record(const std::vector<oci::CgroupPath>& paths);
  [[nodiscard]] const std::vector<oci::CgroupPath>& paths() const { return paths_; }
  [[nodiscard]] CgroupMode mode() const { return mode_; }

  // A container gets a cgroup of its own: one that is there already and has processes, or is frozen, is
  // somebody else's, and an error here. Asked before the paths are recorded, since what is recorded dies
  // with the container.
  [[nodiscard]] Result<void> check_unused() const;
  // Makes the directories and writes all limits and device rules (with the default devices of
  // config-linux.md#default-devices). On failure whatever was made is removed again.
  [[nodiscard]] Result<void> create(const oci::Resources& resources);
  // Moves `pid` in. `sub_cgroups` is exec's --cgroup: "PATH" or (v1) "memory,cpu:PATH", below the
  // container's own. `init_pid`: on v2 a container that has made cgroups of its own may take no process in
  // its topmost one; the process then goes where init is.
  [[nodiscard]] Result<void> join(pid_t pid, const std::vector<std::string>& sub_cgroups = {}, pid_t init_pid = 0) const;
  // What is present in `resources` is changed, the rest kept; device rules are not touched.
  [[nodiscard]] Result<void> update(const oci::Resources& resources) const;

  [[nodiscard]] Result<void> freeze() const;
  [[nodiscard]] Result<void> thaw() const;
  [[nodiscard]] Result<bool> is_frozen() const;

  // Processes here and in cgroups below.
  [[nodiscard]] Result<std::vector<pid_t>> pids() const;
  // SIGKILL to all, also when frozen; waits until the cgroup is empty or the time is over (ETIMEDOUT).
  [[nodiscard]] Result<void> kill_all(std::chrono::milliseconds deadline = std::chrono::seconds(10)) const;
  // `signal` to all (kill --all).
  [[nodiscard]] Result<void> signal_all(int signal) const;
  // How often the OOM killer has killed here; 0 where it cannot be told.
  [[nodiscard]] uint64_t oom_kills() const;

  // Removes the directories, cgroups below first. Missing ones are success; EBUSY is retried for a short
  // while since a process leaves its cgroup a little after it has been reaped.
  [[nodiscard]] Result<void> destroy() const;

  // The directory of the v2 tree (mode kV2), for CLONE_INTO_CGROUP.
  [[nodiscard]] Result<Fd> v2_directory() const;
  // The directory for that controller: "memory"; "" is the v2 tree's. Empty where there is none. On v2 one
  // directory serves all.
  [[nodiscard]] std::string directory(std::string_view controller) const;

 private:
  CgroupMode mode_ = CgroupMode::kV2;
  bool is_rootless_ = false;
  std::vector<oci::CgroupPath> paths_;
  std::vector<std::string> mount_points_;  // beside paths_, for a planned cgroup only
};

}  // namespace leash::runtime
