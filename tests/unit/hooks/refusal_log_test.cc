#include "hooks/refusal_log.h"

#include "tests/unit/catch.h"

using namespace leash::hooks;
using leash::oci::RefusedPacket;

namespace {

using Bytes = std::vector<uint8_t>;

Bytes ipv4(uint8_t protocol, uint16_t total, Bytes payload, uint16_t fragment = 0, uint8_t words = 5) {
  Bytes packet = {static_cast<uint8_t>(0x40 | words), 0, static_cast<uint8_t>(total >> 8), static_cast<uint8_t>(total),
                  0, 0, static_cast<uint8_t>(fragment >> 8), static_cast<uint8_t>(fragment),
                  64, protocol, 0, 0, 172, 17, 0, 2, 203, 0, 113, 9};
  packet.resize(size_t{4} * words);
  packet.insert(packet.end(), payload.begin(), payload.end());
  return packet;
}

Bytes ipv6(uint8_t next, uint16_t length, Bytes payload) {
  Bytes packet(40);
  packet[0] = 0x60;
  packet[4] = static_cast<uint8_t>(length >> 8);
  packet[5] = static_cast<uint8_t>(length);
  packet[6] = next;
  packet[24] = 0x20;
  packet[25] = 0x01;
  packet[26] = 0x0d;
  packet[27] = 0xb8;
  packet[39] = 9;
  packet.insert(packet.end(), payload.begin(), payload.end());
  return packet;
}

std::string text(const Bytes& packet) {
  const auto refused = parse_refused_packet(packet);
  if (!refused) return "nothing";
  return refused->protocol + " " + refused->destination + " " + std::to_string(refused->port) + " " +
         std::to_string(refused->bytes);
}

const Bytes kPorts = {0x12, 0x34, 0x01, 0xbb, 0, 8, 0, 0};  // to 443

}  // namespace

TEST_CASE("refusal_log: a report names protocol, address, port and length") {
  CHECK(text(ipv4(17, 1200, kPorts)) == "udp 203.0.113.9 443 1200");
  CHECK(text(ipv4(6, 60, kPorts)) == "tcp 203.0.113.9 443 60");
  CHECK(text(ipv4(1, 84, {8, 0, 0, 0})) == "icmp 203.0.113.9 0 84");
  CHECK(text(ipv4(132, 84, kPorts)) == "sctp 203.0.113.9 443 84");
  CHECK(text(ipv4(47, 84, kPorts)) == "47 203.0.113.9 0 84");
  CHECK(text(ipv6(17, 8, kPorts)) == "udp 2001:db8::9 443 48");
  CHECK(text(ipv6(58, 64, {128, 0})) == "icmpv6 2001:db8::9 0 104");
}

TEST_CASE("refusal_log: options and extension headers do not hide the port") {
  CHECK(text(ipv4(17, 100, kPorts, 0, 8)) == "udp 203.0.113.9 443 100");
  Bytes chain = {60, 0, 0, 0, 0, 0, 0, 0,           // hop-by-hop, then destination options
                 17, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  chain.insert(chain.end(), kPorts.begin(), kPorts.end());
  CHECK(text(ipv6(0, 32, chain)) == "udp 2001:db8::9 443 72");
  Bytes first_fragment = {17, 0, 0, 1, 0, 0, 0, 7};
  first_fragment.insert(first_fragment.end(), kPorts.begin(), kPorts.end());
  CHECK(text(ipv6(44, 16, first_fragment)) == "udp 2001:db8::9 443 56");
}

TEST_CASE("refusal_log: a later fragment has no port, whatever its bytes look like") {
  CHECK(text(ipv4(17, 100, kPorts, 0x2001)) == "udp 203.0.113.9 0 100");
  Bytes later = {17, 0, 0, 8, 0, 0, 0, 7};
  later.insert(later.end(), kPorts.begin(), kPorts.end());
  CHECK(text(ipv6(44, 16, later)) == "udp 2001:db8::9 0 56");
}

TEST_CASE("refusal_log: a packet cut anywhere is read as far as it goes and no further") {
  Bytes chain = {60, 0, 0, 0, 0, 0, 0, 0, 17, 200, 0, 0, 0, 0, 0, 0};
  chain.insert(chain.end(), kPorts.begin(), kPorts.end());
  for (const Bytes& whole : {ipv4(17, 1200, kPorts), ipv4(17, 1200, kPorts, 0, 15), ipv6(0, 900, chain)}) {
    for (size_t size = 0; size <= whole.size(); ++size) {
      const Bytes cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
      const auto refused = parse_refused_packet(cut);
      CHECK(refused.has_value() == (size >= ((whole[0] >> 4) == 4 ? 20u : 40u)));
    }
  }
  CHECK(text({}) == "nothing");
  CHECK(text(Bytes(60, 0x55)) == "nothing");
  // A header length that lies.
  Bytes lying = ipv4(17, 1200, kPorts);
  lying[0] = 0x4f;
  CHECK(text(lying) == "udp 203.0.113.9 0 1200");
  lying[0] = 0x40;
  CHECK(text(lying) == "udp 203.0.113.9 0 1200");
}

TEST_CASE("refusal_log: extension headers without end are given up") {
  Bytes chain;
  for (int i = 0; i < 100; ++i) chain.insert(chain.end(), {0, 0, 0, 0, 0, 0, 0, 0});
  CHECK(text(ipv6(0, 800, chain)) == "0 2001:db8::9 0 840");
}
