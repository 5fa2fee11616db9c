// The namespaces of a container: which are new, which are joined, and the clone that brings init into
// them (namespaces(7), user_namespaces(7), time_namespaces(7)).
//
// Most containers need one clone(2): new namespaces by its flags, and the joined ones entered by init
// itself. A process in between (the "stage") is needed where a clone cannot do it: joining a pid
// namespace and time offsets act on children only, and with a user namespace the others must be entered
// in the right order. The stage clones init with CLONE_PARENT, so that init is always a child of the
// runtime and, once that exits, of the engine's subreaper.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "base/channel.h"
#include "base/fd.h"
#include "base/result.h"
#include "oci-spec/config.h"

namespace leash::runtime {

struct JoinedNamespace {
  oci::NamespaceType type = oci::NamespaceType::kMount;
  std::string path;
  Fd fd;
};

struct NamespacePlan {
  int new_flags = 0;  // CLONE_NEW* of the new ones; CLONE_NEWTIME as well
  std::vector<JoinedNamespace> joined;
  std::vector<oci::IdMapping> uid_mappings;
  std::vector<oci::IdMapping> gid_mappings;
  std::string time_offsets;  // for /proc/self/timens_offsets

  [[nodiscard]] bool is_new(int flag) const { return (new_flags & flag) != 0; }
  [[nodiscard]] const JoinedNamespace* find_joined(oci::NamespaceType type) const;
  // Is init in a user namespace other than the runtime's?
  [[nodiscard]] bool has_user_namespace() const;
  [[nodiscard]] bool needs_stage() const;
};

// Opens every path and checks that it is a namespace of the type that config.json says. A path to the
// runtime's own namespace is dropped: it is joined already.
[[nodiscard]] Result<NamespacePlan> plan_namespaces(const oci::Linux& spec);

// Forks init into its new namespaces; `child` runs there and must not return. With a user namespace the
// ids are mapped before this returns. Init still has to call enter_namespaces.
[[nodiscard]] Result<pid_t> clone_init(const NamespacePlan& plan, const std::function<void()>& child);

// In init: joins what clone_init has left to it, and becomes root of its user namespace.
[[nodiscard]] Result<void> enter_namespaces(const NamespacePlan& plan);
// In init, once it is in its cgroup: only then is that cgroup the root of its view (cgroup_namespaces(7)).
[[nodiscard]] Result<void> enter_cgroup_namespace(const NamespacePlan& plan);

// setns(2) into all namespaces of another process, as `exec` does.
[[nodiscard]] Result<void> join_process(int pidfd, int flags);

// inode of /proc/PID/ns/NAME; 0 when it is gone.
[[nodiscard]] uint64_t namespace_inode(pid_t pid, const std::string& name);

}  // namespace leash::runtime
