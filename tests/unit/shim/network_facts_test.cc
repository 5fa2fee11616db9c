#include "shim/network_facts.h"

#include "tests/unit/catch.h"

using namespace leash;

namespace {

hooks::IpAddress v4(uint8_t a, uint8_t b, uint8_t c, uint8_t d) {
  hooks::IpAddress address;
  address.bytes[0] = a;
  address.bytes[1] = b;
  address.bytes[2] = c;
  address.bytes[3] = d;
  return address;
}

hooks::NetState one_interface(uint8_t prefix_length) {
  hooks::NetState state;
  hooks::Address address;
  address.link = "eth0";
  address.local = address.peer = v4(172, 17, 129, 2);
  address.prefix_length = prefix_length;
  state.addresses.push_back(address);
  hooks::Route route;
  route.link = "eth0";
  route.gateway = v4(172, 17, 128, 1);
  state.routes.push_back(route);
  return state;
}

}  // namespace

TEST_CASE("network facts: the network of an interface has no host bits, whatever its prefix") {
  const struct {
    uint8_t prefix_length;
    const char* network;
  } cases[] = {{16, "172.17.0.0/16"}, {17, "172.17.128.0/17"}, {32, "172.17.129.2/32"}, {12, "172.16.0.0/12"}, {0, "0.0.0.0/0"}};
  for (const auto& one : cases) {
    REQUIRE(shim::network_facts(one_interface(one.prefix_length), false).onlink_networks == std::vector<std::string>{one.network});
  }
}

TEST_CASE("network facts: own addresses are never destinations, a gateway only where it is the host") {
  REQUIRE(shim::network_facts(one_interface(16), false).never_destinations ==
          std::vector<std::string>{"172.17.129.2", "172.17.128.1"});
  REQUIRE(shim::network_facts(one_interface(16), true).never_destinations == std::vector<std::string>{"172.17.129.2"});
}
