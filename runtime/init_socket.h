// <root>/<id>/init.sock, where init waits for `start`. Addressed through a descriptor of its directory:
// a unix socket's path is bounded to 107 bytes and engines' roots with 64-digit ids are longer.
#pragma once

#include <string>

#include "base/channel.h"
#include "base/fd.h"
#include "base/result.h"

namespace leash::runtime {

[[nodiscard]] Result<Fd> listen_for_start(const std::string& container_directory);
// ECONNREFUSED or ENOENT: nobody waits there (any more).
[[nodiscard]] Result<Channel> connect_to_init(const std::string& container_directory);

}  // namespace leash::runtime
