#include "shim/dialer.h"
#include "shim/error_text.h"
#include "shim/listeners.h"
#include "shim/registry.h"
#include "shim/resolv_conf.h"
#include "tests/unit/catch.h"

using namespace leash;

TEST_CASE("error text: no words from which an engine derives 126 or 127 remain") {
  const std::string text = shim::for_engine(
      "lock-in: open '/proc/1/ns/net': No such file or directory, permission denied; Permission denied: "
      "executable file not found in $PATH, operation not permitted, not a directory");
  for (const char* word : {"o such file or directory", "ermission denied", "executable file not found",
                           "peration not permitted", "not a directory", "is a directory"}) {
    INFO(word);
    REQUIRE(text.find(word) == std::string::npos);
  }
  REQUIRE(text.find("lock-in: open '/proc/1/ns/net'") == 0);
}

TEST_CASE("resolv.conf: the first three servers count, 127.0.0.11 is the engine's") {
  const auto got = shim::parse_resolv_conf(
      "# comment\nnameserver 127.0.0.11\nsearch example\nnameserver\t9.9.9.9\nnameserver bogus\n"
      "nameserver fe80::1%eth0\nnameserver 8.8.8.8\n");
  REQUIRE(got.has_engine_dns);
  REQUIRE(got.servers == std::vector<std::string>{"9.9.9.9", "fe80::1%eth0"});
  REQUIRE(got.loopback.empty());
  REQUIRE(shim::parse_resolv_conf("nameserver 127.0.0.53").loopback == std::vector<std::string>{"127.0.0.53"});
  REQUIRE(shim::parse_resolv_conf("").servers.empty());
}

TEST_CASE("resolver addresses: both families, with and without a port") {
  const auto v4 = shim::parse_resolver("9.9.9.9:5353").value();
  REQUIRE_FALSE(v4.is_ipv6);
  REQUIRE(v4.port == 5353);
  REQUIRE(v4.address[0] == 9);
  const auto v6 = shim::parse_resolver("[2001:db8::1]:53").value();
  REQUIRE(v6.is_ipv6);
  REQUIRE(v6.address[0] == 0x20);
  REQUIRE(shim::parse_resolver("2001:db8::1").value().port == 53);
  for (const char* bad : {"", "9.9.9.9:", "9.9.9.9:0", "9.9.9.9:65536", "[2001:db8::1", "host"}) {
    INFO(bad);
    const auto parsed = shim::parse_resolver(bad);
    // "ADDRESS:" alone is the address with the default port.
    REQUIRE((std::string(bad) == "9.9.9.9:" ? parsed.has_value() : !parsed.has_value()));
  }
}

TEST_CASE("container ids: no path, no empty name, not longer than a socket's path allows") {
  REQUIRE(shim::check_container_id("a"));
  REQUIRE(shim::check_container_id(std::string(64, 'f')));
  REQUIRE(shim::check_container_id("A_b+c-d.e"));
  for (const std::string& bad : {std::string(), std::string("."), std::string(".."), std::string("a/b"), std::string("a b"),
                                 std::string(120, 'x')}) {
    INFO(bad);
    REQUIRE_FALSE(shim::check_container_id(bad));
  }
}

TEST_CASE("DNS while the proxy is away: a query is turned into SERVFAIL with its question, an answer is not") {
  std::vector<char> query = {0x12, 0x34, 0x01, 0x20, 0, 1, 0, 0, 0, 0, 0, 0, 1, 'a', 0, 0, 1, 0, 1};
  const std::vector<char> question(query.begin() + 12, query.end());
  REQUIRE(shim::make_servfail(query));
  REQUIRE(query[0] == 0x12);
  REQUIRE(query[1] == 0x34);
  REQUIRE(static_cast<unsigned char>(query[2]) == 0x81);  // QR, RD
  REQUIRE(query[3] == 2);
  REQUIRE(std::vector<char>(query.begin() + 12, query.end()) == question);
  REQUIRE_FALSE(shim::make_servfail(query));  // it is an answer now
  std::vector<char> cut = {0, 1, 2};
  REQUIRE_FALSE(shim::make_servfail(cut));
}
