#include "hooks/net_state.h"

#include <arpa/inet.h>

#include "tests/unit/catch.h"

using namespace leash::hooks;

namespace {

IpAddress ip(const std::string& text) {
  IpAddress address;
  address.is_ipv6 = text.find(':') != std::string::npos;
  REQUIRE(inet_pton(address.is_ipv6 ? AF_INET6 : AF_INET, text.c_str(), address.bytes.data()) == 1);
  return address;
}

Link link(const std::string& name, uint32_t mtu = 1500, uint32_t index = 1) {
  return {.name = name, .index = index, .mtu = mtu, .mac = {2, 0, 0, 0, 0, 1}};
}
Address address(const std::string& name, const std::string& local) {
  return {.link = name, .local = ip(local), .peer = ip(local), .broadcast = {}, .prefix_length = 24, .scope = 0};
}
Route default_route(const std::string& name, const std::string& gateway) {
  return {.link = name, .destination = {}, .prefix_length = 0, .gateway = ip(gateway), .source = {}, .metric = 0, .scope = 0};
}

NetState docker() {
  return {.links = {link("eth0")},
          .addresses = {address("eth0", "172.17.0.2")},
          .routes = {default_route("eth0", "172.17.0.1")}};
}

}  // namespace

TEST_CASE("net_state: equal states differ in nothing, whatever numbers their interfaces have") {
  NetState other = docker();
  other.links[0].index = 77;
  CHECK(difference(docker(), other).empty());
}

TEST_CASE("net_state: from nothing to something, all is added; back again, all is removed") {
  const NetChange forth = difference({}, docker());
  CHECK(forth.added.links.size() == 1);
  CHECK(forth.added.addresses.size() == 1);
  CHECK(forth.added.routes.size() == 1);
  CHECK(forth.removed.links.empty());
  const NetChange back = difference(docker(), {});
  CHECK(back.removed.links.size() == 1);
  CHECK(back.added.links.empty());
}

TEST_CASE("net_state: an interface with another MTU is made anew with all that is on it") {
  NetState other = docker();
  other.links[0].mtu = 1400;
  const NetChange change = difference(docker(), other);
  CHECK(change.removed.links == std::vector<Link>{link("eth0")});
  CHECK(change.added.links == std::vector<Link>{link("eth0", 1400)});
  CHECK(change.added.addresses == other.addresses);
  CHECK(change.added.routes == other.routes);
}

TEST_CASE("net_state: an address that went takes routes with it, so that all are added again") {
  NetState from = docker();
  from.addresses.push_back(address("eth0", "172.17.0.9"));
  const NetChange change = difference(from, docker());
  CHECK(change.removed.addresses == std::vector<Address>{address("eth0", "172.17.0.9")});
  CHECK(change.added.addresses.empty());
  CHECK(change.added.routes == docker().routes);
}

TEST_CASE("net_state: a second network adds its interface and touches nothing else") {
  NetState other = docker();
  other.links.push_back(link("eth1", 1500, 9));
  other.addresses.push_back(address("eth1", "172.18.0.2"));
  const NetChange change = difference(docker(), other);
  CHECK(change.removed.links.empty());
  CHECK(change.removed.addresses.empty());
  CHECK(change.removed.routes.empty());
  CHECK(change.added.links == std::vector<Link>{link("eth1")});
  CHECK(change.added.addresses == std::vector<Address>{address("eth1", "172.18.0.2")});
  CHECK(change.added.routes.empty());
}

TEST_CASE("net_state: routes say what they are") {
  CHECK(default_route("eth0", "172.17.0.1").text() == "default via 172.17.0.1 dev eth0");
  Route route = default_route("eth1", "fd00::1");
  route.destination = ip("2001:db8::");
  route.prefix_length = 32;
  route.metric = 7;
  CHECK(route.text() == "2001:db8::/32 via fd00::1 dev eth1 metric 7");
}
