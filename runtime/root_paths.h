// Making files and directories below a container's root, where the image decides what is a symlink.
// Whatever a path's links say, nothing is made or opened outside of the root (CVE-2021-30465): every step
// is an openat2(2) with RESOLVE_IN_ROOT, and links are read and followed here, with the root as "/".
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/fd.h"
#include "base/result.h"

namespace leash::runtime {

// O_PATH descriptor of a directory, made with its parents where missing (0755). Dangling links are
// followed as far as they go and completed. ENOTDIR when something else is there.
[[nodiscard]] Result<Fd> make_directory_in_root(int root_fd, std::string_view path, mode_t mode = 0755);

// The directory that shall hold the last component of `path`, made where missing, and that component's
// name, after links. EINVAL for "/" itself.
[[nodiscard]] Result<std::pair<Fd, std::string>> make_parent_in_root(int root_fd, std::string_view path);

// O_PATH descriptor of a file that is no directory; an empty one is made where there is none.
[[nodiscard]] Result<Fd> make_file_in_root(int root_fd, std::string_view path, mode_t mode = 0644);

}  // namespace leash::runtime
