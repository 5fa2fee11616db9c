#include "proxy/substitution.h"

#include "oci-spec/reasons.h"
#include "proxy/base64.h"
#include "tests/unit/catch.h"

namespace leash::proxy {
namespace {

constexpr const char* kPlaceholder = "sk-fake-ZZZZZZZZZZZZZZZZ";
constexpr const char* kValue = "sk-real-0123456789abcdef";

SecretStore store(std::vector<std::string> headers, bool exclusive) {
  SecretStore secrets;
  oci::ProxySecret document;
  document.name = "API_KEY";
  document.placeholder = kPlaceholder;
  document.value = kValue;
  document.hosts = {"api.test"};
  document.headers = std::move(headers);
  document.exclusive = exclusive;
  REQUIRE(secrets.add(std::move(document)));
  return secrets;
}

struct Outcome {
  std::string refused;
  std::string head;
};

Outcome run(const std::string& lines, const std::string& host, bool is_tls, const SecretStore& secrets,
            const std::string& target = "/") {
  const std::string bytes = "GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\n" + lines + "\r\n";
  RequestHead head;
  HeadProblem problem;
  REQUIRE(parse_request_head(bytes, head, problem));
  const Substitution result = substitute(head, host, is_tls, secrets);
  Outcome outcome;
  outcome.refused = result.refused;
  size_t position = 0;
  for (const Edit& edit : result.edits) {
    outcome.head += bytes.substr(position, edit.offset - position) + edit.text;
    position = edit.offset + edit.length;
  }
  outcome.head += bytes.substr(position);
  return outcome;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("substitution: a placeholder becomes the value towards its host alone") {
  const SecretStore secrets = store({}, false);
  const std::string line = "Authorization: Bearer " + std::string(kPlaceholder) + "\r\n";
  CHECK(has(run(line, "api.test", true, secrets).head, "Authorization: Bearer " + std::string(kValue) + "\r\n"));
  CHECK(run(line, "evil.test", true, secrets).refused == oci::reason::kPlaceholderMisused);
  CHECK(run(line, "notapi.test", true, secrets).refused == oci::reason::kPlaceholderMisused);
  CHECK_FALSE(has(run(line, "evil.test", true, secrets).head, kValue));
}

TEST_CASE("substitution: never in clear text") {
  const SecretStore secrets = store({}, false);
  const Outcome outcome = run("X-Api-Key: " + std::string(kPlaceholder) + "\r\n", "api.test", false, secrets);
  CHECK(outcome.refused == oci::reason::kPlaceholderMisused);
  CHECK_FALSE(has(outcome.head, kValue));
}

TEST_CASE("substitution: basic credentials are opened and closed again") {
  const SecretStore secrets = store({}, false);
  const std::string line = "Authorization: Basic " + base64_encode("x-access-token:" + std::string(kPlaceholder)) + "\r\n";
  const std::string wanted = "Basic " + base64_encode("x-access-token:" + std::string(kValue)) + "\r\n";
  CHECK(has(run(line, "api.test", true, secrets).head, wanted));
  CHECK(run(line, "evil.test", true, secrets).refused == oci::reason::kPlaceholderMisused);
}

TEST_CASE("substitution: only in the headers that the policy lists") {
  const SecretStore secrets = store({"X-Api-Key"}, false);
  CHECK(has(run("x-api-key: " + std::string(kPlaceholder) + "\r\n", "api.test", true, secrets).head, kValue));
  CHECK_FALSE(has(run("Cookie: " + std::string(kPlaceholder) + "\r\n", "api.test", true, secrets).head, kValue));
}

TEST_CASE("substitution: a placeholder in the target of another host is refused") {
  const SecretStore secrets = store({}, false);
  CHECK(run("", "evil.test", true, secrets, "/?k=" + std::string(kPlaceholder)).refused == oci::reason::kPlaceholderMisused);
}

TEST_CASE("substitution: an exclusive host takes no other credential") {
  const SecretStore secrets = store({}, true);
  CHECK(run("x-api-key: sk-attacker\r\n", "api.test", true, secrets).refused == oci::reason::kForeignCredential);
  CHECK(run("Authorization: Basic " + base64_encode("a:b") + "\r\n", "api.test", true, secrets).refused ==
        oci::reason::kForeignCredential);
  CHECK(run("", "api.test", true, secrets, "/v1?key=AIza").refused == oci::reason::kForeignCredential);
  CHECK(run("x-api-key: " + std::string(kPlaceholder) + "\r\n", "api.test", true, secrets).refused.empty());
  CHECK(run("x-api-key: sk-attacker\r\n", "other.test", true, secrets).refused.empty());
  CHECK(run("", "api.test", true, secrets).refused.empty());
  CHECK(run("Authorization: Bearer " + std::string(kPlaceholder) + "\r\n", "api.test", true, secrets).refused.empty());
}

TEST_CASE("substitution: an exclusive host takes no other credential behind a fig leaf") {
  const std::string placeholder = kPlaceholder;
  const SecretStore any = store({}, true);
  for (const std::string& value : {"Bearer sk-attacker " + placeholder, "Bearer " + placeholder + " sk-attacker", "sk-attacker" + placeholder,
                                   "Bearer sk-attacker," + placeholder}) {
    INFO(value);
    CHECK(run("Authorization: " + value + "\r\n", "api.test", true, any).refused == oci::reason::kForeignCredential);
  }
  for (const std::string name : {"k%65y", "KEY", "%6B%65%79", "a=1&access%5Ftoken"}) {
    INFO(name);
    CHECK(run("", "api.test", true, any, "/v1?" + name + "=AIza").refused == oci::reason::kForeignCredential);
  }
  const SecretStore listed = store({"x-api-key"}, true);
  CHECK(run("Authorization: Bearer sk-attacker\r\n", "api.test", true, listed).refused == oci::reason::kForeignCredential);
}

}  // namespace leash::proxy
