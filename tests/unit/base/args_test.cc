#include "base/args.h"

#include "tests/unit/catch.h"

using namespace leash;
using args::Kind;

namespace {

constexpr args::Flag kFlags[] = {
    {"bundle, b", Kind::kValue, "path"}, {"force, f", Kind::kBool, "do it"}, {"env, e", Kind::kList, "variables"},
    {"no-subreaper", Kind::kBool, "none"}, {"preserve-fds", Kind::kValue, "count", "0"},
};

Result<args::Parsed> parse(const std::vector<std::string>& words, bool stops = false) {
  return args::parse(kFlags, words, stops);
}

}  // namespace

TEST_CASE("args: every spelling of Go's flags means the same") {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"--bundle", "/b", "id"}, {"--bundle=/b", "id"}, {"-bundle", "/b", "id"}, {"-b", "/b", "id"}, {"-b=/b", "id"}}) {
    const auto parsed = parse(words);
    REQUIRE(parsed);
    CHECK(parsed->value("bundle") == "/b");
    CHECK(parsed->positionals() == std::vector<std::string>{"id"});
  }
}

TEST_CASE("args: a long flag may have one dash") {
  const auto parsed = parse({"-no-subreaper", "id"});
  REQUIRE(parsed);
  CHECK(parsed->is_set("no-subreaper"));
}

TEST_CASE("args: flags after the id count, unless a command line of the container's follows") {
  const auto kill = parse({"id", "--force"});
  REQUIRE(kill);
  CHECK(kill->is_set("force"));
  const auto exec = parse({"-f", "id", "ls", "--force", "-b"}, true);
  REQUIRE(exec);
  CHECK(exec->positionals() == std::vector<std::string>{"id", "ls", "--force", "-b"});
  CHECK_FALSE(exec->has("bundle"));
}

TEST_CASE("args: two dashes end the flags, one dash is a value") {
  const auto parsed = parse({"--", "--force"});
  REQUIRE(parsed);
  CHECK_FALSE(parsed->is_set("force"));
  CHECK(parsed->positionals() == std::vector<std::string>{"--force"});
  const auto dash = parse({"--bundle", "-", "id"});
  REQUIRE(dash);
  CHECK(dash->value("bundle") == "-");
  CHECK(parse({"--bundle=-", "id"})->value("bundle") == "-");
}

TEST_CASE("args: a boolean may be switched off, and lists keep their order") {
  const auto parsed = parse({"--force=false", "-e", "A=1", "--env", "B=2"});
  REQUIRE(parsed);
  CHECK(parsed->has("force"));
  CHECK_FALSE(parsed->is_set("force"));
  CHECK(parsed->list("env") == std::vector<std::string>{"A=1", "B=2"});
}

TEST_CASE("args: errors are in urfave's words") {
  CHECK(parse({"--nope"}).error().message() == "flag provided but not defined: -nope");
  CHECK(parse({"--bundle"}).error().message() == "flag needs an argument: -bundle");
  CHECK(parse({"--force=maybe"}).error().message() == "invalid boolean value \"maybe\" for -force: parse error");
  CHECK(parse({"--preserve-fds", "x"})->integer("preserve-fds", 0).error().message() ==
        "invalid value \"x\" for flag -preserve-fds: parse error");
  CHECK(*parse({"--preserve-fds", "3"})->integer("preserve-fds", 0) == 3);
  CHECK(*parse({})->integer("preserve-fds", 7) == 7);
}

TEST_CASE("args: the help aligns its columns and shows defaults") {
  const std::string help = args::describe(kFlags);
  CHECK(help.find("   --bundle value, -b value  path\n") != std::string::npos);
  CHECK(help.find("   --force, -f               do it\n") != std::string::npos);
  CHECK(help.find("count (default: 0)\n") != std::string::npos);
}
