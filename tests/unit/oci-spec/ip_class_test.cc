#include "oci-spec/ip_class.h"

#include "tests/unit/catch.h"

namespace leash::oci {
namespace {

TEST_CASE("ip_class: every spelling of a private destination is private") {
  struct Row {
    const char* text;
    IpClass expected;
  };
  const Row rows[] = {
      {"8.8.8.8", IpClass::kPublic},
      {"192.0.2.1", IpClass::kPublic},
      {"198.51.100.7", IpClass::kPublic},
      {"203.0.113.9", IpClass::kPublic},
      {"2606:4700::1", IpClass::kPublic},
      {"2001:db8::1", IpClass::kPublic},
      {"10.0.0.1", IpClass::kPrivate},
      {"172.15.255.255", IpClass::kPublic},
      {"172.16.0.0", IpClass::kPrivate},
      {"172.31.255.255", IpClass::kPrivate},
      {"172.32.0.0", IpClass::kPublic},
      {"192.168.1.1", IpClass::kPrivate},
      {"100.64.0.1", IpClass::kPrivate},
      {"100.128.0.1", IpClass::kPublic},
      {"198.18.0.1", IpClass::kPrivate},
      {"198.19.255.255", IpClass::kPrivate},
      {"192.0.0.8", IpClass::kPrivate},
      {"240.0.0.1", IpClass::kPrivate},
      {"255.255.255.255", IpClass::kMulticast},
      {"224.0.0.251", IpClass::kMulticast},
      {"0.0.0.0", IpClass::kUnspecified},
      {"0.1.2.3", IpClass::kUnspecified},
      {"127.0.0.1", IpClass::kLoopback},
      {"127.255.0.11", IpClass::kLoopback},
      {"169.254.1.1", IpClass::kLinkLocal},
      {"169.254.169.254", IpClass::kMetadata},
      {"169.254.170.2", IpClass::kMetadata},
      {"100.100.100.200", IpClass::kMetadata},
      {"168.63.129.16", IpClass::kMetadata},
      {"fd00:ec2::254", IpClass::kMetadata},
      {"::", IpClass::kUnspecified},
      {"::1", IpClass::kLoopback},
      {"fe80::1", IpClass::kLinkLocal},
      {"fc00::1", IpClass::kPrivate},
      {"fdff::1", IpClass::kPrivate},
      {"fec0::1", IpClass::kPrivate},
      {"ff02::1", IpClass::kMulticast},
      {"100::1", IpClass::kPrivate},
      {"4000::1", IpClass::kPrivate},
      {"::ffff:127.0.0.1", IpClass::kLoopback},
      {"::ffff:169.254.169.254", IpClass::kMetadata},
      {"::ffff:a9fe:a9fe", IpClass::kMetadata},
      {"::ffff:8.8.8.8", IpClass::kPublic},
      {"::127.0.0.1", IpClass::kLoopback},
      {"::8.8.8.8", IpClass::kPrivate},
      {"::ffff:0:10.0.0.1", IpClass::kPrivate},
      {"64:ff9b::10.0.0.1", IpClass::kPrivate},
      {"64:ff9b::a9fe:a9fe", IpClass::kMetadata},
      {"64:ff9b::8.8.8.8", IpClass::kPublic},
      {"64:ff9b:1::8.8.8.8", IpClass::kPrivate},
      {"2002:7f00:1::", IpClass::kLoopback},
      {"2002:a00:1::1", IpClass::kPrivate},
      {"2002:808:808::1", IpClass::kPublic},
      {"2001:0:a00:1::", IpClass::kPrivate},
      {"2001:0:808:808:0:0:5601:5601", IpClass::kMetadata},  // client 169.254.169.254, flipped
      {"2001:0:808:808:0:0:f7f7:f7f7", IpClass::kPublic},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    const auto address = parse_ip(row.text);
    REQUIRE(address);
    CHECK(word(classify(*address)) == word(row.expected));
  }
}

TEST_CASE("ip_class: only the plain spelling of an address is one") {
  for (const char* text : {"", "1", "1.2.3", "1.2.3.4.5", "01.2.3.4", "1.2.3.256", "0x7f.0.0.1", "2130706433", "1.2.3.4 ",
                           "[::1]", "::1%lo", ":::", "fe80::1%eth0", "1:2:3:4:5:6:7:8:9"}) {
    INFO(text);
    CHECK(!parse_ip(text));
  }
  CHECK(print(*parse_ip("FD00:0:0::A")) == "fd00::a");
}

TEST_CASE("ip_class: a network holds what its prefix says, and nothing with host bits is one") {
  const auto network = parse_network("172.18.0.0/15");
  REQUIRE(network);
  CHECK(network->contains(*parse_ip("172.19.255.255")));
  CHECK(!network->contains(*parse_ip("172.20.0.0")));
  CHECK(network->contains(*parse_ip("::ffff:172.18.0.1")));
  CHECK(!network->contains(*parse_ip("fd00::1")));
  CHECK(parse_network("fd00::/8")->contains(*parse_ip("fdab::1")));
  for (const char* text : {"10.0.0.0", "10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/08", "10.0.0.0/-1", "::/129", "10.0.0.0/8x"}) {
    INFO(text);
    CHECK(!parse_network(text));
  }
}

}  // namespace
}  // namespace leash::oci
