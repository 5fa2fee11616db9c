// What Docker keeps beside the bind source of a container's /etc/hostname: config.v2.json and
// hostconfig.json. They hold what config.json does not say: the container's name, and the ports that are
// published or exposed. The formats are Docker's own (moby, container/container.go), unchanged in what
// we read since 1.10.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace leash::oci {

struct TcpPorts {
  uint16_t first = 0;
  uint16_t last = 0;  // inclusive
  bool operator==(const TcpPorts&) const = default;
};

struct EngineFacts {
  std::string container_id;
  std::string name;                 // without the leading '/'
  std::vector<TcpPorts> tcp_ports;  // published or exposed, inside the container; sorted, no overlaps
};

[[nodiscard]] Result<EngineFacts> parse_docker_files(std::string_view config_v2_json, std::string_view hostconfig_json);

// "80/tcp", "8000-8010/tcp", "80" (tcp). Nothing for other protocols.
[[nodiscard]] Result<std::vector<TcpPorts>> parse_port_key(std::string_view key);

}  // namespace leash::oci
