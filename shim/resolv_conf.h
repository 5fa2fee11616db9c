// The resolvers of a container: what the engine wrote into its /etc/resolv.conf.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "oci-spec/shim_protocol.h"

namespace leash::shim {

struct Resolvers {
  std::vector<std::string> servers;  // addresses, in the file's order; without 127.0.0.11
  bool has_engine_dns = false;       // 127.0.0.11 is among them
  std::vector<std::string> loopback; // those in 127.0.0.0/8 other than 127.0.0.11
};

// resolv.conf(5): the first three "nameserver" lines count, as in the C library. What is no address is
// skipped, as it is there.
[[nodiscard]] Resolvers parse_resolv_conf(std::string_view text);

// Reads the source of the bind mount at /etc/resolv.conf, else the file below the rootfs. None at all is
// a container without resolvers.
[[nodiscard]] Result<Resolvers> read_resolvers(const oci::PrepareRequest& request);

}  // namespace leash::shim
