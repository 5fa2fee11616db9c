// What the proxy is told of N1, from what the address mirror read there.
#pragma once

#include "hooks/net_state.h"
#include "oci-spec/proxy_protocol.h"

namespace leash::shim {

// `is_the_hosts`: N1 is the host's own namespace, whose gateway is a router and not the host.
[[nodiscard]] oci::NetworkFacts network_facts(const hooks::NetState& state, bool is_the_hosts);

}  // namespace leash::shim
