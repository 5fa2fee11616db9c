// The end of a log file that may have been cut by a kill or a full disk: what number came last, and
// whether the last line is whole.
#pragma once

#include <cstdint>
#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace leash::shim {

// Cuts a torn last line off (its exchange still stands in the in-flight table, or was never counted), and
// says the seq of the last whole line: 0 for an empty file. `fd` is open for reading and writing.
[[nodiscard]] Result<uint64_t> repair_tail(int fd);

}  // namespace leash::shim
