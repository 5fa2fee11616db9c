#include "hooks/socket_lookup.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>

#include <cstring>

#include "hooks/netlink.h"

namespace leash::hooks {

Result<SocketLookup> SocketLookup::open(int netns_fd) {
  TRY(Fd socket, open_netlink(netns_fd, NETLINK_SOCK_DIAG));
  // A dump of no state at all: an answer without sockets, or "no such protocol".
  NetlinkMessage request(SOCK_DIAG_BY_FAMILY, 0);
  auto* body = request.extra<inet_diag_req_v2>();
  body->sdiag_family = AF_INET;
  body->sdiag_protocol = IPPROTO_TCP;
  TRY_VOID(dump(socket.get(), request, "sock_diag", [] {}, [](const nlmsghdr*) { return Result<void>(); }));
  return SocketLookup(std::move(socket));
}

Result<uint64_t> SocketLookup::find_tcp(const oci::IpAddress& source, uint16_t source_port,
                                        const oci::IpAddress& destination, uint16_t destination_port) const {
  if (source.is_ipv6 != destination.is_ipv6) return Error(EINVAL, "find a socket: two address families");
  NetlinkMessage request(SOCK_DIAG_BY_FAMILY, 0);
  auto* body = request.extra<inet_diag_req_v2>();
  body->sdiag_family = source.is_ipv6 ? AF_INET6 : AF_INET;
  body->sdiag_protocol = IPPROTO_TCP;
  body->idiag_states = ~uint32_t{0};
  body->id.idiag_sport = htons(source_port);
  body->id.idiag_dport = htons(destination_port);
  const size_t length = source.is_ipv6 ? 16 : 4;
  std::memcpy(body->id.idiag_src, source.bytes.data(), length);
  std::memcpy(body->id.idiag_dst, destination.bytes.data(), length);
  body->id.idiag_cookie[0] = INET_DIAG_NOCOOKIE;
  body->id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  TRY(const std::vector<char> answer, ask(socket_.get(), request, "find a socket"));
  if (answer.size() < NLMSG_HDRLEN + sizeof(inet_diag_msg)) return Error(EBADMSG, "find a socket: a short answer");
  inet_diag_msg message;
  std::memcpy(&message, answer.data() + NLMSG_HDRLEN, sizeof message);
  // A connection that nobody holds any more (TIME_WAIT) has no inode, and a lookup without a match may
  // come upon a listener.
  if (message.idiag_inode == 0 || message.id.idiag_dport != htons(destination_port)) {
    return Error(ENOENT, "find a socket: nobody holds it");
  }
  return uint64_t{message.idiag_inode};
}

}  // namespace leash::hooks
