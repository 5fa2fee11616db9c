#include "cli/explain.h"

#include "tests/unit/catch.h"

using namespace leash;

namespace {

oci::Policy policy(const std::string& text) {
  auto parsed = oci::parse_policy("policy.yaml", text);
  if (!parsed) FAIL(parsed.error().message());
  return *parsed;
}

cli::Url url(const std::string& text) {
  auto parsed = cli::parse_url(text);
  if (!parsed) FAIL(parsed.error().message());
  return *parsed;
}

const char* const kPolicy = R"(allow:
  - api.example.com
  - host: github.com
    exact: true
    methods: [GET, HEAD]
    paths: ["/torvalds/**"]
deny:
  - host: gist.github.com
ignore_hosts:
  - pinned\.example\.com
)";

}  // namespace

TEST_CASE("explain: a URL is taken apart as the proxy sees it") {
  const cli::Url full = url("https://API.example.com:8443/a/b?c=d#e");
  CHECK(full.scheme == "https");
  CHECK(full.host == "api.example.com");
  CHECK(full.port == 8443);
  CHECK(full.target == "/a/b?c=d");
  CHECK(url("http://x.test").port == 80);
  CHECK(url("http://x.test").target == "/");
  CHECK(url("x.test/path").port == 443);
  CHECK(url("https://x.test?q").target == "/?q");
  CHECK(url("https://[2001:db8::1]:444/").host == "2001:db8::1");
  CHECK(url("https://[2001:db8::1]:444/").port == 444);
  CHECK(url("x.test/?next=http://y.test/").host == "x.test");
  for (const char* bad : {"ftp://x.test/", "https://user@x.test/", "https:///x", "https://x.test:0/", "https://x.test:99999/",
                          "https://[::1/", "https://2130706433/", "https://x..test/"}) {
    CAPTURE(bad);
    CHECK_FALSE(cli::parse_url(bad));
  }
}

TEST_CASE("explain: an allowed request names the rule that allows it") {
  const auto explanation = cli::explain(policy(kPolicy), "GET", url("https://github.com/torvalds/linux"));
  CHECK(explanation.allowed);
  CHECK(explanation.text.find("verdict    allowed by allow[1] github.com (policy.yaml:3)\n") != std::string::npos);
}

TEST_CASE("explain: a refused request says at which step, why, and what to do") {
  struct Case {
    const char* method;
    const char* url;
    const char* step;
    const char* reason;
  };
  const Case example = GENERATE(Case{"GET", "https://evil.test/", "name       blocked: ", "host_not_allowed"},
                                Case{"GET", "https://gist.github.com/", "name       blocked: ", "host_"},
                                Case{"POST", "https://github.com/torvalds/linux", "content    blocked: ", "method_not_allowed"},
                                Case{"GET", "https://github.com/other", "content    blocked: ", "path_not_allowed"},
                                Case{"GET", "https://github.com:8443/torvalds/x", "connection blocked: ", "port_not_allowed"});
  const auto explanation = cli::explain(policy(kPolicy), example.method, url(example.url));
  CAPTURE(explanation.text);
  CHECK_FALSE(explanation.allowed);
  CHECK(explanation.text.find(std::string(example.step) + example.reason) != std::string::npos);
  CHECK(explanation.text.find("\nverdict    blocked") != std::string::npos);
  CHECK(explanation.text.find("\nadvice     ") != std::string::npos);
}

TEST_CASE("explain: a tunnelled host is said to be passed without inspection") {
  const auto explanation = cli::explain(policy(kPolicy), "DELETE", url("https://pinned.example.com/x"));
  CAPTURE(explanation.text);
  CHECK(explanation.allowed);
  CHECK(explanation.text.find("passed on without inspection (ignore_hosts)") != std::string::npos);
}

TEST_CASE("explain: observe mode allows and says what enforce would do") {
  const auto explanation = cli::explain(policy(std::string("mode: observe\n") + kPolicy), "GET", url("https://evil.test/"));
  CAPTURE(explanation.text);
  CHECK(explanation.allowed);
  CHECK(explanation.text.find("enforce mode would block") != std::string::npos);
  CHECK(explanation.text.find("verdict    blocked") == std::string::npos);
}
