// The checks of `leash doctor`: one per control that Leash needs of the machine. A check says what was
// found and, if that is not enough, what to do. Checks probe; they do not compare version numbers.
#pragma once

#include <string>
#include <vector>

#include "cli/containers.h"

namespace leash::cli {

enum class CheckState {
  kOk,
  kNote,  // nothing wrong, but good to know
  kWarn,  // works, with a limit
  kFail,  // containers do not start, or are not held
};

struct Check {
  std::string name;
  CheckState state = CheckState::kOk;
  std::string text;  // escaped
};

// Kernel.
[[nodiscard]] Check check_privileges();
[[nodiscard]] Check check_system_calls();
[[nodiscard]] Check check_namespaces();
[[nodiscard]] Check check_nftables();
[[nodiscard]] Check check_overlay();
[[nodiscard]] Check check_seccomp();
[[nodiscard]] Check check_cgroups();
// Installation.
[[nodiscard]] Check check_programs();
[[nodiscard]] Check check_trust_store();
[[nodiscard]] Check check_policy();
[[nodiscard]] Check check_directories(const Directories& directories);
// Engines.
[[nodiscard]] std::vector<Check> check_docker();
[[nodiscard]] Check check_podman();
[[nodiscard]] Check note_on_builds();

}  // namespace leash::cli
