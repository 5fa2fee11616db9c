#include "runtime/hooks.h"

#include "tests/unit/runtime/temporary_directory.h"

using namespace leash;
using namespace leash::runtime;

namespace {

oci::Hook shell(const std::string& script) {
  oci::Hook hook;
  hook.path = "/bin/sh";
  hook.args = {"hook", "-c", script};
  hook.env = {"PATH=/usr/bin:/bin", "WORD=yes"};
  return hook;
}

}  // namespace

TEST_CASE("hooks: each gets the state on stdin and its own environment") {
  const test::TemporaryDirectory directory;
  REQUIRE(run_hooks({shell("cat > " + directory.at("one")), shell("echo $WORD > " + directory.at("two"))}, "{\"id\":\"x\"}"));
  CHECK(*file::read(directory.at("one")) == "{\"id\":\"x\"}");
  CHECK(*file::read(directory.at("two")) == "yes\n");
}

TEST_CASE("hooks: the first failure stops the rest and says what the hook said") {
  const test::TemporaryDirectory directory;
  const auto done = run_hooks({shell("true"), shell("echo hookerr >&2; exit 4"), shell("touch " + directory.at("late"))}, "{}");
  REQUIRE_FALSE(done);
  CHECK(done.error().message() == "error running hook #1: error running hook: exit status 4, stdout: , stderr: hookerr\n");
  CHECK(::access(directory.at("late").c_str(), F_OK) != 0);
}

TEST_CASE("hooks: one that is not there, and one that takes too long") {
  oci::Hook missing;
  missing.path = "/nosuchhook";
  CHECK(run_hooks({missing}, "{}").error().message() == "error running hook #0: fork/exec /nosuchhook: no such file or directory");
  oci::Hook slow = shell("sleep 20");
  slow.timeout_seconds = 1;
  CHECK(run_hooks({slow}, "{}").error().message() == "error running hook #0: hook ran past specified timeout of 1.0s");
}
