// Which network a leashed container is to have, told from config.json and the registry of leashed ones.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "oci-spec/shim_protocol.h"
#include "runtime/namespaces.h"

namespace leash::runtime {

struct NetworkChoice {
  oci::NetworkKind kind = oci::NetworkKind::kNew;
  // The namespace is a leashed container's (its N1 or N2): that one's shim serves this container too.
  std::optional<oci::RegistryEntry> leashed;
};

// Refuses the namespace of a container that is not leashed: whoever shares it shares its way out. An
// engine names another container's namespace as /proc/PID/ns/net; one that it has made for this container
// is a path of its own, in which no process lives yet.
[[nodiscard]] Result<NetworkChoice> classify_network(const NamespacePlan& plan);

}  // namespace leash::runtime
