#include "hooks/lockin_rules.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>

namespace leash::hooks {
namespace {

constexpr std::array<uint8_t, 4> kEngineResolver = {127, 0, 0, 11};
constexpr uint16_t kDns = 53;
constexpr uint64_t kLogsPerSecond = 10;
constexpr uint32_t kLogBurst = 20;
constexpr const char* kRefuse = "refuse";

std::string refused(const char* what) { return std::string(kRefusedPrefix) + what; }

Result<std::array<uint8_t, 4>> loopback_address(const std::string& text) {
  std::array<uint8_t, 4> address{};
  if (inet_pton(AF_INET, text.c_str(), address.data()) != 1 || address[0] != 127)
    return Error(EINVAL, "resolver '" + text + "' is not in 127.0.0.0/8");
  return address;
}

}  // namespace

Result<Ruleset> container_ruleset(const ListenerPorts& ports, const std::vector<std::string>& loopback_resolvers) {
  Ruleset ruleset;
  ruleset.table = kTable;
  ruleset.is_alone = true;
  ruleset.chains = {
      {.name = kRefuse},
      {.name = "nat_out", .type = "nat", .hook = Hook::kOutput, .priority = kNatPriority},
      {.name = "l_out", .hook = Hook::kOutput, .drops = true},
      {.name = "l_in", .hook = Hook::kInput, .drops = true},
      {.name = "l_fwd", .hook = Hook::kForward, .drops = true},
  };
  auto& rules = ruleset.rules;

  // ---- what refusing means: a report, then an answer at once, so that nothing hangs ----
  rules.push_back(Rule(kRefuse, "report").within_rate(kLogsPerSecond, kLogBurst).log(kRefusalGroup));
  rules.push_back(Rule(kRefuse, "reset TCP").protocol_is(IPPROTO_TCP).reject_tcp_reset());
  rules.push_back(Rule(kRefuse, "prohibit the rest").reject_prohibited());

  // ---- where DNS and TCP go ----
  // A redirect changes the address but not the interface of a bound socket: better none, and a refusal.
  rules.push_back(Rule("nat_out", "bound to an interface").next_hop_is(kBoundNextHop4).return_());
  rules.push_back(Rule("nat_out", "bound to an interface").next_hop_is(kBoundNextHop6).return_());
  constexpr std::array<uint8_t, 2> kProtocols = {IPPROTO_UDP, IPPROTO_TCP};
  for (const uint8_t protocol : kProtocols)
    rules.push_back(Rule("nat_out", "DNS to the engine's resolver")
                        .ip4_destination_is(kEngineResolver)
                        .destination_port_is(protocol, kDns)
                        .redirect_to(ports.dns_engine));
  for (const std::string& resolver : loopback_resolvers) {
    TRY(const auto address, loopback_address(resolver));
    for (const uint8_t protocol : kProtocols)
      rules.push_back(Rule("nat_out", "DNS to " + resolver)
                          .ip4_destination_is(address)
                          .destination_port_is(protocol, kDns)
                          .redirect_to(ports.dns_other));
  }
  rules.push_back(Rule("nat_out", "loopback is the container's own").ip4_destination_is_loopback().return_());
  rules.push_back(Rule("nat_out", "loopback is the container's own").ip6_destination_is_loopback().return_());
  for (const uint8_t protocol : kProtocols)
    rules.push_back(
        Rule("nat_out", "DNS to any server").destination_port_is(protocol, kDns).redirect_to(ports.dns_other));
  rules.push_back(Rule("nat_out", "own addresses").destination_is_local().return_());
  rules.push_back(Rule("nat_out", "TCP to the proxy").protocol_is(IPPROTO_TCP).redirect_to(ports.proxy));

  // ---- what may be sent: to ourselves, that is, after the redirect; and answers to the inbound relay ----
  rules.push_back(Rule("l_out", refused("bound to an interface")).next_hop_is(kBoundNextHop4).count().go_to(kRefuse));
  rules.push_back(Rule("l_out", refused("bound to an interface")).next_hop_is(kBoundNextHop6).count().go_to(kRefuse));
  rules.push_back(Rule("l_out", refused("127.0.0.11 beside DNS"))
                      .ip4_destination_is(kEngineResolver)
                      .count()
                      .go_to(kRefuse));
  rules.push_back(Rule("l_out", "answers").is_reply().is_established(false).accept());
  rules.push_back(Rule("l_out", "own addresses").destination_is_local().accept());
  rules.push_back(Rule("l_out", refused("sent by a process")).has_user_socket().count().go_to(kRefuse));
  // The kernel's own reports of groups and neighbours, at each change of an address: not worth a line.
  rules.push_back(Rule("l_out", "the kernel's IGMP").protocol_is(IPPROTO_IGMP).drop());
  rules.push_back(Rule("l_out", "the kernel's MLD and ND").icmp6_type_in(130, 137).drop());
  rules.push_back(Rule("l_out", "the kernel's MLDv2").icmp6_type_in(143, 143).drop());
  rules.push_back(Rule("l_out", refused("sent by no process")).count().go_to(kRefuse));

  // ---- nobody talks to a listener but by way of the redirect ----
  const uint16_t first = std::min({ports.proxy, ports.dns_engine, ports.dns_other});
  const uint16_t last = std::max({ports.proxy, ports.dns_engine, ports.dns_other});
  for (const uint8_t protocol : kProtocols)
    rules.push_back(Rule("l_in", refused("straight to a listener"))
                        .destination_port_in(protocol, first, last)
                        .was_redirected(false)
                        .count()
                        .go_to(kRefuse));
  rules.push_back(Rule("l_in", "loopback").in_interface_is("lo").accept());
  return ruleset;
}

Result<Ruleset> inbound_ruleset(const InboundPlan& plan) {
  Ruleset ruleset;
  ruleset.table = kTable;
  ruleset.chains = {
      {.name = "in_nat", .type = "nat", .hook = Hook::kPrerouting, .priority = kNatPriority},
      {.name = "in", .hook = Hook::kInput, .drops = true},
      {.name = "fwd", .hook = Hook::kForward, .drops = true},
  };
  auto& rules = ruleset.rules;
  // lo first: there the dialer asks the engine's resolver, through the engine's own rules.
  rules.push_back(Rule("in_nat", "loopback is the engine's").in_interface_is("lo").return_());
  if (!plan.tcp_ports.empty() && plan.relay_port == 0) return Error(EINVAL, "inbound ports without a relay");
  for (const PortRange& range : plan.tcp_ports) {
    const std::string text = std::to_string(range.first) + "-" + std::to_string(range.last);
    if (range.first == 0 || range.first > range.last) return Error(EINVAL, "port range " + text + " is empty");
    rules.push_back(Rule("in_nat", "port " + text)
                        .destination_port_in(IPPROTO_TCP, range.first, range.last)
                        .destination_is_local()
                        .redirect_to(plan.relay_port));
  }
  rules.push_back(Rule("in", "answers").is_established(true).accept());
  rules.push_back(Rule("in", "loopback is the engine's").in_interface_is("lo").accept());
  // A segment in the middle of nothing counts as a new connection for conntrack: only a SYN may be one.
  if (!plan.tcp_ports.empty())
    rules.push_back(Rule("in", "to the relay, redirected")
                        .destination_port_is(IPPROTO_TCP, plan.relay_port)
                        .was_redirected(true)
                        .is_lone_syn()
                        .accept());
  rules.push_back(Rule("in", "MLD, router and neighbour discovery").icmp6_type_in(130, 136).accept());
  rules.push_back(Rule("in", std::string(kRefusedPrefix) + "from outside").count().drop());
  return ruleset;
}

}  // namespace leash::hooks
