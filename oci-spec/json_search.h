// Looks for one pair of key and text in a JSON document that somebody else wrote for somebody else's
// parser: at any depth, in any of several objects of the same name, however it is escaped. What a
// parser of ours would drop (a key given twice) another one merges.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace leash::oci {

// An error if `text` is no JSON.
[[nodiscard]] Result<bool> json_has_pair(std::string_view text, std::string_view key, std::string_view value);

}  // namespace leash::oci
