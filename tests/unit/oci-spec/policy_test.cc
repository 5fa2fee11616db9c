#include "oci-spec/policy.h"

#include "tests/unit/catch.h"

namespace leash::oci {
namespace {

std::string error_of(std::string_view text) {
  const auto policy = parse_policy("/etc/leash/policy.yaml", text);
  return policy ? "accepted" : policy.error().message();
}

TEST_CASE("policy: the three keys of older files alone make a policy") {
  const auto policy = parse_policy("p.yaml", R"(mode: observe
allow:
  - api.anthropic.com
  - github.com
ignore_hosts:
  - pinned-api\.example\.com
)");
  REQUIRE(policy);
  CHECK(policy->mode == PolicyMode::kObserve);
  REQUIRE(policy->allow.size() == 2);
  CHECK(policy->allow[1].label == "allow[1] github.com (p.yaml:4)");
  REQUIRE(policy->ignore_hosts.size() == 1);
  CHECK(policy->ignore_hosts[0].label == R"(ignore_hosts[0] pinned-api\.example\.com (p.yaml:6))");
}

TEST_CASE("policy: every key that this version enforces is read") {
  const auto policy = parse_policy("/etc/leash/policy.yaml", R"(version: 1
mode: enforce
allow:
  - api.anthropic.com
  - host: github.com
    exact: true
    methods: [GET, HEAD]
    paths: ["/torvalds/linux/**"]
  - host: db
    ports: [5432]
    inspect: false
deny:
  - host: gist.github.com
  - evil.test
ask: []
delay: []
ignore_hosts: [ 'pinned-api\.example\.com' ]
private: allow
dns:
  servers: [9.9.9.9, "2620:fe::fe"]
  rate: 20/s
secrets:
  - env: ANTHROPIC_API_KEY
    hosts: [api.anthropic.com, "*.anthropic.com"]
    headers: [X-Api-Key, authorization]
    from: container
    exclusive: true
  - env: A
    hosts: [a.example]
    from: {host-env: B}
  - env: C
    hosts: [a.example]
    from: {file: /root/key}
  - env: D
    hosts: [a.example]
    from:
      command: [/usr/bin/pass, show, key]
  - env: E
    hosts: [a.example]
    from: "host-env: F"
writes:
  default: direct
  volumes: direct
  direct: [/workspace/out]
  hide: []
syscalls:
  allow: [unshare, ptrace]
  deny: [personality]
capabilities:
  allow: [NET_RAW, CAP_SYS_PTRACE]
log:
  body_preview: 1024
  directory: /srv/logs
  max_size: 128MiB
)");
  REQUIRE(policy);
  CHECK(policy->mode == PolicyMode::kEnforce);
  REQUIRE(policy->allow.size() == 3);
  CHECK(policy->allow[1].methods == std::vector<std::string>{"GET", "HEAD"});
  CHECK(policy->allow[1].paths.at(0).text() == "/torvalds/linux/**");
  CHECK(policy->allow[1].label == "allow[1] github.com (policy.yaml:5)");
  CHECK(policy->allow[2].ports == std::vector<uint16_t>{5432});
  CHECK(!policy->allow[2].inspect);
  CHECK(policy->deny.at(1).label == "deny[1] evil.test (policy.yaml:14)");
  CHECK(policy->allow_private);
  CHECK(policy->dns.servers.size() == 2);
  CHECK(policy->dns.rate_per_second == 20);
  REQUIRE(policy->secrets.size() == 5);
  CHECK(policy->secrets[0].headers == std::vector<std::string>{"x-api-key", "authorization"});
  CHECK(policy->secrets[0].exclusive);
  CHECK(policy->secrets[0].is_for("api.anthropic.com"));
  CHECK(policy->secrets[0].is_for("x.anthropic.com"));
  CHECK(!policy->secrets[0].is_for("anthropic.com"));
  CHECK(!policy->secrets[1].is_for("b.a.example"));
  CHECK(policy->secrets[1].source == PolicySecret::Source::kHostEnv);
  CHECK(policy->secrets[1].source_name == "B");
  CHECK(policy->secrets[2].source == PolicySecret::Source::kFile);
  CHECK(policy->secrets[2].source_name == "/root/key");
  CHECK(policy->secrets[3].command == std::vector<std::string>{"/usr/bin/pass", "show", "key"});
  CHECK(policy->secrets[4].source_name == "F");
  CHECK(policy->syscalls_allow == std::vector<std::string>{"unshare", "ptrace"});
  CHECK(policy->syscalls_deny == std::vector<std::string>{"personality"});
  CHECK(policy->capabilities_allow == std::vector<std::string>{"NET_RAW", "SYS_PTRACE"});
  CHECK(policy->log.body_preview == 1024);
  CHECK(policy->log.directory == "/srv/logs");
  CHECK(policy->log.max_size == uint64_t{128} << 20);
}

TEST_CASE("policy: an empty file allows nothing") {
  for (const char* text : {"", "# nothing\n", "allow:\n", "{}"}) {
    const auto policy = parse_policy("p", text);
    REQUIRE(policy);
    CHECK(policy->mode == PolicyMode::kEnforce);
    CHECK(policy->allow.empty());
    CHECK(!policy->allow_private);
  }
}

TEST_CASE("policy: a mistake is an error with file, line and column") {
  struct Row {
    const char* text;
    const char* error;  // begins so, after the file's name
  };
  const Row rows[] = {
      {"modus: enforce\n", ":1:1: unknown key 'modus': expected one of version, mode, allow"},
      {"mode: enforced\n", ":1:7: expected enforce or observe, found 'enforced'"},
      {"mode: [enforce]\n", ":1:7: expected enforce or observe, found a list"},
      {"mode:\n", ":1:1: expected enforce or observe, found nothing"},
      {"version: 2\n", ":1:10: expected version 1, found '2'"},
      {"version: \"1\"\n", ":1:10: expected version 1"},
      {"- a\n", ":1:1: expected a map of policy keys"},
      {"hello\n", ":1:1: expected a map of policy keys"},
      {"allow: a.example\n", ":1:8: expected a list of hosts, found 'a.example'"},
      {"allow: {host: a}\n", ":1:8: expected a list of hosts, found a map"},
      {"allow:\n  - \"\"\n", ":2:5: expected a host, found an empty string"},
      {"allow:\n  -\n", ":2:3: expected a host, or a map with 'host', found nothing"},
      {"allow:\n  - host: \"\"\n", ":2:11: expected a host, found an empty string"},
      {"allow:\n  - exact: true\n", ":2:5: expected 'host' in this rule"},
      {"allow:\n  - host: a.example\n    excat: true\n", ":3:5: unknown key 'excat': expected one of host, exact, ports"},
      {"allow:\n  - host: a.example\n    exact: yes\n", ":3:12: expected true or false, found 'yes'"},
      {"allow:\n  - host: a.example\n    exact: \"true\"\n", ":3:12: expected true or false"},
      {"allow:\n  - host: a.example\n    ports: 443\n", ":3:12: expected a list of ports that is not empty"},
      {"allow:\n  - host: a.example\n    ports: [0]\n", ":3:13: expected a number from 1 to 65535, found '0'"},
      {"allow:\n  - host: a.example\n    ports: [65536]\n", ":3:13: expected a number"},
      {"allow:\n  - host: a.example\n    ports: [\"443\"]\n", ":3:13: expected a number"},
      {"allow:\n  - host: a.example\n    ports: [4e2]\n", ":3:13: expected a number"},
      {"allow:\n  - host: a.example\n    methods: [get]\n", ":3:15: expected a method in upper case"},
      {"allow:\n  - host: a.example\n    methods: []\n", ":3:14: expected a list of methods that is not empty"},
      {"allow:\n  - host: a.example\n    paths: [x]\n", ":3:13: expected a path that starts with '/': 'x'"},
      {"allow:\n  - host: a.example\n    paths: [/x/../y]\n", ":3:13: a path of a rule must be in its plain form"},
      {"allow:\n  - host: a.example\n    inspect: false\n    methods: [GET]\n", ":3:14: 'inspect: false' cannot be combined"},
      {"allow:\n  - https://a.example/\n", ":2:5: expected a host, not a URL: 'https://a.example/'"},
      {"allow:\n  - a.example:8080\n", ":2:5: expected a host without a port"},
      {"allow:\n  - \"*\"\n", ":2:5: expected a host: '*' alone would allow everything"},
      {"allow:\n  - b\xc3\xbc" "cher.example\n", ":2:5: host name is not ASCII: write it in its xn-- form"},
      {"deny:\n  - host: a.example\n    inspect: false\n", ":3:5: unknown key 'inspect'"},
      {"ask:\n  - a.example\n", ":2:5: 'ask' is not available in this version of leash"},
      {"ask:\n  - host: a.example\n    timeout: soon\n", ":3:14: expected a duration such as 300ms"},
      {"delay:\n  - host: a.example\n    for: 300ms\n", ":2:5: 'delay' is not available in this version of leash"},
      {"delay:\n  - host: a.example\n", ":2:5: expected 'for' in this rule"},
      {"ignore_hosts: ['(']\n", ":1:16: bad regex has a '(' without ')': '('"},
      {"ignore_hosts: [1, [2]]\n", ":1:19: expected a regex, found a list"},
      {"private: maybe\n", ":1:10: expected deny or allow"},
      {"dns: {servers: host}\n", ":1:16: expected container, or a list of addresses"},
      {"dns: {servers: [127.0.0.1]}\n", ":1:17: expected the address of a DNS server"},
      {"dns: {rate: 50}\n", ":1:13: expected a rate such as 50/s"},
      {"secrets:\n  - env: A\n", ":2:5: expected 'hosts' in this secret"},
      {"secrets:\n  - hosts: [a]\n", ":2:5: expected 'env' in this secret"},
      {"secrets:\n  - env: A B\n    hosts: [a]\n", ":2:10: expected the name of an environment variable"},
      {"secrets:\n  - {env: A, hosts: [a]}\n  - {env: A, hosts: [b]}\n", ":3:11: a second secret for 'A' (first on line 2)"},
      {"secrets:\n  - {env: A, hosts: [a], headers: [host]}\n", ":2:36: a secret cannot be put into the header 'host'"},
      {"secrets:\n  - {env: A, hosts: [a], from: vault}\n", ":2:32: expected container, {host-env: NAME}"},
      {"secrets:\n  - {env: A, hosts: [a], from: {file: key}}\n", ":2:39: expected an absolute path"},
      {"secrets:\n  - {env: A, hosts: [a], from: {command: [pass]}}\n", ":2:42: expected a command that starts with an absolute path"},
      {"writes: {default: overlay}\n", ":1:19: 'writes.default: overlay' is not available in this version of leash"},
      {"writes: {default: readonly}\n", ":1:19: 'writes.default: readonly' is not available"},
      {"writes: {volumes: overlay}\n", ":1:19: 'writes.volumes: overlay' is not available"},
      {"writes: {hide: [.env]}\n", ":1:16: 'writes.hide' is not available"},
      {"writes: {direct: [out]}\n", ":1:19: expected an absolute container path"},
      {"monitor: {rules: default}\n", ":1:18: 'monitor' is not available"},
      {"syscalls: {allow: [\"a b\"]}\n", ":1:20: expected the name of a system call"},
      {"capabilities: {allow: [net_raw]}\n", ":1:24: expected the name of a capability"},
      {"log: {max_size: 64}\n", ":1:17: expected a size such as 64MiB"},
      {"log: {body_preview: 1MiB}\n", ":1:21: expected a number from 0 to 1536"},
      {"log: {directory: logs}\n", ":1:18: expected default, or an absolute path"},
      {"mode: enforce\nallow: []\nmode: observe\n", ":3:1: duplicate key 'mode' (first on line 1)"},
      {"allow:\n  - host: a\n    host: b\n", ":3:5: duplicate key 'host' (first on line 2)"},
      {"allow: &x [a]\n", ":1:8: anchors ('&name') are not accepted"},
      {"allow: &x [a]\ndeny: *x\n", ":1:8: anchors ('&name') are not accepted"},
      {"allow: !!set [a]\n", ":1:8: tags"},
      {"allow:\n\t- a\n", ":2:2: "},
      {"allow: [a\n", ":2:1: "},
      {"allow: \"a\n", ":1:8: "},
      {"allow: []\n---\nallow: []\n", ":1:1: expected one YAML document, found a second"},
      {"? [a]\n: b\n", ":1:3: expected a key, found a list"},
      {"allow: [\"a\x01\"]\n", ":1:11: control character"},
      {"allow: [\"\xff\"]\n", ":1:10: expected UTF-8"},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    const std::string error = error_of(row.text);
    const std::string expected = std::string("/etc/leash/policy.yaml") + row.error;
    CHECK(error.substr(0, expected.size()) == expected);
  }
}

TEST_CASE("policy: input made to exhaust the parser is refused") {
  CHECK(error_of(std::string((size_t{256} << 10) + 1, ' ')).find("larger than 256 KiB") != std::string::npos);
  CHECK(error_of("allow: " + std::string(5000, '[')) != "accepted");
  CHECK(error_of("a: &a [x,x,x]\nb: &b [*a,*a,*a]\nc: &c [*b,*b,*b]\n") != "accepted");
  std::string many = "allow:\n";
  for (int i = 0; i < 25000; ++i) many += " - a\n";
  CHECK(error_of(many).find("too many values") != std::string::npos);
}

TEST_CASE("policy: the built-in profile holds the hosts and keys of the four agents") {
  const auto policy = parse_policy(std::string(kBuiltInSource), built_in_policy());
  REQUIRE(policy);
  CHECK(policy->mode == PolicyMode::kEnforce);
  std::vector<std::string> names;
  for (const auto& secret : policy->secrets) names.push_back(secret.env);
  CHECK(names == std::vector<std::string>{"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY",
                                          "XAI_API_KEY", "GITHUB_TOKEN"});
  for (const char* host : {"api.anthropic.com", "api.openai.com", "chatgpt.com", "generativelanguage.googleapis.com", "api.x.ai"}) {
    INFO(host);
    bool named = false;
    for (const auto& rule : policy->allow) named = named || rule.host.names(host);
    CHECK(named);
  }
}

}  // namespace
}  // namespace leash::oci
