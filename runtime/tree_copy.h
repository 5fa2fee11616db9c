// Copies what is in a directory into another, by descriptor: for tmpcopyup, where a tmpfs starts with what
// the image has in its place. Links are copied, never followed; owners, modes, times and extended
// attributes are kept; sockets are left out.
#pragma once

#include "base/result.h"

namespace leash::runtime {

[[nodiscard]] Result<void> copy_directory(int from_fd, int to_fd);

}  // namespace leash::runtime
