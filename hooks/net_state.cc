#include "hooks/net_state.h"

#include <arpa/inet.h>
#include <linux/fib_rules.h>
#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <map>

#include "hooks/netlink.h"

namespace leash::hooks {
namespace {

constexpr uint32_t kBoundRulePriority = 1;
constexpr uint32_t kBoundTable = 7845;
constexpr uint32_t kBoundMetric = uint32_t{1} << 30;
constexpr uint8_t kAddressGenerationNone = 1;  // IN6_ADDR_GEN_MODE_NONE of <linux/if_link.h>

uint8_t family_of(bool is_ipv6) { return is_ipv6 ? AF_INET6 : AF_INET; }

template <class T>
bool contains(const std::vector<T>& list, const T& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

// The attributes of a message by type; unknown ones and those too short for their use stay out.
class Attributes {
 public:
  Attributes(const nlmsghdr* message, size_t fixed_header) {
    for_each_attribute(attributes_of(message, fixed_header), [&](uint16_t type, std::span<const uint8_t> payload) {
      if (type < by_type_.size()) by_type_[type] = payload;
    });
  }
  [[nodiscard]] bool has(uint16_t type) const { return by_type_[type].data() != nullptr; }
  [[nodiscard]] uint32_t u32(uint16_t type, uint32_t fallback = 0) const {
    uint32_t value = fallback;
    if (by_type_[type].size() >= sizeof(value)) std::memcpy(&value, by_type_[type].data(), sizeof(value));
    return value;
  }
  [[nodiscard]] std::string string(uint16_t type) const {
    const auto* text = reinterpret_cast<const char*>(by_type_[type].data());
    return has(type) ? std::string(text, strnlen(text, by_type_[type].size())) : std::string();
  }
  template <size_t N>
  void copy(uint16_t type, size_t size, std::array<uint8_t, N>& to) const {
    if (by_type_[type].size() != size || size > N) return;
    std::copy(by_type_[type].begin(), by_type_[type].end(), to.begin());
  }
  [[nodiscard]] IpAddress address(uint16_t type, bool is_ipv6) const {
    IpAddress result{.is_ipv6 = is_ipv6, .bytes = {}};
    copy(type, result.size(), result.bytes);
    return result;
  }

 private:
  std::array<std::span<const uint8_t>, 64> by_type_{};
};

void put(nlmsghdr* header, uint16_t type, const IpAddress& address) {
  mnl_attr_put(header, type, address.size(), address.bytes.data());
}

struct SeenLink {
  Link link;
  bool is_up = false;
};

// By index. lo is included here.
Result<std::map<uint32_t, SeenLink>> read_links(int socket_fd) {
  std::map<uint32_t, SeenLink> links;
  NetlinkMessage request(RTM_GETLINK, 0);
  request.extra<ifinfomsg>();
  mnl_attr_put_u32(request.header(), IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
  TRY_VOID(dump(socket_fd, request, "read the interfaces", [&] { links.clear(); },
                [&](const nlmsghdr* message) -> Result<void> {
                  if (message->nlmsg_type != RTM_NEWLINK) return {};
                  const auto* info = static_cast<const ifinfomsg*>(mnl_nlmsg_get_payload(message));
                  const Attributes attributes(message, sizeof(*info));
                  SeenLink seen;
                  seen.link.index = static_cast<uint32_t>(info->ifi_index);
                  seen.link.name = attributes.string(IFLA_IFNAME);
                  seen.link.mtu = attributes.u32(IFLA_MTU);
                  attributes.copy(IFLA_ADDRESS, seen.link.mac.size(), seen.link.mac);
                  // A multicast address cannot be set on an interface.
                  if ((seen.link.mac[0] & 1) != 0) seen.link.mac = {};
                  seen.is_up = (info->ifi_flags & IFF_UP) != 0;
                  links.emplace(seen.link.index, std::move(seen));
                  return {};
                }));
  return links;
}

Result<std::vector<Address>> read_addresses(int socket_fd, const std::map<uint32_t, SeenLink>& links) {
  std::vector<Address> addresses;
  NetlinkMessage request(RTM_GETADDR, 0);
  request.extra<ifaddrmsg>();
  TRY_VOID(dump(socket_fd, request, "read the addresses", [&] { addresses.clear(); },
                [&](const nlmsghdr* message) -> Result<void> {
                  if (message->nlmsg_type != RTM_NEWADDR) return {};
                  const auto* info = static_cast<const ifaddrmsg*>(mnl_nlmsg_get_payload(message));
                  if (info->ifa_family != AF_INET && info->ifa_family != AF_INET6) return {};
                  const auto link = links.find(info->ifa_index);
                  if (link == links.end() || link->second.link.name == "lo") return {};
                  const Attributes attributes(message, sizeof(*info));
                  const bool is_ipv6 = info->ifa_family == AF_INET6;
                  Address address;
                  address.link = link->second.link.name;
                  address.peer = attributes.address(IFA_ADDRESS, is_ipv6);
                  address.local = attributes.has(IFA_LOCAL) ? attributes.address(IFA_LOCAL, is_ipv6) : address.peer;
                  address.broadcast = attributes.address(IFA_BROADCAST, is_ipv6);
                  address.prefix_length = info->ifa_prefixlen;
                  address.scope = info->ifa_scope;
                  addresses.push_back(std::move(address));
                  return {};
                }));
  return addresses;
}

Result<std::vector<Route>> read_routes(int socket_fd, const std::map<uint32_t, SeenLink>& links) {
  std::vector<Route> routes;
  for (const uint8_t family : {uint8_t{AF_INET}, uint8_t{AF_INET6}}) {
    std::vector<Route> of_family;
    NetlinkMessage request(RTM_GETROUTE, 0);
    auto* filter = request.extra<rtmsg>();
    filter->rtm_family = family;
    filter->rtm_table = RT_TABLE_MAIN;
    Result<void> read = dump(
        socket_fd, request, "read the routes", [&] { of_family.clear(); },
        [&](const nlmsghdr* message) -> Result<void> {
          if (message->nlmsg_type != RTM_NEWROUTE) return {};
          const auto* info = static_cast<const rtmsg*>(mnl_nlmsg_get_payload(message));
          if (info->rtm_family != family || info->rtm_type != RTN_UNICAST || info->rtm_protocol == RTPROT_KERNEL ||
              (info->rtm_flags & RTM_F_CLONED) != 0)
            return {};
          const Attributes attributes(message, sizeof(*info));
          if (attributes.u32(RTA_TABLE, info->rtm_table) != RT_TABLE_MAIN) return {};
          const auto link = links.find(attributes.u32(RTA_OIF));
          if (link == links.end() || link->second.link.name == "lo") return {};
          const bool is_ipv6 = family == AF_INET6;
          Route route;
          route.link = link->second.link.name;
          route.destination = attributes.address(RTA_DST, is_ipv6);
          route.prefix_length = info->rtm_dst_len;
          route.gateway = attributes.address(RTA_GATEWAY, is_ipv6);
          route.source = attributes.address(RTA_PREFSRC, is_ipv6);
          route.metric = attributes.u32(RTA_PRIORITY);
          route.scope = info->rtm_scope;
          of_family.push_back(std::move(route));
          return {};
        });
    // Without a main table of this family (nothing was ever added) strict checking says ENOENT; a
    // kernel without IPv6 says EAFNOSUPPORT or EOPNOTSUPP.
    if (!read && read.error().code() != ENOENT && read.error().code() != EAFNOSUPPORT &&
        read.error().code() != EOPNOTSUPP)
      return std::move(read).error();
    if (read) routes.insert(routes.end(), of_family.begin(), of_family.end());
  }
  return routes;
}

// Made from the dead end, as the far end of a pair: only the near one can be up from the start (an end
// does not open before the other is there), and it gives ours a carrier as soon as ours is up.
void add_link(NetlinkBatch& batch, const Link& link, int n2_fd) {
  // veth takes 68 to 65535.
  const uint32_t mtu = std::clamp(link.mtu, uint32_t{68}, uint32_t{65535});
  NetlinkMessage message(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);
  nlmsghdr* header = message.header();
  const auto put_shape = [&] {
    mnl_attr_put_u32(header, IFLA_MTU, mtu);
    mnl_attr_put_u32(header, IFLA_NUM_TX_QUEUES, 1);
    mnl_attr_put_u32(header, IFLA_NUM_RX_QUEUES, 1);
  };
  auto* near = message.extra<ifinfomsg>();
  near->ifi_flags = IFF_UP;
  near->ifi_change = IFF_UP;
  put_shape();
  nlattr* info = mnl_attr_nest_start(header, IFLA_LINKINFO);
  mnl_attr_put_strz(header, IFLA_INFO_KIND, "veth");
  nlattr* data = mnl_attr_nest_start(header, IFLA_INFO_DATA);
  nlattr* peer = mnl_attr_nest_start(header, VETH_INFO_PEER);
  message.extra<ifinfomsg>();
  mnl_attr_put_strz(header, IFLA_IFNAME, link.name.c_str());
  if (link.mac != std::array<uint8_t, 6>{}) mnl_attr_put(header, IFLA_ADDRESS, link.mac.size(), link.mac.data());
  mnl_attr_put_u32(header, IFLA_NET_NS_FD, static_cast<uint32_t>(n2_fd));
  put_shape();
  mnl_attr_nest_end(header, peer);
  mnl_attr_nest_end(header, data);
  mnl_attr_nest_end(header, info);
  batch.add(message, "add interface '" + link.name + "'");
}

// Addresses are copied, so the kernel shall not make up an fe80:: of its own.
void stop_address_generation(NetlinkBatch& batch, const Link& link, uint32_t index) {
  NetlinkMessage message(RTM_SETLINK, 0);
  message.extra<ifinfomsg>()->ifi_index = static_cast<int>(index);
  nlmsghdr* header = message.header();
  nlattr* families = mnl_attr_nest_start(header, IFLA_AF_SPEC);
  nlattr* inet6 = mnl_attr_nest_start(header, AF_INET6);
  mnl_attr_put_u8(header, IFLA_INET6_ADDR_GEN_MODE, kAddressGenerationNone);
  mnl_attr_nest_end(header, inet6);
  mnl_attr_nest_end(header, families);
  batch.add(message, "stop IPv6 address generation on '" + link.name + "'");
}

void set_up(NetlinkBatch& batch, const Link& link, uint32_t index) {
  NetlinkMessage message(RTM_SETLINK, 0);
  auto* info = message.extra<ifinfomsg>();
  info->ifi_index = static_cast<int>(index);
  info->ifi_flags = IFF_UP;
  info->ifi_change = IFF_UP;
  batch.add(message, "set interface '" + link.name + "' up");
}

void delete_link(NetlinkBatch& batch, const Link& link) {
  NetlinkMessage message(RTM_DELLINK, 0);
  message.extra<ifinfomsg>();
  mnl_attr_put_strz(message.header(), IFLA_IFNAME, link.name.c_str());
  batch.add(message, "remove interface '" + link.name + "'");
}

// A socket bound to an interface (SO_BINDTODEVICE, IP_PKTINFO) is routed past the redirect, which leads
// to lo, and its packets would end in silence. Such lookups, and no others, name an outgoing
// interface: this rule and route give them a next hop that the ruleset knows and refuses. (A
// prohibiting route would not do: IPv4 takes a failed lookup with an interface for "on-link".) Own
// addresses are found before, by rule 0.
void change_bound_rule(NetlinkBatch& batch, uint16_t type, const Link& link, bool is_ipv6) {
  NetlinkMessage message(type, type == RTM_NEWRULE ? NLM_F_CREATE | NLM_F_EXCL : 0);
  auto* rule = message.extra<fib_rule_hdr>();
  rule->family = family_of(is_ipv6);
  rule->action = FR_ACT_TO_TBL;
  mnl_attr_put_u32(message.header(), FRA_PRIORITY, kBoundRulePriority);
  mnl_attr_put_u32(message.header(), FRA_TABLE, kBoundTable);
  mnl_attr_put_strz(message.header(), FRA_OIFNAME, link.name.c_str());
  batch.add(message, std::string(is_ipv6 ? "IPv6" : "IPv4") + " rule for sockets bound to '" + link.name + "'");
}

void add_bound_route(NetlinkBatch& batch, const Link& link, uint32_t index, bool is_ipv6) {
  NetlinkMessage message(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL);
  auto* info = message.extra<rtmsg>();
  info->rtm_family = family_of(is_ipv6);
  info->rtm_protocol = RTPROT_BOOT;
  info->rtm_type = RTN_UNICAST;
  info->rtm_flags = RTNH_F_ONLINK;
  nlmsghdr* header = message.header();
  mnl_attr_put_u32(header, RTA_TABLE, kBoundTable);
  if (is_ipv6)
    mnl_attr_put(header, RTA_GATEWAY, kBoundNextHop6.size(), kBoundNextHop6.data());
  else
    mnl_attr_put(header, RTA_GATEWAY, kBoundNextHop4.size(), kBoundNextHop4.data());
  mnl_attr_put_u32(header, RTA_OIF, index);
  // One route for each interface, and behind every real one where a program lists all tables.
  mnl_attr_put_u32(header, RTA_PRIORITY, kBoundMetric + index);
  batch.add(message, std::string(is_ipv6 ? "IPv6" : "IPv4") + " route for sockets bound to '" + link.name + "'");
}

void change_address(NetlinkBatch& batch, uint16_t type, const Address& address, uint32_t index) {
  NetlinkMessage message(type, type == RTM_NEWADDR ? NLM_F_CREATE | NLM_F_REPLACE : 0);
  auto* info = message.extra<ifaddrmsg>();
  info->ifa_family = family_of(address.local.is_ipv6);
  info->ifa_prefixlen = address.prefix_length;
  info->ifa_scope = address.scope;
  info->ifa_index = index;
  put(message.header(), IFA_LOCAL, address.local);
  put(message.header(), IFA_ADDRESS, address.peer);
  if (!address.broadcast.is_unset()) put(message.header(), IFA_BROADCAST, address.broadcast);
  // Nobody else is there to have the same address: no waiting for duplicate address detection.
  if (address.local.is_ipv6 && type == RTM_NEWADDR)
    mnl_attr_put_u32(message.header(), IFA_FLAGS, IFA_F_NODAD | IFA_F_PERMANENT);
  batch.add(message, std::string(type == RTM_NEWADDR ? "add" : "remove") + " address " + address.local.text() +
                         " on '" + address.link + "'");
}

void change_route(NetlinkBatch& batch, uint16_t type, const Route& route, uint32_t index) {
  NetlinkMessage message(type, type == RTM_NEWROUTE ? NLM_F_CREATE | NLM_F_EXCL : 0);
  auto* info = message.extra<rtmsg>();
  info->rtm_family = family_of(route.destination.is_ipv6);
  info->rtm_dst_len = route.prefix_length;
  info->rtm_table = RT_TABLE_MAIN;
  info->rtm_protocol = RTPROT_BOOT;
  info->rtm_type = RTN_UNICAST;
  info->rtm_scope = route.scope;
  nlmsghdr* header = message.header();
  if (route.prefix_length > 0) put(header, RTA_DST, route.destination);
  if (!route.gateway.is_unset()) put(header, RTA_GATEWAY, route.gateway);
  if (!route.source.is_unset()) put(header, RTA_PREFSRC, route.source);
  if (route.metric != 0) mnl_attr_put_u32(header, RTA_PRIORITY, route.metric);
  mnl_attr_put_u32(header, RTA_OIF, index);
  batch.add(message, std::string(type == RTM_NEWROUTE ? "add" : "remove") + " route " + route.text());
}

// Removes what the kernel may have removed by itself already (an interface takes all along).
Result<void> remove(int socket_fd, const NetState& removed) {
  if (removed.links.empty() && removed.addresses.empty() && removed.routes.empty()) return {};
  TRY(const auto links, read_links(socket_fd));
  std::map<std::string, uint32_t> index_of;
  for (const auto& [index, seen] : links) index_of.emplace(seen.link.name, index);

  NetlinkBatch batch;
  for (const Route& route : removed.routes)
    if (const auto found = index_of.find(route.link); found != index_of.end())
      change_route(batch, RTM_DELROUTE, route, found->second);
  for (const Address& address : removed.addresses)
    if (const auto found = index_of.find(address.link); found != index_of.end())
      change_address(batch, RTM_DELADDR, address, found->second);
  for (const Link& link : removed.links) {
    change_bound_rule(batch, RTM_DELRULE, link, false);
    change_bound_rule(batch, RTM_DELRULE, link, true);
    if (index_of.count(link.name) != 0) delete_link(batch, link);
  }
  TRY(const auto outcomes, batch.run(socket_fd));
  for (const auto& outcome : outcomes) {
    switch (outcome.error) {
      case 0: case ENOENT: case ESRCH: case ENODEV: case EADDRNOTAVAIL: case EAFNOSUPPORT: case EOPNOTSUPP:
        break;
      default:
        return outcome.as_error();
    }
  }
  return {};
}

// Of the kernel, or (EACCES) of the interface.
bool means_no_ipv6(int error) { return error == EAFNOSUPPORT || error == EOPNOTSUPP || error == EACCES; }

// Is `address` reached by a route of type local?
Result<bool> has_local_route(int socket_fd, const IpAddress& address) {
  NetlinkMessage request(RTM_GETROUTE, 0);
  auto* wanted = request.extra<rtmsg>();
  wanted->rtm_family = family_of(address.is_ipv6);
  wanted->rtm_dst_len = static_cast<uint8_t>(8 * address.size());
  put(request.header(), RTA_DST, address);
  TRY(const std::vector<char> answer, ask(socket_fd, request, "look for the route of " + address.text()));
  const auto* message = reinterpret_cast<const nlmsghdr*>(answer.data());
  if (mnl_nlmsg_get_payload_len(message) < sizeof(rtmsg)) return false;
  return static_cast<const rtmsg*>(mnl_nlmsg_get_payload(message))->rtm_type == RTN_LOCAL;
}

// The kernel gives an IPv6 address its local route from a work queue, a moment after the acknowledgement
// (addrconf_dad_work, also without DAD). Until then answers to the container's first connections are
// lost, and it waits a second for the retransmission.
Result<std::vector<std::string>> await_local_routes(int socket_fd, const std::vector<const Address*>& addresses) {
  constexpr auto kPatience = std::chrono::seconds(1);
  constexpr timespec kPause{.tv_sec = 0, .tv_nsec = 100'000};
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  std::vector<std::string> notes;
  for (const Address* address : addresses) {
    for (;;) {
      auto is_there = has_local_route(socket_fd, address->local);
      if (is_there && *is_there) break;
      if (std::chrono::steady_clock::now() > deadline) {
        notes.push_back("address " + address->local.text() + " on '" + address->link + "' is slow to come up");
        break;
      }
      ::nanosleep(&kPause, nullptr);
    }
  }
  return notes;
}

Result<void> add_links(const Target& target, const std::vector<Link>& links) {
  if (links.empty()) return {};
  NetlinkBatch creation;
  for (const Link& link : links) add_link(creation, link, target.n2_fd);
  return creation.run_all(target.dead_end_socket);
}

}  // namespace

std::string IpAddress::text() const {
  char buffer[INET6_ADDRSTRLEN] = {};
  inet_ntop(family_of(is_ipv6), bytes.data(), buffer, sizeof(buffer));
  return buffer;
}

std::string Route::text() const {
  std::string result = prefix_length == 0 ? "default" : destination.text() + "/" + std::to_string(prefix_length);
  if (!gateway.is_unset()) result += " via " + gateway.text();
  result += " dev " + link;
  if (metric != 0) result += " metric " + std::to_string(metric);
  return result;
}

bool NetChange::empty() const {
  for (const NetState* state : {&removed, &added})
    if (!state->links.empty() || !state->addresses.empty() || !state->routes.empty()) return false;
  return true;
}

NetChange difference(const NetState& from, const NetState& to) {
  NetChange change;
  for (const Link& link : from.links)
    if (!contains(to.links, link)) change.removed.links.push_back(link);
  for (const Link& link : to.links)
    if (!contains(from.links, link)) change.added.links.push_back(link);

  const auto is_remade = [&](const std::string& name) {
    return std::any_of(change.added.links.begin(), change.added.links.end(),
                       [&](const Link& link) { return link.name == name; });
  };
  bool address_was_removed = false;
  for (const Address& address : from.addresses) {
    if (contains(to.addresses, address)) continue;
    change.removed.addresses.push_back(address);
    address_was_removed = true;
  }
  for (const Address& address : to.addresses)
    if (!contains(from.addresses, address) || is_remade(address.link)) change.added.addresses.push_back(address);
  for (const Route& route : from.routes)
    if (!contains(to.routes, route)) change.removed.routes.push_back(route);
  for (const Route& route : to.routes) {
    // The kernel removes routes along with the address they need; adding one that is there is harmless.
    if (!contains(from.routes, route) || is_remade(route.link) || address_was_removed)
      change.added.routes.push_back(route);
  }
  return change;
}

Result<NetState> read_net_state(int socket_fd) {
  TRY(auto links, read_links(socket_fd));
  TRY(auto addresses, read_addresses(socket_fd, links));
  TRY(auto routes, read_routes(socket_fd, links));

  NetState state;
  for (const auto& [index, seen] : links) {
    if (seen.link.name == "lo") continue;
    const Link& link = seen.link;
    const bool has_address =
        std::any_of(addresses.begin(), addresses.end(), [&link](const Address& a) { return a.link == link.name; });
    if (seen.is_up && has_address) state.links.push_back(link);
  }
  const auto is_kept = [&](const std::string& name) {
    return std::any_of(state.links.begin(), state.links.end(), [&](const Link& link) { return link.name == name; });
  };
  for (Address& address : addresses)
    if (is_kept(address.link)) state.addresses.push_back(std::move(address));
  for (Route& route : routes)
    if (is_kept(route.link)) state.routes.push_back(std::move(route));
  // A gateway must be on-link when its route is added: routes to links first.
  std::stable_partition(state.routes.begin(), state.routes.end(),
                        [](const Route& route) { return route.gateway.is_unset(); });
  return state;
}

Result<std::vector<std::string>> apply(const Target& target, const NetChange& change) {
  std::vector<std::string> notes;
  TRY_VOID(remove(target.n2_socket, change.removed));
  TRY_VOID(add_links(target, change.added.links));
  if (change.added.links.empty() && change.added.addresses.empty() && change.added.routes.empty()) return notes;

  TRY(const auto links, read_links(target.n2_socket));
  std::map<std::string, uint32_t> index_of;
  for (const auto& [index, seen] : links) index_of.emplace(seen.link.name, index);

  enum class OnFailure { kFail, kFailUnlessNoIpv6, kNote, kNoteUnlessPresent };
  NetlinkBatch batch;
  std::vector<OnFailure> on_failure;
  for (const Link& link : change.added.links) {
    const uint32_t index = index_of[link.name];
    stop_address_generation(batch, link, index);
    on_failure.push_back(OnFailure::kFailUnlessNoIpv6);
    set_up(batch, link, index);
    on_failure.push_back(OnFailure::kFail);
    for (const bool is_ipv6 : {false, true}) {
      add_bound_route(batch, link, index, is_ipv6);
      change_bound_rule(batch, RTM_NEWRULE, link, is_ipv6);
      on_failure.insert(on_failure.end(), 2, is_ipv6 ? OnFailure::kFailUnlessNoIpv6 : OnFailure::kFail);
    }
  }
  const size_t first_address = on_failure.size();
  for (const Address& address : change.added.addresses) {
    change_address(batch, RTM_NEWADDR, address, index_of[address.link]);
    // A sysctl of the user's may have switched IPv6 off in N2 alone.
    on_failure.push_back(address.local.is_ipv6 ? OnFailure::kNote : OnFailure::kFail);
  }
  for (const Route& route : change.added.routes) {
    change_route(batch, RTM_NEWROUTE, route, index_of[route.link]);
    on_failure.push_back(OnFailure::kNoteUnlessPresent);
  }

  TRY(const auto outcomes, batch.run(target.n2_socket));
  std::vector<const Address*> to_await;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const auto& outcome = outcomes[i];
    const size_t position = i - first_address;  // beyond all of them for what comes before
    if (outcome.error == 0 && position < change.added.addresses.size() &&
        change.added.addresses[position].local.is_ipv6 && change.added.addresses[position].scope != RT_SCOPE_LINK)
      to_await.push_back(&change.added.addresses[position]);
    if (outcome.error == 0) continue;
    switch (on_failure[i]) {
      case OnFailure::kFail:
        return outcome.as_error();
      case OnFailure::kFailUnlessNoIpv6:
        if (!means_no_ipv6(outcome.error)) return outcome.as_error();
        break;
      case OnFailure::kNoteUnlessPresent:
        if (outcome.error == EEXIST) break;
        [[fallthrough]];
      case OnFailure::kNote:
        notes.push_back(outcome.as_error().message());
        break;
    }
  }
  TRY(const auto slow, await_local_routes(target.n2_socket, to_await));
  notes.insert(notes.end(), slow.begin(), slow.end());
  return notes;
}

}  // namespace leash::hooks
