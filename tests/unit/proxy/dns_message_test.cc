#include "proxy/dns_message.h"

#include "proxy/dns_guard.h"
#include "tests/unit/catch.h"

namespace leash::proxy {
namespace {

using namespace std::string_literals;

std::string wire_name(std::string_view name) {
  std::string out;
  while (!name.empty()) {
    const size_t dot = std::min(name.find('.'), name.size());
    out += static_cast<char>(dot);
    out += name.substr(0, dot);
    name.remove_prefix(std::min(dot + 1, name.size()));
  }
  return out + '\0';
}

std::string u16(unsigned value) { return {static_cast<char>(value >> 8), static_cast<char>(value & 0xff)}; }
std::string header(unsigned flags, unsigned qd, unsigned an, unsigned ns, unsigned ar) {
  return u16(0x1234) + u16(flags) + u16(qd) + u16(an) + u16(ns) + u16(ar);
}
std::string question(std::string_view name, unsigned qtype = 1) { return wire_name(name) + u16(qtype) + u16(1); }
std::string record(const std::string& owner, unsigned rtype, unsigned ttl, const std::string& data) {
  return owner + u16(rtype) + u16(1) + u16(ttl >> 16) + u16(ttl & 0xffff) + u16(static_cast<unsigned>(data.size())) + data;
}

TEST_CASE("dns_message: a plain query is read, with and without EDNS") {
  const auto plain = dns::parse_query(header(0x0100, 1, 0, 0, 0) + question("Ok.Test", 28));
  REQUIRE(plain);
  CHECK(plain->id == 0x1234);
  CHECK(plain->name == "Ok.Test");
  CHECK(plain->type == dns::type::kAaaa);
  CHECK(plain->recursion_desired);
  CHECK(!plain->has_edns);
  CHECK(plain->question == question("Ok.Test", 28));

  const std::string opt = "\0"s + u16(41) + u16(4096) + u16(0) + u16(0) + u16(12) + u16(10) + u16(8) + "cookie!!";
  const auto edns = dns::parse_query(header(0x0100, 1, 0, 0, 1) + question("a.b") + opt);
  REQUIRE(edns);
  CHECK(edns->has_edns);
  CHECK(edns->udp_size == 1232);
}

TEST_CASE("dns_message: a query that is more than a question is refused") {
  const std::string good = question("ok.test");
  const std::string rows[] = {
      "",
      "x",
      header(0x0100, 1, 0, 0, 0),
      header(0x8100, 1, 0, 0, 0) + good,
      header(0x0100, 0, 0, 0, 0),
      header(0x0100, 2, 0, 0, 0) + good + good,
      header(0x0100, 1, 1, 0, 0) + good + record(wire_name("ok.test"), 1, 1, "abcd"),
      header(0x0100, 1, 0, 1, 0) + good + record(wire_name("ok.test"), 1, 1, "abcd"),
      header(0x0100, 1, 0, 0, 1) + good + record(wire_name("ok.test"), 1, 1, "abcd"),
      header(0x0100, 1, 0, 0, 0) + good + "trailing",
      header(0x0100, 1, 0, 0, 0) + "\xc0\x0c"s + u16(1) + u16(1),           // a pointer to itself
      header(0x0100, 1, 0, 0, 0) + "\x02ok\xc0\x0c"s + u16(1) + u16(1),
      header(0x0100, 1, 0, 0, 0) + "\x40" + std::string(64, 'a') + "\0"s + u16(1) + u16(1),
      header(0x0100, 1, 0, 0, 0) + "\x03" "a.b\0"s + u16(1) + u16(1),       // a dot inside a label
      header(0x0100, 1, 0, 0, 0) + "\x03" "a\0b\0"s + u16(1) + u16(1),
      header(0x0100, 1, 0, 0, 0) + "\x03" "a\xff" "b\0"s + u16(1) + u16(1),
      header(0x0100, 1, 0, 0, 0) + "\x09short"s,
      header(0x0100, 1, 0, 0, 0) + std::string(5000, 'a'),
  };
  for (const std::string& packet : rows) CHECK(!dns::parse_query(packet));

  std::string long_name;
  for (int i = 0; i < 4; ++i) long_name += (i == 0 ? "" : ".") + std::string(63, 'a');
  CHECK(!dns::parse_query(header(0x0100, 1, 0, 0, 0) + question(long_name)));  // 257 bytes on the wire
  // Every cut of a good packet is refused, not read beyond.
  const std::string packet = header(0x0100, 1, 0, 0, 0) + good;
  for (size_t size = 0; size < packet.size(); ++size) CHECK(!dns::parse_query(packet.substr(0, size)));
}

TEST_CASE("dns_message: a response holds the question and our own records, and nothing else") {
  const auto query = dns::parse_query(header(0x0100, 1, 0, 0, 0) + question("oK.tEst"));
  REQUIRE(query);
  dns::Response response;
  response.addresses = {*oci::parse_ip("203.0.113.9"), *oci::parse_ip("2001:db8::1")};
  response.ttl_seconds = 60;
  response.extended = dns::ExtendedError::kBlocked;
  CHECK(dns::build_response(*query, response, 512) ==
        header(0x8180, 1, 1, 0, 0) + question("oK.tEst") + record("\xc0\x0c", 1, 60, "\xcb\x00\x71\x09"s));
  CHECK(dns::build_response(*query, response, 40) == header(0x8380, 1, 0, 0, 0) + question("oK.tEst"));
}

TEST_CASE("dns_message: an extended error is told to those who speak EDNS") {
  const std::string opt = "\0"s + u16(41) + u16(1232) + u16(0) + u16(0) + u16(0);
  const auto query = dns::parse_query(header(0x0100, 1, 0, 0, 1) + question("evil.test") + opt);
  REQUIRE(query);
  dns::Response response;
  response.rcode = dns::Rcode::kNxDomain;
  response.extended = dns::ExtendedError::kBlocked;
  response.extended_text = "no";
  CHECK(dns::build_response(*query, response, 512) ==
        header(0x8183, 1, 0, 0, 1) + question("evil.test") + "\0"s + u16(41) + u16(1232) + u16(0) + u16(0) + u16(8) + u16(15) +
            u16(4) + u16(15) + "no");
}

TEST_CASE("dns_message: two servers never answer each other's errors") {
  CHECK(dns::build_format_error("short").empty());
  CHECK(dns::build_format_error(header(0x8180, 1, 0, 0, 0)).empty());
  CHECK(dns::build_format_error(header(0x0100, 9, 0, 0, 0)) == header(0x8081, 0, 0, 0, 0));
}

TEST_CASE("dns_message: an answer is read along its CNAMEs and no further") {
  const std::string a = "\xc0\x0c";
  const auto parse = [](const std::string& body, unsigned answers, unsigned flags = 0x8180) {
    return dns::parse_answer(header(flags, 1, answers, 0, 0) + question("ok.test") + body, 0x1234, "ok.test", 1, true);
  };
  const auto direct = parse(record(a, 1, 300, "\x01\x02\x03\x04"), 1);
  REQUIRE(direct);
  CHECK(oci::print(direct->addresses.at(0)) == "1.2.3.4");
  CHECK(direct->ttl_seconds == 300);

  const auto chained = parse(record(wire_name("CDN.test"), 1, 300, "\x01\x02\x03\x04") + record(a, 5, 20, wire_name("cdn.test")) +
                                 record(wire_name("other.test"), 1, 5, "\x05\x05\x05\x05"),
                             3);
  REQUIRE(chained);
  REQUIRE(chained->addresses.size() == 1);
  CHECK(chained->canonical == "cdn.test");
  CHECK(chained->ttl_seconds == 20);

  const auto unrelated = parse(record(wire_name("evil.test"), 1, 300, "\x01\x02\x03\x04"), 1);
  REQUIRE(unrelated);
  CHECK(unrelated->addresses.empty());

  const auto ring = parse(record(a, 5, 20, wire_name("x.test")) + record(wire_name("x.test"), 5, 20, wire_name("ok.test")), 2);
  REQUIRE(ring);
  CHECK(ring->addresses.empty());

  const auto other_types = parse(record(a, 16, 20, "\x03txt") + record(a, 46, 20, "sig") + record(a, 1, 20, "\x01\x02\x03\x04"), 3);
  REQUIRE(other_types);
  CHECK(other_types->addresses.size() == 1);

  const auto truncated = parse("", 0, 0x8380);
  REQUIRE(truncated);
  CHECK(truncated->is_truncated);
  CHECK(parse("", 0, 0x8183)->rcode == dns::Rcode::kNxDomain);

  CHECK(!parse(record(a, 1, 300, "\x01\x02\x03"), 1));          // three bytes are no address
  CHECK(!parse(record("\xc0\xff", 1, 300, "\x01\x02\x03\x04"), 1));  // a pointer forward
  CHECK(!parse(record(a, 5, 300, "\xc0\x0c" "x"), 1));          // a CNAME with something behind it
  CHECK(!parse("", 1));
  std::string many;
  for (int i = 0; i < 100; ++i) many += record(a, 1, 300, "\x01\x02\x03\x04");
  CHECK(parse(many, 100)->addresses.size() == dns::kMaxAddresses);
}

TEST_CASE("dns_message: what answers another query is not our answer") {
  const std::string body = record("\xc0\x0c", 1, 300, "\x01\x02\x03\x04");
  const std::string good = header(0x8180, 1, 1, 0, 0) + question("oK.test") + body;
  CHECK(dns::parse_answer(good, 0x1234, "oK.test", 1, true));
  CHECK(!dns::parse_answer(good, 0x1235, "oK.test", 1, true));
  CHECK(!dns::parse_answer(good, 0x1234, "ok.test", 1, true));
  CHECK(dns::parse_answer(good, 0x1234, "ok.test", 1, false));
  CHECK(!dns::parse_answer(good, 0x1234, "ok.tesu", 1, false));
  CHECK(!dns::parse_answer(good, 0x1234, "oK.test", 28, true));
  CHECK(!dns::parse_answer(header(0x0180, 1, 1, 0, 0) + question("oK.test") + body, 0x1234, "oK.test", 1, true));
  CHECK(!dns::parse_answer(header(0x8180, 0, 1, 0, 0) + body, 0x1234, "oK.test", 1, true));
}

TEST_CASE("dns_message: reverse names lead to addresses and back") {
  for (const char* text : {"1.2.3.4", "172.18.0.3", "2001:db8::567:89ab", "::1"}) {
    INFO(text);
    const auto address = oci::parse_ip(text);
    CHECK(dns::reverse_address(dns::reverse_name(*address)) == address);
  }
  CHECK(dns::reverse_name(*oci::parse_ip("1.2.3.4")) == "4.3.2.1.in-addr.arpa");
  for (const char* name : {"in-addr.arpa", "1.in-addr.arpa", "1.2.3.4.5.in-addr.arpa", "x.2.3.4.in-addr.arpa", "ok.test",
                           "1.2.3.in-addr.arpa", "01.2.3.4.in-addr.arpa", "a.ip6.arpa"}) {
    INFO(name);
    CHECK(!dns::reverse_address(name));
  }
}

TEST_CASE("dns_guard: labels that carry data are told from those that name a host") {
  for (const char* labels : {"", "www", "api.eu-west-1", "d111111abcdef8", "my-company-production-bucket.s3", "productionresultssa0",
                             "0123456789abcdef0123456789abcdef", "rr3---sn-4g5e6nzz", "a.b.c.d", "xn--bcher-kva", "kubernetes-dashboard-staging-eu-central-1",
                             "verylongsubdomainnamewithwords", "myapp-3f2504e0-4f89-11d3-9a0c-0305e82c3301"}) {
    INFO(labels);
    CHECK(!looks_like_data(labels));
  }
  for (const char* labels : {
           "726f6f743a783a303a303a726f6f743a2f726f6f",                      // 20 bytes in hex
           "726f6f743a783a30.3a303a726f6f743a2f72.6f6f743a2f62696e",      // the same, in pieces
           "a4jb2kbthzevix3kowaixfvbvs34ftoy4pxps",                         // base32
           "a.b.c.d.e.f",
           "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",             // 49 of them
       }) {
    INFO(labels);
    CHECK(looks_like_data(labels));
  }
}

TEST_CASE("dns_guard: new names come up at a bounded rate, known ones are not held up by it") {
  using namespace std::chrono_literals;
  DnsGuard guard(50);
  auto now = TokenBucket::Time{} + 1h;
  int allowed = 0;
  for (int i = 0; i < 500; ++i) {
    const std::string label = "x" + std::to_string(i);
    if (guard.may_look_up(label + ".ok.test", label, now) == DnsGuard::Answer::kYes) ++allowed;
    now += 10ms;
  }
  CHECK(allowed >= 50);
  CHECK(allowed <= 62);
  CHECK(guard.may_look_up("x1.ok.test", "x1", now) == DnsGuard::Answer::kYes);
  CHECK(guard.may_look_up("ok.test", "", now) == DnsGuard::Answer::kYes);
}

}  // namespace
}  // namespace leash::proxy
