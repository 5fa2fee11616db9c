#include "hooks/lockin_rules.h"

#include <algorithm>

#include "tests/unit/catch.h"

using namespace leash;
using namespace leash::hooks;

namespace {

constexpr ListenerPorts kPorts{.proxy = 64990, .dns_engine = 64991, .dns_other = 64992};

std::vector<std::string> names_in(const Ruleset& ruleset, const std::string& chain) {
  std::vector<std::string> names;
  for (const Rule& rule : ruleset.rules)
    if (rule.chain() == chain) names.push_back(rule.name());
  return names;
}

ptrdiff_t position(const std::vector<std::string>& names, const std::string& name) {
  const auto found = std::find(names.begin(), names.end(), name);
  REQUIRE(found != names.end());
  return found - names.begin();
}

const Chain& chain_of(const Ruleset& ruleset, const std::string& name) {
  for (const Chain& chain : ruleset.chains)
    if (chain.name == name) return chain;
  FAIL("no chain " << name);
  return ruleset.chains.front();
}

std::string joined(const Rule& rule) {
  std::string text;
  for (const std::string& line : rule.text()) text += line + "\n";
  return text;
}

}  // namespace

TEST_CASE("lockin_rules: everything that no rule accepts is dropped, in and out and through") {
  const auto container = container_ruleset(kPorts, {});
  REQUIRE(container);
  for (const char* name : {"l_out", "l_in", "l_fwd"}) CHECK(chain_of(*container, name).drops);
  CHECK(container->is_alone);
  const auto inbound = inbound_ruleset({.n1_fd = -1, .tcp_ports = {{80, 80}}, .relay_port = 4000});
  REQUIRE(inbound);
  for (const char* name : {"in", "fwd"}) CHECK(chain_of(*inbound, name).drops);
  CHECK_FALSE(inbound->is_alone);
}

TEST_CASE("lockin_rules: the redirects come before Docker's own for 127.0.0.11") {
  const auto container = container_ruleset(kPorts, {});
  const auto inbound = inbound_ruleset({.n1_fd = -1, .tcp_ports = {{80, 80}}, .relay_port = 4000});
  CHECK(chain_of(*container, "nat_out").priority < -100);
  CHECK(chain_of(*inbound, "in_nat").priority < -100);
}

TEST_CASE("lockin_rules: resolvers on loopback are redirected before loopback is left alone") {
  const auto ruleset = container_ruleset(kPorts, {"127.0.0.53", "127.0.1.1"});
  REQUIRE(ruleset);
  const auto names = names_in(*ruleset, "nat_out");
  const auto own = position(names, "loopback is the container's own");
  CHECK(position(names, "DNS to the engine's resolver") < own);
  CHECK(position(names, "DNS to 127.0.0.53") < own);
  CHECK(position(names, "DNS to 127.0.1.1") < own);
  CHECK(position(names, "DNS to any server") > own);
  CHECK(names.back() == "TCP to the proxy");
}

TEST_CASE("lockin_rules: a resolver outside of 127.0.0.0/8 is an error that names it") {
  for (const char* resolver : {"8.8.8.8", "::1", "", "127.0.0", "localhost"}) {
    const auto ruleset = container_ruleset(kPorts, {resolver});
    REQUIRE_FALSE(ruleset);
    CHECK(ruleset.error().message().find("'" + std::string(resolver) + "'") != std::string::npos);
  }
}

TEST_CASE("lockin_rules: sockets bound to an interface are refused before anything local is accepted") {
  const auto ruleset = container_ruleset(kPorts, {});
  const auto out = names_in(*ruleset, "l_out");
  CHECK(position(out, "refused: bound to an interface") < position(out, "own addresses"));
  CHECK(names_in(*ruleset, "nat_out").front() == "bound to an interface");
}

TEST_CASE("lockin_rules: each refusal counts before it goes to be reported") {
  const auto ruleset = container_ruleset(kPorts, {});
  int refusals = 0;
  for (const Rule& rule : ruleset->rules) {
    if (rule.name().rfind(kRefusedPrefix, 0) != 0) continue;
    ++refusals;
    const auto text = rule.text();
    REQUIRE(text.size() >= 2);
    CHECK(text[text.size() - 2] == "counter");
    CHECK(text.back() == "immediate reg 0 goto -> refuse");
  }
  CHECK(refusals == 7);
}

TEST_CASE("lockin_rules: the way to the relay is a redirect and a lone SYN, for each range of ports") {
  const auto ruleset = inbound_ruleset({.n1_fd = -1, .tcp_ports = {{80, 80}, {9000, 9010}}, .relay_port = 4000});
  REQUIRE(ruleset);
  CHECK(names_in(*ruleset, "in_nat") ==
        std::vector<std::string>{"loopback is the engine's", "port 80-80", "port 9000-9010"});
  for (const Rule& rule : ruleset->rules) {
    if (rule.name() != "to the relay, redirected") continue;
    const std::string text = joined(rule);
    CHECK(text.find("ct load status") != std::string::npos);
    CHECK(text.find("payload load 1b @ transport header + 13") != std::string::npos);
  }
}

TEST_CASE("lockin_rules: without inbound ports there is no way to a relay at all") {
  const auto ruleset = inbound_ruleset({});
  REQUIRE(ruleset);
  CHECK(names_in(*ruleset, "in_nat").size() == 1);
  const auto names = names_in(*ruleset, "in");
  CHECK(std::find(names.begin(), names.end(), "to the relay, redirected") == names.end());
}

TEST_CASE("lockin_rules: inbound ports need a relay and must be ranges") {
  CHECK_FALSE(inbound_ruleset({.n1_fd = -1, .tcp_ports = {{80, 80}}, .relay_port = 0}));
  CHECK_FALSE(inbound_ruleset({.n1_fd = -1, .tcp_ports = {{81, 80}}, .relay_port = 4000}));
  CHECK_FALSE(inbound_ruleset({.n1_fd = -1, .tcp_ports = {{0, 80}}, .relay_port = 4000}));
}
