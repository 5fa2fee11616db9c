// A packet from the container or from an upstream server is read within its bounds or refused; what is
// answered is itself well-formed and fits.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "proxy/dns_message.h"

namespace {

void require(bool claim) {
  if (!claim) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace leash;
  using namespace leash::proxy;
  const std::string_view packet(reinterpret_cast<const char*>(data), size);
  if (const auto query = dns::parse_query(packet)) {
    dns::Response response;
    for (int i = 0; i < 40; ++i) {
      response.addresses.push_back(*oci::parse_ip("203.0.113.9"));
      response.addresses.push_back(*oci::parse_ip("2001:db8::1"));
    }
    response.extended = dns::ExtendedError::kBlocked;
    response.extended_text = "blocked";
    const std::string built = dns::build_response(*query, response, query->udp_size);
    require(built.size() <= query->udp_size);
    if (query->qclass == dns::kClassIn && query->opcode == 0) {
      const auto answer = dns::parse_answer(built, query->id, query->name, query->type, true);
      require(answer.has_value());
    }
    (void)dns::reverse_address(query->name);
    require(!query->name.empty() ? dns::build_query(1, query->name, query->type).has_value() : true);
  }
  for (const uint16_t qtype : {dns::type::kA, dns::type::kAaaa, dns::type::kPtr}) {
    const auto answer = dns::parse_answer(packet, 0x4242, "ok.test", qtype, false);
    if (answer) require(answer->addresses.size() <= dns::kMaxAddresses);
  }
  const std::string error = dns::build_format_error(packet);
  require(error.empty() || error.size() == dns::kHeaderSize);
  return 0;
}
