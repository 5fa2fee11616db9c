// The two rulesets of the lock-in as values: `inet leash` of N2 and of N1. Pure: what they are can be
// tested without a kernel; whether the kernel has them is compare_with_kernel()'s to say.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hooks/lockin.h"
#include "hooks/ruleset.h"

namespace leash::hooks {

inline constexpr const char* kTable = "leash";
// Before Docker's DNAT of 127.0.0.11, for both of its iptables backends (priority -100).
inline constexpr int32_t kNatPriority = -110;
// Rules whose counter is one of refusals are called so.
inline constexpr std::string_view kRefusedPrefix = "refused: ";

// Errors: a resolver that is not in 127.0.0.0/8.
[[nodiscard]] Result<Ruleset> container_ruleset(const ListenerPorts& ports,
                                                const std::vector<std::string>& loopback_resolvers);
// Errors: a relay port of 0, an empty range.
[[nodiscard]] Result<Ruleset> inbound_ruleset(const InboundPlan& plan);

}  // namespace leash::hooks
