#include "hooks/address_mirror.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include "base/file.h"
#include "hooks/netlink.h"
#include "hooks/netns.h"

namespace leash::hooks {
namespace {

Result<Fd> make_dead_end() {
  TRY(Fd dead_end, make_network_namespace());
  // Without IPv6 the other ends stay silent: no neighbour discovery towards the container.
  TRY(const NamespaceScope scope, NamespaceScope::enter(dead_end.get()));
  auto quiet = file::write_control("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
  if (!quiet && quiet.error().code() != ENOENT) return std::move(quiet).error();  // ENOENT: no IPv6 at all
  return dead_end;
}

}  // namespace

Result<AddressMirror> AddressMirror::create(int n1_fd, int n2_fd) {
  AddressMirror mirror;
  // The groups that change what is mirrored. Neighbours, for one, come and go all the time.
  constexpr uint32_t kGroups =
      RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE;
  TRY(mirror.events_, open_netlink(n1_fd, NETLINK_ROUTE, kGroups).context("watch the engine's namespace"));
  TRY(mirror.n1_, open_netlink(n1_fd, NETLINK_ROUTE).context("look at the engine's namespace"));
  TRY(mirror.n2_, open_netlink(n2_fd, NETLINK_ROUTE).context("change the container's namespace"));
  TRY(const Fd dead_end, make_dead_end().context("make the dead end"));
  TRY(mirror.dead_end_, open_netlink(dead_end.get(), NETLINK_ROUTE).context("make the dead end"));
  mirror.n2_namespace_.reset(::fcntl(n2_fd, F_DUPFD_CLOEXEC, 3));
  if (!mirror.n2_namespace_) return Error::last_errno("keep the container's namespace");
  return mirror;
}

Result<std::vector<std::string>> AddressMirror::sync() {
  // What is read here is not looked at. ENOBUFS (an overrun) is one more reason to read the state anew.
  char buffer[16 << 10];
  for (;;) {
    const ssize_t size = ::recv(events_.get(), buffer, sizeof(buffer), MSG_DONTWAIT | MSG_TRUNC);
    if (size < 0 && errno == EAGAIN) break;
    if (size < 0 && errno != EINTR && errno != ENOBUFS) return Error::last_errno("watch the engine's namespace");
  }
  TRY(NetState wanted, read_net_state(n1_.get()).context("look at the engine's namespace"));
  const NetChange change = difference(applied_, wanted);
  std::vector<std::string> notes;
  if (change.empty()) return notes;
  TRY(notes, apply({n2_.get(), dead_end_.get(), n2_namespace_.get()}, change).context("mirror the engine's namespace"));
  applied_ = std::move(wanted);
  return notes;
}

}  // namespace leash::hooks
