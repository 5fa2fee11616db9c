// The session keyring (session-keyring(7)): a container with the engine's would share its keys.
#pragma once

#include <string>

#include "base/result.h"

namespace leash::runtime {

// Joins a new keyring "_ses.ID", searchable by its owner. A kernel without keyrings is no error.
[[nodiscard]] Result<void> join_session_keyring(const std::string& container_id);

}  // namespace leash::runtime
