// Capabilities of the container's process (capabilities(7)): names to sets at create, and the steps that
// init takes around its change of user.
//
//   drop_bounding        while still root: PR_CAPBSET_DROP needs CAP_SETPCAP
//   keep_over_setuid     then setgid, setuid by the caller
//   set_capabilities     effective, permitted, inheritable, then ambient
//   keep_over_setuid(false)
//
// A process without `capabilities` in config.json gets none: CapabilitySets{}. The steps are plain
// prctl(2) and capset(2) and allocate nothing, so init may take them after clone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "oci-spec/config.h"

namespace leash::runtime {

struct CapabilitySets {  // bit N is capability N
  uint64_t bounding = 0;
  uint64_t effective = 0;
  uint64_t permitted = 0;
  uint64_t inheritable = 0;
  uint64_t ambient = 0;
};

// Names that this kernel does not have are left out and listed in `unknown` (once each, sorted): runc
// warns "ignoring unknown or unavailable capabilities: [CAP_X]" and goes on, so that a newer engine's
// list works on an older kernel. Ambient ones that are not also permitted and inheritable are left out:
// the kernel never raises those.
[[nodiscard]] CapabilitySets parse_capabilities(const oci::Capabilities& names, std::vector<std::string>& unknown);
// All capabilities of this kernel, "CAP_CHOWN" first.
[[nodiscard]] std::vector<std::string> known_capabilities();
// The bit of "CAP_CHOWN"; -1 when this kernel does not have it.
[[nodiscard]] int capability_number(std::string_view name);

[[nodiscard]] Result<void> drop_bounding(const CapabilitySets& sets);
[[nodiscard]] Result<void> keep_over_setuid(bool keep);
[[nodiscard]] Result<void> set_capabilities(const CapabilitySets& sets);

// prctl(PR_SET_NO_NEW_PRIVS).
[[nodiscard]] Result<void> set_no_new_privileges();

}  // namespace leash::runtime
