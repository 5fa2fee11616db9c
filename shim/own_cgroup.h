// A cgroup of the shim's own, "/leash/<id>", where processes are counted and killed by: the unified
// hierarchy and, on v1 and hybrid machines, systemd's named one. Outside of the engine's, so that
// stopping or restarting the engine's unit does not take the shim, and outside of the container's, so
// that neither its freezer nor its limits nor its memory killer does.
//
// A first migration costs some 12 ms (cgroup_threadgroup_rwsem waits for an RCU grace period), more than
// everything else in `create`: so the shim is born in the unified one (CLONE_INTO_CGROUP), and a helper
// moves it within systemd's while `create` goes on.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace leash::shim {

class OwnCgroup {
 public:
  // Makes the directories. No hierarchy at all (not mounted, read-only) is not an error, but a note:
  // then the shim stays where it was started.
  [[nodiscard]] static OwnCgroup create(const std::string& container_id);

  // fork(2) into the unified hierarchy's directory where there is one.
  [[nodiscard]] Result<pid_t> fork_into() const;

  // Moves the processes into every hierarchy's directory; from a helper process, without waiting for it.
  void adopt(const std::vector<pid_t>& pids);

  // The same under another container's name, and waits: the old directories are empty and gone.
  void move(const std::string& container_id, const std::vector<pid_t>& pids);

  // The calling process leaves, the directories go.
  void leave_and_remove();

  // For what a killed shim left: the directories that there are.
  [[nodiscard]] static OwnCgroup find(const std::string& container_id);
  // SIGKILL to every process in them but ours, and waits until none is left.
  [[nodiscard]] Result<void> kill_all() const;
  void remove();

 private:
  struct Hierarchy {
    std::string mount_point;
    std::string directory;  // mount_point + "/leash/<id>"
    bool is_unified = false;
  };
  void start_helper(const std::vector<pid_t>& pids, const std::vector<Hierarchy>& emptied);
  std::vector<Hierarchy> hierarchies_;
  pid_t helper_ = -1;
};

}  // namespace leash::shim
