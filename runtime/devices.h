// /dev of the container: the device nodes of config.json and the default ones (config-linux.md#devices),
// and the links that programs expect there.
#pragma once

#include <vector>

#include "base/result.h"
#include "oci-spec/config.h"

namespace leash::runtime {

// False when config.json binds something over /dev: then it is the engine's.
[[nodiscard]] bool owns_dev(const oci::Config& config);

// mknod(2); in a user namespace the host's nodes are bound instead, which the kernel asks for.
[[nodiscard]] Result<void> make_devices(int root_fd, const std::vector<oci::Device>& devices, bool has_user_namespace);

// /dev/fd, stdin, stdout, stderr, core, and ptmx as pts/ptmx: the container's own instance.
[[nodiscard]] Result<void> make_device_links(int root_fd);

}  // namespace leash::runtime
