#include "oci-spec/host_pattern.h"

#include "oci-spec/host_regex.h"
#include "tests/unit/catch.h"

namespace leash::oci {
namespace {

TEST_CASE("host: there is one form in which hosts are compared") {
  struct Row {
    const char* text;
    const char* expected;  // nullptr: refused
  };
  const Row rows[] = {
      {"GitHub.COM", "github.com"},
      {"github.com.", "github.com"},
      {"xn--bcher-kva.example", "xn--bcher-kva.example"},
      {"a_b.example", "a_b.example"},
      {"1.2.3.4", "1.2.3.4"},
      {"1.2.3.4.", "1.2.3.4"},
      {"[::1]", "::1"},
      {"[::FFFF:1.2.3.4]", "1.2.3.4"},
      {"::ffff:169.254.169.254", "169.254.169.254"},
      {"", nullptr},
      {".", nullptr},
      {"a..b", nullptr},
      {".a", nullptr},
      {"a.b..", nullptr},
      {"2852039166", nullptr},
      {"0xA9FEA9FE", nullptr},
      {"0251.0376.0251.0376", nullptr},
      {"127.1", nullptr},
      {"1.2.3.4.5", nullptr},
      {"foo.0x1f", nullptr},
      {"169.254.169.0xfe", nullptr},
      {"[::1", nullptr},
      {"[1.2.3.4]", nullptr},
      {"[::1%25lo]", nullptr},
      {"a b", nullptr},
      {"a/b", nullptr},
      {"a%00b", nullptr},
      {"a@b", nullptr},
      {"a:80", nullptr},
      {"b\xc3\xbc" "cher.example", nullptr},
      {"ex\xef\xbc\x8e" "ample", nullptr},  // a fullwidth dot
  };
  for (const Row& row : rows) {
    INFO(row.text);
    const auto host = normalise_host(row.text);
    if (row.expected == nullptr) {
      CHECK(!host);
    } else {
      REQUIRE(host);
      CHECK(*host == row.expected);
    }
  }
  CHECK(!normalise_host(std::string(64, 'a') + ".example"));
  CHECK(normalise_host(std::string(63, 'a') + ".example"));
  CHECK(!normalise_host(std::string_view("a\0b", 3)));
}

TEST_CASE("host: a pattern is the name and its subdomains, never a longer name that ends alike") {
  struct Row {
    const char* pattern;
    bool exact;
    const char* host;
    bool matches;
    bool names;
  };
  const Row rows[] = {
      {"github.com", false, "github.com", true, true},
      {"github.com", false, "api.github.com", true, false},
      {"github.com", false, "a.b.github.com", true, false},
      {"github.com", false, "notgithub.com", false, false},
      {"github.com", false, "github.com.evil.test", false, false},
      {"github.com", false, "com", false, false},
      {"GitHub.com.", false, "github.com", true, true},
      {"github.com", true, "github.com", true, true},
      {"github.com", true, "api.github.com", false, false},
      {"*.github.com", false, "github.com", false, false},
      {"*.github.com", false, "api.github.com", true, false},
      {"db", false, "db", true, true},
      {"10.0.0.0/8", false, "10.1.2.3", true, true},
      {"10.0.0.0/8", false, "11.1.2.3", false, false},
      {"10.0.0.0/8", false, "ten.example", false, false},
      {"1.2.3.4", false, "1.2.3.4", true, true},
      {"1.2.3.4", false, "9.1.2.3.4", false, false},
      {"fd00::/16", false, "fd00::1", true, true},
      {"[fd00::1]", false, "fd00::1", true, true},
  };
  for (const Row& row : rows) {
    INFO(row.pattern << " " << row.host);
    const auto pattern = HostPattern::parse(row.pattern, row.exact);
    REQUIRE(pattern);
    CHECK(pattern->matches(row.host) == row.matches);
    CHECK(pattern->names(row.host) == row.names);
  }
}

TEST_CASE("host: a pattern that cannot mean what it says is refused") {
  for (const char* text : {"", "*", "*.", "a.*", "*a.example", "https://a.example", "a.example:443", "a.example/x", "0.0.0.0/0",
                           "10.0.0.1/8", "*.1.2.3.4", "127.1", "b\xc3\xbc" "cher.example"}) {
    INFO(text);
    CHECK(!HostPattern::parse(text, false));
  }
  CHECK(!HostPattern::parse("*.a.example", true));
}

TEST_CASE("ignore_hosts: an expression matches whole labels up to the end, and nothing longer") {
  struct Row {
    const char* regex;
    const char* host;
    uint16_t port;
    bool matches;
  };
  const Row rows[] = {
      {R"(pinned\.example\.com)", "pinned.example.com", 443, true},
      {R"(pinned\.example\.com)", "a.pinned.example.com", 443, true},
      {R"(pinned\.example\.com)", "pinned.example.com.evil.test", 443, false},
      {R"(pinned\.example\.com)", "unpinned.example.com", 443, false},
      {R"(pinned\.example\.com)", "pinned.example.com", 80, false},
      {R"(pinned\.example\.com:8443)", "pinned.example.com", 8443, true},
      {R"(^(.+\.)?example\.com:443$)", "x.example.com", 443, true},
      {R"(^(.+\.)?example\.com:443$)", "example.com", 443, true},
      {R"(^(.+\.)?example\.com:443$)", "xexample.com", 443, false},
      {R"(^example\.com$)", "a.example.com", 443, false},
      {R"((?:a|b|cc)\d{2,3}\.example)", "cc123.example", 443, true},
      {R"((?:a|b|cc)\d{2,3}\.example)", "cc1.example", 443, false},
      {R"((?:a|b|cc)\d{2,3}\.example)", "cc1234.example", 443, false},
      {R"([a-c]+[^0-9.]?\.EXAMPLE)", "abcz.example", 443, true},
      {R"(x{0}y\.example)", "y.example", 443, true},
      {R"(x{2}\.example)", "xx.example", 443, true},
      {R"(x{2}\.example)", "x.example", 443, false},
      {R"(x{1,}?\.example)", "xxxxx.example", 443, true},
      {R"((a*)*b)", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 443, false},
      {R"((a|aa)+$)", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac", 443, false},
      {R"(.*)", "anything.example", 9999, true},
      {R"(2\.3\.4)", "1.2.3.4", 443, false},
      {R"(1\.2\.3\.4)", "1.2.3.4", 443, true},
  };
  for (const Row& row : rows) {
    INFO(row.regex << " " << row.host << ":" << row.port);
    const auto regex = HostRegex::compile(row.regex);
    REQUIRE(regex);
    CHECK(regex->matches(row.host, row.port) == row.matches);
  }
}

TEST_CASE("ignore_hosts: an expression that is not understood is refused") {
  for (const char* text : {"", "(", ")", "a)", "[", "[a", "*", "a**", "a{2", "a{3,2}", "a{999}", R"(\)", R"(\b)", R"(\1)", "(?=a)",
                           "(?i)a", "[z-a]", "[[:alpha:]]", "a{2}{3}", "(((a{255}){255}){255})", R"(\x41)"}) {
    INFO(text);
    CHECK(!HostRegex::compile(text));
  }
}

}  // namespace
}  // namespace leash::oci
