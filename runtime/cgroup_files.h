// Reading and writing the files of one cgroup directory: what cgroup*.cc have in common.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace leash::runtime::cgroup_files {

// "failed to write "64": write '/sys/fs/cgroup/pids/x/pids.max': invalid argument"
[[nodiscard]] Result<void> write(const std::string& directory, std::string_view file, std::string_view value);
[[nodiscard]] Result<void> write(const std::string& directory, std::string_view file, uint64_t value);
[[nodiscard]] Result<void> write(const std::string& directory, std::string_view file, int64_t value);
// The whole text, without the final newline.
[[nodiscard]] Result<std::string> read(const std::string& directory, std::string_view file);
// One number; "max" is the largest. nullopt: no such file, or something else in it.
[[nodiscard]] std::optional<uint64_t> read_number(const std::string& directory, std::string_view file);
// The number behind `key` in a file of "key value" lines.
[[nodiscard]] std::optional<uint64_t> read_field(const std::string& directory, std::string_view file, std::string_view key);

[[nodiscard]] bool exists(const std::string& directory, std::string_view file);
// Names of the directories below.
[[nodiscard]] std::vector<std::string> children(const std::string& directory);

// Decimal digits only; "max" is the largest.
[[nodiscard]] std::optional<uint64_t> parse_number(std::string_view text);

}  // namespace leash::runtime::cgroup_files
