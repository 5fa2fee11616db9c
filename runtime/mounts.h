// The mounts of config.json (config.md#mounts), made by descriptor: the destination is opened below the
// root (root_paths), the mount is made detached with all its attributes set (open_tree(2), fsopen(2),
// mount_setattr(2)) and then moved onto that descriptor. So there is no path that an image or another
// container could swap in between (CVE-2021-30465, CVE-2025-52881), and no moment in which a read-only
// bind can be written to.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "oci-spec/config.h"
#include "oci-spec/state.h"

namespace leash::runtime {

// Asks the runtime's parent process for a detached clone of a host path, with the host's rights and, when
// wanted, mapped ids: init in a user namespace can do neither.
struct TreeRequest {
  std::string path;
  bool is_recursive = false;
  bool is_nofollow = false;
  bool is_idmap_recursive = false;
  std::vector<oci::IdMapping> uid_mappings;  // empty: no id mapping
  std::vector<oci::IdMapping> gid_mappings;
};
using OpenTree = std::function<Result<Fd>(const TreeRequest& request)>;

struct MountContext {
  int root_fd = -1;
  bool has_user_namespace = false;
  bool has_cgroup_namespace = false;  // a new one
  std::string mount_label;
  std::vector<oci::IdMapping> uid_mappings;  // the container's, for a bare "idmap"
  std::vector<oci::IdMapping> gid_mappings;
  std::vector<oci::CgroupPath> cgroups;  // the container's own directories
  OpenTree open_on_host;
};

// One mount. The error names it: `error mounting "SOURCE" to rootfs at "DESTINATION": ...`.
[[nodiscard]] Result<void> make_mount(const MountContext& context, const oci::Mount& mount);

// Deferred: a read-only tmpfs on /dev stays writable until the devices are there.
[[nodiscard]] bool is_deferred_readonly(const oci::Mount& mount);
[[nodiscard]] Result<void> make_mount_readonly(int root_fd, const std::string& destination);

// The host's side of TreeRequest, called with the host's rights in a process that is in the mount
// namespace where the tree shall be attached.
[[nodiscard]] Result<Fd> open_tree_on_host(const TreeRequest& request);

}  // namespace leash::runtime
