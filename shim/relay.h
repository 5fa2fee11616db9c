// The inbound relay: brings TCP connections to published and exposed ports from N1, where the engine
// delivers them, into N2, where the container listens. N1's ruleset (hooks/lockin.h, guard_inbound)
// redirects them to one listener per address family; which port was wanted says SO_ORIGINAL_DST.
//
// Its work is done by a child that keeps no privilege: its listeners were made in N1, it lives in N2, so
// that a socket it makes can reach the container and nothing else. Bytes go through a pipe by splice(2):
// 64 KiB per direction and no more; an end of file in one direction is passed on in that direction alone;
// a reset is passed on as a reset.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace leash::shim {

// Bound on every address of N1 at one port, and deaf: no connection is accepted before the relay runs.
struct RelayListeners {
  std::vector<Fd> sockets;  // IPv4, and IPv6 where N1 has it
  uint16_t port = 0;
};
[[nodiscard]] Result<RelayListeners> bind_relay_listeners(int n1_fd);

struct Relay {
  Fd pidfd;
  pid_t pid = 0;
};
// Starts to listen, and forks the child. It ends when the shim does, or by SIGKILL.
[[nodiscard]] Result<Relay> start_relay(const RelayListeners& listeners, int n2_fd);
// Refuses again what would otherwise wait in the backlog of a relay that has died.
void deafen(const RelayListeners& listeners);

}  // namespace leash::shim
