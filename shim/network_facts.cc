#include "shim/network_facts.h"

#include <algorithm>

namespace leash::shim {

namespace {

void add(std::vector<std::string>& list, std::string text) {
  if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(std::move(text));
}

hooks::IpAddress network_of(hooks::IpAddress address, uint8_t prefix_length) {
  for (size_t i = 0; i < address.size(); ++i) {
    const size_t bits = std::min<size_t>(8, static_cast<size_t>(std::max<int>(0, prefix_length - static_cast<int>(8 * i))));
    address.bytes[i] = static_cast<uint8_t>(address.bytes[i] & (0xff00U >> bits));
  }
  return address;
}

}  // namespace

oci::NetworkFacts network_facts(const hooks::NetState& state, bool is_the_hosts) {
  oci::NetworkFacts facts;
  for (const hooks::Address& address : state.addresses) {
    add(facts.never_destinations, address.local.text());
    add(facts.onlink_networks,
        network_of(address.peer, address.prefix_length).text() + "/" + std::to_string(address.prefix_length));
  }
  if (is_the_hosts) return facts;
  for (const hooks::Route& route : state.routes) {
    if (!route.gateway.is_unset()) add(facts.never_destinations, route.gateway.text());
  }
  return facts;
}

}  // namespace leash::shim
