// What a killed shim left: its children die with it (PR_SET_PDEATHSIG) and N2 has lost its way to the
// proxy, so that nothing passes; files, a cgroup and perhaps a table in N1 remain. Whoever takes the
// directory over clears them: the next shim of the same id, or `leash-shim --cleanup ID`.
#pragma once

#include <string>

#include "base/result.h"
#include "shim/registry.h"

namespace leash::shim {

// `directory` is claimed: nobody else serves or clears it. Its own files but the lock go.
[[nodiscard]] Result<void> clear_left_over(const RegistryDirectory& directory, const std::string& container_id);

// Everything of `container_id`, if no shim serves it. Nothing there is success; EBUSY: it is served.
[[nodiscard]] Result<void> clean_up(const std::string& container_id);

}  // namespace leash::shim
