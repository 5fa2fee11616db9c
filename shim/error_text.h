// Error texts for the way to an engine. Docker and Podman search them for words: "no such file or
// directory" and "executable file not found" become exit code 127 ("command not found"), "permission
// denied" 126. A control of ours that failed is neither; it has to be 125, whatever errno was behind it.
#pragma once

#include <string>
#include <string_view>

namespace leash::shim {

// The same text in words that no engine takes for a missing or forbidden command.
[[nodiscard]] std::string for_engine(std::string_view text);

}  // namespace leash::shim
