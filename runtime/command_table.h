// All commands of leash-runtime, and the texts about them: what `--help` prints, word for word where
// callers look for it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/command.h"

namespace leash::runtime {

[[nodiscard]] const std::vector<const Command*>& command_table();
[[nodiscard]] const Command* find_command(std::string_view name);

[[nodiscard]] std::span<const args::Flag> global_flags();
[[nodiscard]] std::string program_help();
[[nodiscard]] std::string command_help(const Command& command);
// "leash-runtime version 0.1.0", and what it was built for, one fact a line.
[[nodiscard]] std::string version_text();

}  // namespace leash::runtime
