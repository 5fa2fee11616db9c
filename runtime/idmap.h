// Id-mapped mounts (mount_setattr(2), MOUNT_ATTR_IDMAP): the kernel takes the mapping from a user
// namespace, so one is made for the mapping alone, by a child that lives until its file is open.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "oci-spec/config.h"

namespace leash::runtime {

struct IdmapMappings {
  std::vector<oci::IdMapping> uid;
  std::vector<oci::IdMapping> gid;
};

// The mapping of one mount: its own, crun's text ("uids=0-1-10#10-11-10;gids=0-1-10"), or the container's.
[[nodiscard]] Result<IdmapMappings> idmap_mappings(const oci::Mount& mount, const std::string& text,
                                                   const std::vector<oci::IdMapping>& container_uid,
                                                   const std::vector<oci::IdMapping>& container_gid);

// On a detached tree.
[[nodiscard]] Result<void> apply_idmap(int tree_fd, const std::vector<oci::IdMapping>& uid_mappings,
                                       const std::vector<oci::IdMapping>& gid_mappings, bool is_recursive);

}  // namespace leash::runtime
