// A failed lock-in is the runtime's failure (docker: exit 125), never the program's. Engines tell the two
// apart by words in the error: "no such file or directory" would become 127, "permission denied" 126. So
// errors of ours say the same in other words.
#pragma once

#include <string>

#include "base/result.h"

namespace leash::runtime {

[[nodiscard]] Error lock_in_error(Error error);  // prefixed with "leash: " unless it is already

template <class T>
[[nodiscard]] Result<T> lock_in_step(Result<T> result) {
  if (result) return result;
  return lock_in_error(std::move(result).error());
}

}  // namespace leash::runtime
