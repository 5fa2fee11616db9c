// Which socket of a network namespace has a TCP connection: the kernel tells its inode (sock_diag(7)), the
// number that stands in the /proc/PID/fd links of whoever holds it.
#pragma once

#include <cstdint>

#include "base/fd.h"
#include "base/result.h"
#include "oci-spec/ip_class.h"

namespace leash::hooks {

class SocketLookup {
 public:
  // An error if the kernel has no sock_diag for TCP: then it is not worth asking again.
  [[nodiscard]] static Result<SocketLookup> open(int netns_fd);

  // Of the socket at the source's end. ENOENT: there is none, or not any more. IPv4-mapped IPv6 sockets
  // are found by their IPv4 addresses.
  [[nodiscard]] Result<uint64_t> find_tcp(const oci::IpAddress& source, uint16_t source_port,
                                          const oci::IpAddress& destination, uint16_t destination_port) const;

 private:
  explicit SocketLookup(Fd socket) : socket_(std::move(socket)) {}
  Fd socket_;
};

}  // namespace leash::hooks
