#include "hooks/lockin.h"

#include <linux/if.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>

#include "base/file.h"
#include "base/sys.h"
#include "hooks/lockin_rules.h"
#include "hooks/netlink.h"
#include "hooks/netns.h"
#include "hooks/ruleset.h"

namespace leash::hooks {
namespace {

constexpr int kBacklog = 4096;
constexpr unsigned kLoopbackIndex = 1;  // in every namespace, from its birth
constexpr uint32_t kLastMetric = 0xffffffff;

// Above the default net.ipv4.ip_local_port_range, so that no client's port collides, and where hardly
// anybody listens.
constexpr uint16_t kFirstListenerPort = 64990;
constexpr uint16_t kLastListenerPort = 65530;

// ---- sysctls ----

// As sysctl(8): the first separator decides, so that net/ipv4/conf/eth0.1/forwarding can be said.
Result<std::string> sysctl_path(const std::string& name) {
  std::string path = name;
  if (const size_t first = path.find_first_of("./"); first != std::string::npos && path[first] == '.')
    std::replace(path.begin(), path.end(), '.', '/');
  if (path.rfind("net/", 0) != 0) return Error(EINVAL, "sysctl '" + name + "' is not of the network");
  const std::string framed = "/" + path + "/";
  if (framed.find("/../") != std::string::npos || framed.find("/./") != std::string::npos ||
      framed.find("//") != std::string::npos)
    return Error(EINVAL, "sysctl '" + name + "' is malformed");
  return "/proc/sys/" + path;
}

// /proc/sys/net shows the namespace of who looks.
Result<void> write_sysctls(int netns_fd, const std::vector<std::pair<std::string, std::string>>& sysctls) {
  if (sysctls.empty()) return {};
  TRY(const NamespaceScope scope, NamespaceScope::enter(netns_fd));
  for (const auto& [name, value] : sysctls) {
    TRY(const std::string path, sysctl_path(name));
    TRY_VOID(file::write_control(path, value).context("sysctl '" + name + "'"));
  }
  return {};
}

// ---- lo and the routes of last resort ----

Result<void> set_loopback_up(int socket_fd) {
  NetlinkMessage message(RTM_SETLINK, 0);
  auto* info = message.extra<ifinfomsg>();
  info->ifi_index = kLoopbackIndex;
  info->ifi_flags = IFF_UP;
  info->ifi_change = IFF_UP;
  NetlinkBatch batch;
  batch.add(message, "set lo up");
  return batch.run_all(socket_fd);
}

// So that a connection to anywhere is answered by the ruleset, and not by ENETUNREACH, which programs
// take for a broken network (and which nobody would get to see).
Result<void> add_fallback_route(int socket_fd, bool is_ipv6) {
  NetlinkMessage message(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE);
  auto* route = message.extra<rtmsg>();
  route->rtm_family = is_ipv6 ? AF_INET6 : AF_INET;
  route->rtm_table = RT_TABLE_MAIN;
  route->rtm_protocol = RTPROT_BOOT;
  route->rtm_type = RTN_UNICAST;
  route->rtm_scope = is_ipv6 ? RT_SCOPE_UNIVERSE : RT_SCOPE_LINK;
  mnl_attr_put_u32(message.header(), RTA_OIF, kLoopbackIndex);
  mnl_attr_put_u32(message.header(), RTA_PRIORITY, kLastMetric);
  const in6_addr loopback6 = IN6ADDR_LOOPBACK_INIT;
  const uint32_t loopback4 = htonl(INADDR_LOOPBACK);
  if (is_ipv6)
    mnl_attr_put(message.header(), RTA_PREFSRC, sizeof(loopback6), &loopback6);
  else
    mnl_attr_put(message.header(), RTA_PREFSRC, sizeof(loopback4), &loopback4);
  NetlinkBatch batch;
  batch.add(message, std::string("add the ") + (is_ipv6 ? "IPv6" : "IPv4") + " route of last resort");
  return batch.run_all(socket_fd);
}

// ---- listeners ----

// No SO_REUSEPORT (a process of the same uid could share the port) and no SO_REUSEADDR (on UDP any
// process could).
Result<Fd> make_listener(bool is_ipv6, bool is_tcp, uint16_t port) {
  TRY(Fd socket, sys::socket(is_ipv6 ? AF_INET6 : AF_INET, (is_tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_NONBLOCK, 0));
  sockaddr_storage storage{};
  socklen_t length = 0;
  if (is_ipv6) {
    const int on = 1;
    if (::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) < 0)
      return Error::last_errno("set IPV6_V6ONLY");
    auto* address = reinterpret_cast<sockaddr_in6*>(&storage);
    address->sin6_family = AF_INET6;
    address->sin6_port = htons(port);
    address->sin6_addr = IN6ADDR_LOOPBACK_INIT;
    length = sizeof(*address);
  } else {
    auto* address = reinterpret_cast<sockaddr_in*>(&storage);
    address->sin_family = AF_INET;
    address->sin_port = htons(port);
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    length = sizeof(*address);
  }
  const std::string name = std::string(is_tcp ? "tcp" : "udp") + (is_ipv6 ? " [::1]:" : " 127.0.0.1:") + std::to_string(port);
  if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&storage), length) < 0)
    return Error::last_errno("bind " + name);
  if (is_tcp && ::listen(socket.get(), kBacklog) < 0) return Error::last_errno("listen on " + name);
  return socket;
}

struct ListenerShape {
  oci::ListenerKind kind;
  bool is_tcp;
  uint16_t offset;  // of the port
  bool has_ipv6;
};
constexpr std::array<ListenerShape, 5> kListenerShapes = {{
    {oci::ListenerKind::kTcp, true, 0, true},
    {oci::ListenerKind::kDnsEngineUdp, false, 1, false},  // 127.0.0.11 is IPv4
    {oci::ListenerKind::kDnsEngineTcp, true, 1, false},
    {oci::ListenerKind::kDnsOtherUdp, false, 2, true},
    {oci::ListenerKind::kDnsOtherTcp, true, 2, true},
}};

Result<std::vector<Listener>> make_listeners_at(uint16_t first_port, bool with_ipv6) {
  std::vector<Listener> listeners;
  for (const ListenerShape& shape : kListenerShapes) {
    const auto port = static_cast<uint16_t>(first_port + shape.offset);
    for (const bool is_ipv6 : {false, true}) {
      if (is_ipv6 && !(with_ipv6 && shape.has_ipv6)) continue;
      TRY(Fd socket, make_listener(is_ipv6, shape.is_tcp, port));
      listeners.push_back({shape.kind, is_ipv6, port, std::move(socket)});
    }
  }
  return listeners;
}

// One port number serves both families, since one redirect does.
Result<std::vector<Listener>> make_listeners(int n2_fd, bool with_ipv6) {
  TRY(const NamespaceScope scope, NamespaceScope::enter(n2_fd));
  for (uint16_t port = kFirstListenerPort;; port = static_cast<uint16_t>(port + kListenerShapes.size())) {
    auto listeners = make_listeners_at(port, with_ipv6);
    if (listeners || listeners.error().code() != EADDRINUSE || port > kLastListenerPort - kListenerShapes.size())
      return listeners;
  }
}

// The kernel may have no IPv6, and a sysctl of the container's may have switched it off: then there is
// no ::1 to listen on, and nothing that could be redirected there.
Result<bool> has_ipv6_loopback(int n2_fd) {
  TRY(const NamespaceScope scope, NamespaceScope::enter(n2_fd));
  auto probe = make_listener(true, false, 0);
  if (probe) return true;
  const int code = probe.error().code();
  if (code == EAFNOSUPPORT || code == EADDRNOTAVAIL) return false;
  return std::move(probe).error();
}

Result<void> install_and_verify(int netns_fd, const Ruleset& ruleset) {
  TRY(const Fd socket, open_netlink(netns_fd, NETLINK_NETFILTER));
  TRY_VOID(install(socket.get(), ruleset));
  return compare_with_kernel(socket.get(), ruleset).context("the ruleset reads back differently");
}

}  // namespace

Result<LockIn> build(const LockInPlan& plan) {
  TRY(const bool is_same, is_same_namespace(plan.n1_fd, plan.n2_fd));
  if (is_same) return Error(EINVAL, "the container did not leave the engine's network namespace");

  // The rules stand before there is any interface but lo, which the listeners need.
  TRY(const Fd routing, open_netlink(plan.n2_fd, NETLINK_ROUTE));
  TRY_VOID(set_loopback_up(routing.get()));
  TRY(AddressMirror mirror, AddressMirror::create(plan.n1_fd, plan.n2_fd));
  TRY(RefusalLog refusals, RefusalLog::open(plan.n2_fd));

  TRY(bool with_ipv6, has_ipv6_loopback(plan.n2_fd));
  TRY(std::vector<Listener> listeners, make_listeners(plan.n2_fd, with_ipv6));
  ListenerPorts ports;
  for (const Listener& listener : listeners) {
    switch (listener.kind) {
      case oci::ListenerKind::kTcp: ports.proxy = listener.port; break;
      case oci::ListenerKind::kDnsEngineUdp:
      case oci::ListenerKind::kDnsEngineTcp: ports.dns_engine = listener.port; break;
      case oci::ListenerKind::kDnsOtherUdp:
      case oci::ListenerKind::kDnsOtherTcp: ports.dns_other = listener.port; break;
    }
  }
  TRY(const Ruleset ruleset, container_ruleset(ports, plan.loopback_resolvers));
  TRY_VOID(install_and_verify(plan.n2_fd, ruleset));

  TRY(std::vector<std::string> notes, mirror.sync());
  // Behind the interfaces, because a sysctl may be one of eth0's.
  TRY_VOID(write_sysctls(plan.n2_fd, plan.net_sysctls));
  TRY_VOID(add_fallback_route(routing.get(), false));
  if (with_ipv6) {
    // The sysctls may just have taken ::1 away.
    TRY(with_ipv6, has_ipv6_loopback(plan.n2_fd));
  }
  if (with_ipv6) TRY_VOID(add_fallback_route(routing.get(), true));

  return LockIn{.listeners = std::move(listeners),
                .ports = ports,
                .refusals = std::move(refusals),
                .mirror = std::move(mirror),
                .notes = std::move(notes)};
}

Result<void> verify(int n2_fd, const LockInPlan& plan, const ListenerPorts& ports) {
  TRY(const Ruleset ruleset, container_ruleset(ports, plan.loopback_resolvers));
  TRY(const Fd socket, open_netlink(n2_fd, NETLINK_NETFILTER));
  return compare_with_kernel(socket.get(), ruleset);
}

Result<std::vector<RefusalCounter>> read_refusal_counters(int n2_fd) {
  TRY(const Fd socket, open_netlink(n2_fd, NETLINK_NETFILTER));
  TRY(const auto counters, read_counters(socket.get(), kTable));
  std::vector<RefusalCounter> refusals;
  for (const RuleCounter& counter : counters)
    if (counter.rule.rfind(kRefusedPrefix, 0) == 0)
      refusals.push_back({counter.rule.substr(kRefusedPrefix.size()), counter.packets, counter.bytes});
  return refusals;
}

Result<void> guard_inbound(const InboundPlan& plan) {
  TRY(const Fd home, current_network_namespace());
  TRY(const bool is_home, is_same_namespace(plan.n1_fd, home.get()));
  if (is_home) return Error(EINVAL, "the host's network namespace gets no inbound rules");
  TRY(const Ruleset ruleset, inbound_ruleset(plan));
  return install_and_verify(plan.n1_fd, ruleset);
}

Result<void> remove_guard(int n1_fd) {
  TRY(const Fd socket, open_netlink(n1_fd, NETLINK_NETFILTER));
  return remove_table(socket.get(), kTable);
}

}  // namespace leash::hooks
