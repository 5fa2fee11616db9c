#include "oci-spec/rules.h"

#include "tests/unit/catch.h"

namespace leash::oci {
namespace {

Policy policy_of(std::string_view text) {
  auto policy = parse_policy("p.yaml", text);
  if (!policy) FAIL(policy.error().message());
  return std::move(policy).value();
}

constexpr std::string_view kRules = R"(
allow:
  - ok.test
  - {host: exact.test, exact: true}
  - {host: read.test, methods: [GET, HEAD]}
  - {host: paths.test, paths: ["/pub/**", "/one"]}
  - {host: both.test, methods: [GET], paths: ["/v1/*"]}
  - {host: both.test, methods: [POST], paths: ["/v1/messages"]}
  - {host: dav.test, methods: [PROPFIND, QUERY]}
  - {host: port.test, ports: [8443]}
  - {host: db, ports: [5432], inspect: false}
  - {host: raw.ok.test, inspect: false}
  - 198.51.100.0/24
  - {host: 10.9.0.5, ports: [80]}
  - "*.wild.test"
  - big.test
deny:
  - secret.ok.test
  - {host: big.test, paths: ["/admin/**"]}
  - {host: big.test, methods: [DELETE]}
  - {host: ok.test, ports: [8080]}
ignore_hosts:
  - pinned\.test
  - big\.test
)";

struct RequestRow {
  const char* method;
  const char* host;
  uint16_t port;
  const char* target;
  std::string_view reason;  // empty: allowed
  const char* override_method = "";
};

const RequestRow kRequests[] = {
    {"GET", "ok.test", 443, "/", ""},
    {"POST", "a.ok.test", 80, "/x?y", ""},
    {"GET", "evil.test", 443, "/", reason::kHostNotAllowed},
    {"GET", "notok.test", 443, "/", reason::kHostNotAllowed},
    {"GET", "ok.test.evil.test", 443, "/", reason::kHostNotAllowed},
    {"GET", "secret.ok.test", 443, "/", reason::kHostDenied},
    {"GET", "x.secret.ok.test", 443, "/", reason::kHostDenied},
    {"GET", "exact.test", 443, "/", ""},
    {"GET", "a.exact.test", 443, "/", reason::kHostNotAllowed},
    {"GET", "wild.test", 443, "/", reason::kHostNotAllowed},
    {"GET", "a.wild.test", 443, "/", ""},
    {"GET", "ok.test", 8443, "/", reason::kPortNotAllowed},
    {"GET", "ok.test", 8080, "/", reason::kHostDenied},
    {"GET", "port.test", 8443, "/", ""},
    {"GET", "port.test", 443, "/", reason::kPortNotAllowed},
    // 29: methods
    {"get", "ok.test", 443, "/", reason::kMethodNotAllowed},
    {"Get", "read.test", 443, "/", reason::kMethodNotAllowed},
    {"PROPFIND", "ok.test", 443, "/", reason::kMethodNotAllowed},
    {"QUERY", "ok.test", 443, "/", reason::kMethodNotAllowed},
    {"TRACE", "ok.test", 443, "/", reason::kMethodNotAllowed},
    {"CONNECT", "ok.test", 443, "/", reason::kMethodNotAllowed},
    {"PROPFIND", "dav.test", 443, "/", ""},
    {"GET", "dav.test", 443, "/", reason::kMethodNotAllowed},
    {"HEAD", "read.test", 443, "/", ""},
    {"POST", "read.test", 443, "/", reason::kMethodNotAllowed},
    {"POST", "ok.test", 443, "/", "", "DELETE"},
    {"GET", "read.test", 443, "/", reason::kMethodNotAllowed, "DELETE"},
    {"GET", "read.test", 443, "/", reason::kMethodNotAllowed, "delete"},
    {"GET", "read.test", 443, "/", "", "HEAD"},
    {"POST", "ok.test", 443, "/", reason::kMethodNotAllowed, "PROPFIND"},
    {"POST", "big.test", 443, "/", reason::kMethodNotAllowed, "delete"},
    {"DELETE", "big.test", 443, "/", reason::kMethodNotAllowed},
    {"delete", "big.test", 443, "/", reason::kMethodNotAllowed},
    // 28: paths
    {"GET", "paths.test", 443, "/pub", ""},
    {"GET", "paths.test", 443, "/pub/", ""},
    {"GET", "paths.test", 443, "/pub/a/b?c=/../", ""},
    {"GET", "paths.test", 443, "/one", ""},
    {"GET", "paths.test", 443, "/one/", ""},
    {"GET", "paths.test", 443, "/one/two", reason::kPathNotAllowed},
    {"GET", "paths.test", 443, "/", reason::kPathNotAllowed},
    {"GET", "paths.test", 443, "/PUB/a", reason::kPathNotAllowed},
    {"GET", "paths.test", 443, "/pub/%2e%2e/admin", reason::kAmbiguousPath},
    {"GET", "paths.test", 443, "/pub/../admin", reason::kAmbiguousPath},
    {"GET", "paths.test", 443, "/pub//admin", reason::kAmbiguousPath},
    {"GET", "paths.test", 443, "/pub/..;/admin", reason::kAmbiguousPath},
    {"GET", "paths.test", 443, "/pub/%2561dmin", reason::kAmbiguousPath},
    {"GET", "paths.test", 443, "/pub/admin%00", reason::kAmbiguousPath},
    {"GET", "paths.test", 443, "/pub\\..\\admin", reason::kAmbiguousPath},
    {"GET", "paths.test", 443, "/pub/a%2fb", reason::kAmbiguousPath},
    {"GET", "ok.test", 443, "/@scope%2fname", ""},  // no path rule: the path decides nothing
    {"GET", "big.test", 443, "/admin", reason::kPathNotAllowed},
    {"GET", "big.test", 443, "/admin/", reason::kPathNotAllowed},
    {"GET", "big.test", 443, "/%61dmin/x", reason::kPathNotAllowed},
    {"GET", "big.test", 443, "/ADMIN/x", reason::kPathNotAllowed},
    {"GET", "big.test", 443, "/pub/../admin/x", reason::kAmbiguousPath},
    {"GET", "big.test", 443, "//admin", reason::kAmbiguousPath},
    {"GET", "big.test", 443, "/administrator", ""},
    {"GET", "both.test", 443, "/v1/models", ""},
    {"POST", "both.test", 443, "/v1/messages", ""},
    {"POST", "both.test", 443, "/v1/files", reason::kPathNotAllowed},
    {"PUT", "both.test", 443, "/v1/messages", reason::kMethodNotAllowed},
    // 17: addresses as hosts
    {"GET", "169.254.169.254", 80, "/latest/meta-data/", reason::kPrivateAddress},
    {"GET", "100.100.100.200", 80, "/", reason::kPrivateAddress},
    {"GET", "fd00:ec2::254", 80, "/", reason::kPrivateAddress},
    {"GET", "203.0.113.9", 443, "/", reason::kHostNotAllowed},
    {"GET", "198.51.100.7", 443, "/", ""},
    {"GET", "10.9.0.5", 80, "/", ""},
    {"GET", "10.9.0.5", 443, "/", reason::kPortNotAllowed},
};

TEST_CASE("rules: a request is allowed exactly when a rule covers host, port, method and path") {
  const Policy policy = policy_of(kRules);
  for (const RequestRow& row : kRequests) {
    INFO(row.method << " " << row.host << ":" << row.port << row.target << " " << row.override_method);
    RequestFacts facts;
    facts.method = row.method;
    facts.host = row.host;
    facts.port = row.port;
    facts.target = row.target;
    facts.method_override = row.override_method;
    const Verdict verdict = judge_request(policy, facts);
    CHECK(verdict.reason == row.reason);
    CHECK(verdict.allowed == row.reason.empty());
    CHECK(!verdict.observed);
    if (!verdict.allowed) CHECK(!verdict.advice.empty());
    if (verdict.allowed) CHECK(!verdict.rule.empty());
  }
}

TEST_CASE("rules: observe mode allows every miss and marks it, with the reason enforce would have given") {
  const Policy policy = policy_of("mode: observe\n" + std::string(kRules));
  for (const RequestRow& row : kRequests) {
    INFO(row.method << " " << row.host << ":" << row.port << row.target);
    RequestFacts facts;
    facts.method = row.method;
    facts.host = row.host;
    facts.port = row.port;
    facts.target = row.target;
    facts.method_override = row.override_method;
    const Verdict verdict = judge_request(policy, facts);
    CHECK(verdict.allowed);
    CHECK(verdict.observed == !row.reason.empty());
    CHECK(verdict.reason == row.reason);
  }
}

TEST_CASE("rules: a header that names another path is refused where paths matter, and only there") {
  const Policy policy = policy_of("allow:\n  - ok.test\n  - host: narrow.test\n    paths: [/pub/**]\n");
  RequestFacts facts;
  facts.method = "GET";
  facts.port = 443;
  facts.target = "/pub/a";
  facts.overrides_path = true;
  facts.host = "narrow.test";
  CHECK(judge_request(policy, facts).reason == reason::kAmbiguousPath);
  facts.host = "ok.test";
  CHECK(judge_request(policy, facts).allowed);
}

TEST_CASE("rules: an upgrade is refused where the request itself is allowed") {
  const Policy policy = policy_of(kRules);
  RequestFacts facts;
  facts.method = "GET";
  facts.host = "ok.test";
  facts.port = 443;
  facts.target = "/ws";
  facts.is_upgrade = true;
  CHECK(judge_request(policy, facts).reason == reason::kUpgradeNotAllowed);
}

TEST_CASE("rules: a connection is tunnelled only where nothing would have to be judged inside") {
  const Policy policy = policy_of(std::string(kRules) + R"(  - read\.test
  - ok\.test
)");
  struct Row {
    const char* host;
    uint16_t port;
    std::string_view reason;
    bool inspect;
    std::string_view pass_reason;
  };
  const Row rows[] = {
      {"exact.test", 443, "", true, ""},
      {"ok.test", 443, "", false, pass_reason::kIgnoreHosts},
      {"ok.test", 80, "", true, ""},  // ignore_hosts is for TLS
      {"pinned.test", 443, "", false, pass_reason::kIgnoreHosts},
      {"pinned.test", 80, reason::kHostNotAllowed, true, ""},
      {"pinned.test.evil.test", 443, reason::kHostNotAllowed, true, ""},
      {"secret.ok.test", 443, reason::kHostDenied, true, ""},  // deny wins over ignore_hosts
      {"read.test", 443, reason::kNeedsInspection, true, ""},
      {"big.test", 443, reason::kNeedsInspection, true, ""},
      {"raw.ok.test", 80, "", false, pass_reason::kInspectFalse},
      {"x.raw.ok.test", 80, "", false, pass_reason::kInspectFalse},
      {"db", 5432, "", false, pass_reason::kInspectFalse},
      {"db", 443, reason::kPortNotAllowed, true, ""},
      {"evil.test", 443, reason::kHostNotAllowed, true, ""},
      {"169.254.169.254", 80, reason::kPrivateAddress, true, ""},
  };
  for (const Row& row : rows) {
    INFO(row.host << ":" << row.port);
    const Verdict verdict = judge_connect(policy, row.host, row.port);
    CHECK(verdict.reason == row.reason);
    CHECK(verdict.allowed == row.reason.empty());
    CHECK(verdict.inspect == row.inspect);
    CHECK(verdict.pass_reason == row.pass_reason);
  }
}

TEST_CASE("rules: a connection without a name is judged by its address, or by what DNS answered with it") {
  const Policy policy = policy_of(kRules);
  struct Row {
    const char* address;
    uint16_t port;
    std::vector<std::string> names;
    std::string_view reason;
    const char* name;
  };
  const Row rows[] = {
      {"203.0.113.9", 443, {}, reason::kNoName, ""},
      {"203.0.113.9", 443, {"ok.test"}, reason::kNoName, ""},  // must come from the SNI: the address may be shared
      {"203.0.113.9", 443, {"pinned.test"}, reason::kNoName, ""},
      {"203.0.113.9", 443, {"ok.test", "raw.ok.test"}, "", "raw.ok.test"},
      {"172.18.0.3", 5432, {"db"}, "", "db"},
      {"::ffff:172.18.0.3", 5432, {"db"}, "", "db"},
      {"172.18.0.3", 5432, {}, reason::kPrivateAddress, ""},
      {"172.18.0.3", 22, {"db"}, reason::kPrivateAddress, ""},
      {"198.51.100.7", 80, {}, "", "198.51.100.7"},
      {"198.51.100.7", 22, {}, reason::kPortNotAllowed, ""},
      {"169.254.169.254", 80, {}, reason::kPrivateAddress, ""},
      {"203.0.113.9", 443, {"secret.ok.test"}, reason::kHostDenied, ""},
  };
  for (const Row& row : rows) {
    INFO(row.address << ":" << row.port);
    std::string name = "left over";
    const Verdict verdict = judge_plain(policy, row.names, *parse_ip(row.address), row.port, &name);
    CHECK(verdict.reason == row.reason);
    CHECK(verdict.allowed == row.reason.empty());
    CHECK(name == row.name);
  }
}

TEST_CASE("rules: an address that is not public needs a rule that names the host or the network") {
  const Policy strict = policy_of(R"(
allow: [ok.test, db, "*.corp.test", 10.9.0.0/16, 169.254.170.2]
deny: [10.9.1.0/24]
)");
  struct Row {
    const char* host;
    const char* address;
    bool allowed;
  };
  const Row rows[] = {
      {"ok.test", "203.0.113.9", true},
      {"ok.test", "10.0.0.1", true},       // names that host
      {"a.ok.test", "10.0.0.1", false},    // names its parent
      {"a.corp.test", "10.0.0.1", false},
      {"a.corp.test", "10.9.0.1", true},   // names that network
      {"a.corp.test", "10.9.1.1", false},  // denied network
      {"ok.test", "10.9.1.1", false},
      {"db", "172.18.0.3", true},
      {"ok.test", "169.254.169.254", false},
      {"ok.test", "::ffff:169.254.169.254", false},
      {"ok.test", "64:ff9b::a9fe:a9fe", false},
      {"ok.test", "169.254.170.2", true},
      {"ok.test", "169.254.3.4", false},
      {"ok.test", "127.0.0.1", false},
      {"ok.test", "0.0.0.0", false},
      {"ok.test", "::1", false},
      {"ok.test", "ff02::1", false},
      {"169.254.170.2", "169.254.170.2", true},
      {"10.0.0.1", "10.0.0.1", false},
  };
  for (const Row& row : rows) {
    INFO(row.host << " " << row.address);
    CHECK(judge_address(strict, row.host, *parse_ip(row.address)).allowed == row.allowed);
  }
  const Policy open = policy_of("private: allow\nallow: [ok.test]\n");
  CHECK(judge_address(open, "a.ok.test", *parse_ip("10.0.0.1")).allowed);
  CHECK(!judge_address(open, "a.ok.test", *parse_ip("127.0.0.1")).allowed);
  const Policy observing = policy_of("mode: observe\n");
  CHECK(judge_address(observing, "x.test", *parse_ip("10.0.0.1")).observed);
  CHECK(!judge_address(observing, "x.test", *parse_ip("127.0.0.1")).allowed);
}

TEST_CASE("rules: a name is resolved if any rule could allow something there") {
  const Policy policy = policy_of(kRules);
  for (const char* host : {"ok.test", "a.ok.test", "db", "pinned.test", "big.test", "paths.test", "port.test"}) {
    INFO(host);
    CHECK(judge_name(policy, host).allowed);
  }
  for (const char* host : {"evil.test", "secret.ok.test", "a.exact.test", "wild.test", "test", "pinned.test.evil.test"}) {
    INFO(host);
    CHECK(!judge_name(policy, host).allowed);
  }
  CHECK(is_named(policy, "ok.test"));
  CHECK(!is_named(policy, "a.ok.test"));
}

TEST_CASE("rules: the labels that no rule spells out are known") {
  const Policy policy = policy_of(kRules);
  CHECK(free_labels(policy, "ok.test").empty());
  CHECK(free_labels(policy, "a.b.ok.test") == "a.b");
  CHECK(free_labels(policy, "a.raw.ok.test") == "a");
  CHECK(free_labels(policy, "a.wild.test") == "a");
  CHECK(free_labels(policy, "db").empty());
  CHECK(free_labels(policy, "a.b.pinned.test") == "a.b");
  CHECK(free_labels(policy, "pinned.test").empty());
}

TEST_CASE("rules: the built-in profile lets git read and not write") {
  const Policy policy = policy_of(built_in_policy());
  const auto reason_of = [&](const char* method, const char* host, const char* target) {
    RequestFacts facts;
    facts.method = method;
    facts.host = host;
    facts.port = 443;
    facts.target = target;
    return judge_request(policy, facts).reason;
  };
  CHECK(reason_of("GET", "github.com", "/o/r.git/info/refs?service=git-upload-pack").empty());
  CHECK(reason_of("POST", "github.com", "/o/r.git/git-upload-pack").empty());
  CHECK(reason_of("POST", "github.com", "/o/r.git/git-receive-pack") == reason::kPathNotAllowed);
  CHECK(reason_of("POST", "api.github.com", "/gists") == reason::kMethodNotAllowed);
  CHECK(reason_of("POST", "api.anthropic.com", "/v1/messages").empty());
  CHECK(reason_of("GET", "gist.github.com", "/") == reason::kHostNotAllowed);
}

TEST_CASE("rules: a secret goes to its host and to no other") {
  const std::vector<std::string> hosts = {"api.anthropic.com", "*.example.com"};
  CHECK(is_secret_for(hosts, "api.anthropic.com"));
  CHECK(!is_secret_for(hosts, "x.api.anthropic.com"));
  CHECK(is_secret_for(hosts, "a.example.com"));
  CHECK(!is_secret_for(hosts, "example.com"));
  CHECK(!is_secret_for(hosts, "ok.test"));
}

TEST_CASE("rules: a port is ruled if some rule could let it pass") {
  const Policy policy = parse_policy("p", "allow: [a.test, {host: db.test, ports: [5432], inspect: false}]").value();
  CHECK(is_ruled_port(policy, 443));
  CHECK(is_ruled_port(policy, 80));
  CHECK(is_ruled_port(policy, 5432));
  CHECK(!is_ruled_port(policy, 22));
}

TEST_CASE("reasons: every word has a meaning, once") {
  for (const ReasonWord& entry : kReasonWords) {
    INFO(entry.word);
    CHECK(!entry.meaning.empty());
    CHECK(find_reason(entry.word) == &entry);
  }
}

}  // namespace
}  // namespace leash::oci
