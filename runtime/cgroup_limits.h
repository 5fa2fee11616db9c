// Limits of config.json as files of a cgroup: one function for each version of the interface. Private to
// cgroup*.cc.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "oci-spec/config.h"
#include "runtime/cgroup.h"

namespace leash::runtime {

// "cannot set memory limit: container could not join or create cgroup" when the host has no such
// controller: a limit that was asked for is never left out.
[[nodiscard]] Result<std::string> directory_for(const Cgroup& cgroup, std::string_view controller, std::string_view limit);

// `is_new`: nothing has been set here yet, so orders that only matter for a change need no look at the
// present values.
[[nodiscard]] Result<void> set_v1_limits(const Cgroup& cgroup, const oci::Resources& resources, bool is_new);
[[nodiscard]] Result<void> set_v2_limits(const std::string& directory, const oci::Resources& resources);
// linux.resources.unified: files of the v2 tree by name.
[[nodiscard]] Result<void> set_unified(const std::string& directory, const oci::StringMap& unified);
// hugetlb is the one controller that a hybrid host has in its v2 tree as often as in v1.
[[nodiscard]] Result<void> set_hugepages_v2(const std::string& directory, const std::vector<oci::HugepageLimit>& limits);

// pids.limit as pids.max: below zero none; 0 is the least that there can be, 1 (as runc 1.4).
[[nodiscard]] std::string pids_limit_text(int64_t limit);
// cpu.shares (2..262144, 1024 is usual) as cpu.weight (1..10000, 100 is usual).
[[nodiscard]] uint64_t cpu_weight_of_shares(uint64_t shares);
// blkio weight (10..1000) as io.weight (1..10000).
[[nodiscard]] uint64_t io_weight_of_blkio(uint16_t weight);
// v1 counts memory + swap, v2 swap alone. nullopt: not to be written; -1: no limit.
[[nodiscard]] Result<std::optional<int64_t>> v2_swap(const oci::MemoryResources& memory);

}  // namespace leash::runtime
