// Whole files, for documents of ours. Not for paths that a container can touch: those are opened
// below a root descriptor with sys::open_in_root and read with sys::read_all.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/sys.h"

namespace leash::file {

[[nodiscard]] Result<std::string> read(const std::string& path, size_t limit = size_t{64} << 20);

// Replaces `path` with `data`: written beside it, then rename(2), so that a reader sees the old or the
// new text and never a part.
[[nodiscard]] Result<void> write_atomic(const std::string& path, std::string_view data, mode_t mode);

// Writes `data` with one open (O_WRONLY, no O_CREAT) and one write(2): for /proc and cgroup files.
[[nodiscard]] Result<void> write_control(const std::string& path, std::string_view data);

// mkdir -p. Existing directories keep their modes.
[[nodiscard]] Result<void> make_directories(const std::string& path, mode_t mode);

// rm -rf below `path`, never following symlinks. A missing path is success.
[[nodiscard]] Result<void> remove_tree(const std::string& path);

}  // namespace leash::file
