// The dialer: the only maker of sockets that can reach the world. A child of the shim that went into N1
// and then gave up everything else: it has its uid, its network namespace, one socket to ask by and one
// netlink socket, and runs no parser: a request is a fixed struct (oci-spec/proxy_protocol.h).
//
// It refuses what is never a destination, as the kernel's own routing table of N1 sees it at that
// moment: an address that N1 would deliver to itself (loopback, its own and its bridge's addresses, the
// host's when N1 is the host's), broadcast and multicast. The proxy has judged before; this is the check
// that holds when the proxy is taken over.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace leash::shim {

struct Dialer {
  Fd pidfd;
  pid_t pid = 0;
  Fd proxy_end;  // goes to leash-proxy with "configure"; the dialer ends when its last copy is closed
};

// Forks the dialer and waits until it is in N1 and without privileges. `resolvers` ("ADDRESS" or
// "ADDRESS:PORT", "[V6]:PORT") may be asked at their port even where they are loopback: 127.0.0.11, or
// the host's stub resolver.
[[nodiscard]] Result<Dialer> start_dialer(int n1_fd, const std::vector<std::string>& resolvers);

// "ADDRESS", "ADDRESS:PORT" or "[V6]:PORT"; port 53 if there is none.
struct ResolverAddress {
  bool is_ipv6 = false;
  uint8_t address[16] = {};
  uint16_t port = 53;
};
[[nodiscard]] Result<ResolverAddress> parse_resolver(std::string_view text);

}  // namespace leash::shim
