// The options of one mount of config.json (config.md#mounts), sorted by who acts on them: the mount's own
// attributes (mount_setattr(2)), the same for the whole tree ("rro"), propagation, the file system's flags
// and data (fsconfig(2)), and the words that are the runtime's own ("bind", "tmpcopyup", "idmap").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace leash::runtime {

struct MountOptions {
  bool is_bind = false;
  bool is_recursive = false;  // rbind
  // MOUNT_ATTR_* to set and to clear on the mount itself, and on everything below it.
  uint64_t set = 0;
  uint64_t clear = 0;
  uint64_t recursive_set = 0;
  uint64_t recursive_clear = 0;
  // MS_PRIVATE, MS_SLAVE, MS_SHARED, MS_UNBINDABLE in the order given, with MS_REC for the "r" forms.
  std::vector<unsigned long> propagation;
  std::vector<std::string> fs_flags;                           // "sync", "dirsync", "lazytime", "mand"
  std::vector<std::pair<std::string, std::string>> fs_data;    // "size" "65536k"; a value may be empty
  bool copies_up = false;      // tmpcopyup
  bool copies_symlink = false; // copy-symlink, podman's no-dereference
  bool is_idmap = false;
  bool is_recursive_idmap = false;  // ridmap
  std::string idmap_text;      // crun's "idmap=uids=0-1-10;gids=0-1-10", after the "="
  bool source_nofollow = false;
  bool destination_nofollow = false;
};

[[nodiscard]] MountOptions parse_mount_options(const std::vector<std::string>& options);

// linux.rootfsPropagation to mount(2) flags; 0 for an empty word.
[[nodiscard]] Result<unsigned long> parse_rootfs_propagation(std::string_view word);

// Every word understood here, sorted: `features` prints them.
[[nodiscard]] std::vector<std::string> known_mount_options();

}  // namespace leash::runtime
