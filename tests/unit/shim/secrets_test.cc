#include "shim/secrets.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "base/file.h"
#include "oci-spec/policy.h"
#include "tests/unit/catch.h"

using namespace leash;

namespace {

constexpr const char* kClaudeKey =
    "sk-ant-api03-Qm4xT9vLr2HsWz8KjPdYc6NbGf1uEa7oXi3ClVtRqMy5SnBhZw0DkJgUeIpAfO-T8rWvXyLsQzHbNcMjKdFg_AA";

shim::SecretStore store(const std::string& secrets) {
  auto policy = oci::parse_policy("test.yaml", "allow: [api.example.com]\nsecrets:\n" + secrets);
  if (!policy) FAIL(policy.error().message());
  auto made = shim::SecretStore::create(policy->secrets);
  if (!made) FAIL(made.error().message());
  return std::move(made).value();
}

shim::SecretStore::Hidden hide(shim::SecretStore& from, const std::vector<std::string>& env) {
  auto hidden = from.hide(env);
  if (!hidden) FAIL(hidden.error().message());
  return std::move(hidden).value();
}

bool mentions(const std::vector<std::string>& env, const std::string& value) {
  return std::any_of(env.begin(), env.end(), [&](const std::string& entry) { return entry.find(value) != std::string::npos; });
}

const std::string kOneKey = "  - env: ANTHROPIC_API_KEY\n    hosts: [api.anthropic.com]\n    headers: [x-api-key]\n    exclusive: true\n";

}  // namespace

TEST_CASE("secrets: the real value leaves the environment and nothing else changes") {
  auto secrets = store(kOneKey);
  const std::vector<std::string> env = {"PATH=/bin", std::string("ANTHROPIC_API_KEY=") + kClaudeKey, "HOME=/root", "ODD"};
  const auto hidden = hide(secrets, env);
  REQUIRE(hidden.env.size() == env.size());
  CHECK_FALSE(mentions(hidden.env, kClaudeKey));
  CHECK(hidden.env[0] == env[0]);
  CHECK(hidden.env[2] == env[2]);
  CHECK(hidden.env[3] == env[3]);
  REQUIRE(hidden.added.size() == 1);
  const oci::ProxySecret& secret = hidden.added[0];
  CHECK(hidden.env[1] == "ANTHROPIC_API_KEY=" + secret.placeholder);
  CHECK(secret.name == "ANTHROPIC_API_KEY");
  CHECK(secret.value == kClaudeKey);
  CHECK(secret.hosts == std::vector<std::string>{"api.anthropic.com"});
  CHECK(secret.headers == std::vector<std::string>{"x-api-key"});
  CHECK(secret.exclusive);
  CHECK(secrets.secrets().size() == 1);
}

TEST_CASE("secrets: a variable that the policy does not name stays as it is") {
  auto secrets = store(kOneKey);
  const std::vector<std::string> env = {"OTHER_KEY=sk-1234567890abcdef1234567890", "ANTHROPIC_API_KEY_2=x"};
  CHECK(hide(secrets, env).env == env);
  CHECK(secrets.secrets().empty());
}

TEST_CASE("secrets: an empty value is no secret") {
  auto secrets = store(kOneKey);
  const std::vector<std::string> env = {"ANTHROPIC_API_KEY=", "A=b"};
  CHECK(hide(secrets, env).env == env);
}

TEST_CASE("secrets: a placeholder has its key's prefix, length and alphabet") {
  const std::string value = GENERATE(
      std::string(kClaudeKey), std::string("sk-proj-Ab3dEf6hIj9lMn2pQr5tUv8xYz1BcD4fGh7jKl0nOp"),
      std::string("AIzaSyD3xQ9mKz7LwPv1RtYb8NcHj4FgUeXoIaS"), std::string("ghp_aB3dE6fG9hI2jK5lM8nO1pQ4rS7tU0vW3xYz"),
      std::string("github_pat_11ABCDEFG0aBcDeFgHiJkL_mNoPqRsTuVwXyZ0123456789aBcDeFgHiJkLmNoPqRsTuVwXyZ01234"),
      std::string("xai-0123456789abcdefghijABCDEFGHIJ"), std::string("0123456789abcdef0123456789abcdef"));
  auto placeholder = shim::make_placeholder(value);
  REQUIRE(placeholder);
  CAPTURE(value, *placeholder);
  CHECK(placeholder->size() == value.size());
  CHECK(*placeholder != value);
  for (const std::string prefix : {"sk-ant-api03-", "sk-proj-", "AIza", "ghp_", "github_pat_", "xai-"}) {
    CHECK(placeholder->starts_with(prefix) == value.starts_with(prefix));
  }
  // Nothing of the key itself is left: no run of six characters after the prefix is at its place.
  const size_t body = value.size() > 40 ? 13 : 4;
  for (size_t at = body; at + 6 <= value.size(); ++at) CHECK(placeholder->substr(at, 6) != value.substr(at, 6));
  const bool is_hexadecimal = value.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (is_hexadecimal) CHECK(placeholder->find_first_not_of("0123456789abcdef") == std::string::npos);
}

TEST_CASE("secrets: placeholders are unique, also of short and odd values") {
  const std::string value = GENERATE("x", "1234", "hunter2", "pass word\tü", "------");
  std::set<std::string> seen;
  for (int i = 0; i < 200; ++i) {
    auto placeholder = shim::make_placeholder(value);
    REQUIRE(placeholder);
    CHECK(placeholder->size() >= 24);
    for (const char c : *placeholder) CHECK((c > ' ' && c < 0x7f));
    seen.insert(*placeholder);
  }
  CHECK(seen.size() == 200);
}

TEST_CASE("secrets: exec with the same value gets the same placeholder, a new value a new one") {
  auto secrets = store(kOneKey);
  const std::string first = "ANTHROPIC_API_KEY=sk-ant-first-0123456789abcdefghij";
  const auto created = hide(secrets, {first});
  const auto again = hide(secrets, {"X=1", first});
  CHECK(again.added.empty());
  CHECK(again.env[1] == created.env[0]);
  const auto other = hide(secrets, {"ANTHROPIC_API_KEY=sk-ant-second-0123456789abcdefghij"});
  REQUIRE(other.added.size() == 1);
  CHECK(other.env[0] != created.env[0]);
  CHECK(secrets.secrets().size() == 2);
  // From inside somebody may hand on what he sees.
  const auto handed = hide(secrets, {created.env[0]});
  CHECK(handed.env[0] == created.env[0]);
  CHECK(handed.added.empty());
}

TEST_CASE("secrets: a value that stands in other variables too is replaced there") {
  auto secrets = store(kOneKey);
  const std::string value = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789";
  const auto hidden = hide(secrets, {"COPY=" + value, "URL=https://user:" + value + "@host/" + value, "ANTHROPIC_API_KEY=" + value});
  CHECK_FALSE(mentions(hidden.env, value));
  const std::string& placeholder = hidden.added.at(0).placeholder;
  CHECK(hidden.env[0] == "COPY=" + placeholder);
  CHECK(hidden.env[1] == "URL=https://user:" + placeholder + "@host/" + placeholder);
  // And in an exec's environment, where the variable itself may be missing.
  CHECK_FALSE(mentions(hide(secrets, {"COPY=" + value}).env, value));
}

TEST_CASE("secrets: a short value is replaced in its own variable alone") {
  auto secrets = store(kOneKey);
  const auto hidden = hide(secrets, {"ANTHROPIC_API_KEY=bin", "PATH=/bin:/usr/bin"});
  CHECK(hidden.env[1] == "PATH=/bin:/usr/bin");
  CHECK(hidden.env[0] != "ANTHROPIC_API_KEY=bin");
}

TEST_CASE("secrets: a value that contains another one is replaced as a whole") {
  auto secrets = store("  - env: SHORT\n    hosts: [a.example.com]\n  - env: LONG\n    hosts: [b.example.com]\n");
  const auto hidden = hide(secrets, {"SHORT=abcdefgh12345", "LONG=abcdefgh12345-and-more", "BOTH=abcdefgh12345-and-more"});
  REQUIRE(hidden.added.size() == 2);
  CHECK_FALSE(mentions(hidden.env, "abcdefgh12345"));
  CHECK(hidden.env[2].substr(5) == hidden.env[1].substr(5));
}

TEST_CASE("secrets: every occurrence of a doubled variable is hidden") {
  auto secrets = store(kOneKey);
  const auto hidden = hide(secrets, {"ANTHROPIC_API_KEY=first-0123456789", "ANTHROPIC_API_KEY=second-0123456789"});
  CHECK_FALSE(mentions(hidden.env, "0123456789"));
  CHECK(hidden.added.size() == 2);
}

TEST_CASE("secrets: whitespace around a key is no part of it") {
  auto secrets = store(kOneKey);
  const auto hidden = hide(secrets, {"ANTHROPIC_API_KEY= sk-ant-0123456789abcdefghij \n"});
  REQUIRE(hidden.added.size() == 1);
  CHECK(hidden.added[0].value == "sk-ant-0123456789abcdefghij");
  CHECK(hidden.env[0] == "ANTHROPIC_API_KEY=" + hidden.added[0].placeholder);
}

TEST_CASE("secrets: a value with a line break within is an error that does not quote it") {
  auto secrets = store(kOneKey);
  for (const std::string value : {"begin\nend-of-it", "begin\r\nx-a: end-of-it", "begin\x7f" "end-of-it"}) {
    const auto hidden = secrets.hide({"ANTHROPIC_API_KEY=" + value});
    REQUIRE_FALSE(hidden.has_value());
    CHECK(hidden.error().message().find("ANTHROPIC_API_KEY") != std::string::npos);
    CHECK(hidden.error().message().find("end-of-it") == std::string::npos);
  }
}

TEST_CASE("secrets: a key from the host's environment never was in the container's") {
  ::setenv("LEASH_TEST_HOST_KEY", "sk-host-0123456789abcdefghij", 1);
  auto secrets = store("  - env: OPENAI_API_KEY\n    hosts: [api.openai.com]\n    from: {host-env: LEASH_TEST_HOST_KEY}\n");
  ::unsetenv("LEASH_TEST_HOST_KEY");
  const auto absent = hide(secrets, {"PATH=/bin"});
  REQUIRE(absent.env.size() == 2);
  CHECK(absent.env[1] == "OPENAI_API_KEY=" + absent.added.at(0).placeholder);
  CHECK(absent.added[0].value == "sk-host-0123456789abcdefghij");
  // The policy decides, whatever the image set.
  const auto present = hide(secrets, {"OPENAI_API_KEY=other"});
  CHECK(present.env == std::vector<std::string>{absent.env[1]});
}

TEST_CASE("secrets: a key from a file is taken only if root alone can read it") {
  char name[] = "/tmp/leash-secret-XXXXXX";
  const int fd = ::mkstemp(name);
  REQUIRE(fd >= 0);
  ::close(fd);
  const std::string path = name;
  REQUIRE(file::write_atomic(path, "sk-file-0123456789abcdefghij\n", 0600));
  const auto policy = oci::parse_policy(
      "test.yaml", "secrets:\n  - env: KEY\n    hosts: [api.example.com]\n    from: {file: " + path + "}\n");
  if (!policy) FAIL(policy.error().message());
  auto made = shim::SecretStore::create(policy->secrets);
  if (::geteuid() == 0) {
    REQUIRE(made);
    CHECK(hide(*made, {}).added.at(0).value == "sk-file-0123456789abcdefghij");
  }
  REQUIRE(::chmod(path.c_str(), 0644) == 0);
  made = shim::SecretStore::create(policy->secrets);
  REQUIRE_FALSE(made);
  CHECK(made.error().message().find("secret 'KEY'") != std::string::npos);
  CHECK(made.error().message().find("0600") != std::string::npos);
  CHECK(made.error().message().find("sk-file") == std::string::npos);
  ::unlink(path.c_str());
  CHECK_FALSE(shim::SecretStore::create(policy->secrets));
}

TEST_CASE("secrets: a key from a command is what it prints; a command that fails is an error without its words") {
  const auto from = [](const std::string& words) {
    const auto policy = oci::parse_policy(
        "test.yaml", "secrets:\n  - env: KEY\n    hosts: [api.example.com]\n    from: {command: " + words + "}\n");
    if (!policy) FAIL(policy.error().message());
    return shim::SecretStore::create(policy->secrets);
  };
  auto made = from("[/bin/echo, sk-command-0123456789abcdefghij]");
  REQUIRE(made);
  CHECK(hide(*made, {}).added.at(0).value == "sk-command-0123456789abcdefghij");
  const auto failed = from("[/bin/sh, -c, 'echo sk-leaked; echo sk-leaked >&2; exit 3']");
  REQUIRE_FALSE(failed);
  CHECK(failed.error().message().find("exit status 3") != std::string::npos);
  CHECK(failed.error().message().find("sk-leaked") == std::string::npos);
  CHECK_FALSE(from("[/bin/true]"));
  CHECK_FALSE(from("[/no/such/program]"));
}
