// The mounts of type "leash-overlay" that leash-shim asks for (hooks/trust.h): a directory of the
// container laid over itself, with a few files of ours in between.
//
//     upper   a fresh tmpfs of a few MiB, so that programs inside may write (none if read-only)
//     lower   `source`, the layer that the shim laid out
//     lowest  the destination itself, as the container would have seen it
//
// The lowest layer is the destination's descriptor and not a path: nobody can exchange it between the
// look and the mount, and it may as well lie on a bind mount. The tmpfs belongs to the mount namespace
// of the container alone: it is bounded (an upper on the host's /run would let a container fill it),
// and no kill at any moment leaves it behind.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "oci-spec/shim_protocol.h"

namespace leash::runtime {

inline constexpr std::string_view kTrustOverlayType = "leash-overlay";

// Mounts over `destination_fd` (O_PATH, a directory below the container's root, opened in the mount
// namespace of the caller, which must be the container's own, before pivot_root). Options: "ro",
// "nosuid", "nodev", "noexec", "stage=DIR" (an empty directory on the host over which the tmpfs lies for
// an instant), "size=BYTES". A later path walk to the destination sees the overlay; the descriptor
// itself still means the directory beneath.
[[nodiscard]] Result<void> mount_trust_overlay(const oci::ExtraMount& mount, int destination_fd);

}  // namespace leash::runtime
