// The text form of a TreeRequest, for the message from init to its parent.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "runtime/mounts.h"

namespace leash::runtime {

[[nodiscard]] std::string print(const TreeRequest& request);
[[nodiscard]] Result<TreeRequest> parse_tree_request(std::string_view text);

}  // namespace leash::runtime
