// Signal names as `kill` takes them: "KILL", "SIGKILL", "kill", "RTMIN+3" or a number.
#pragma once

#include <string>

#include "base/result.h"

namespace leash::runtime {

// Error: `unknown signal "X"`. A number is passed on as it is: the kernel judges it.
[[nodiscard]] Result<int> parse_signal(const std::string& text);

}  // namespace leash::runtime
