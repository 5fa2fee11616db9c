#include "cli/containers.h"

#include <unistd.h>

#include <cstdlib>

#include "base/file.h"
#include "oci-spec/event.h"
#include "tests/unit/catch.h"

using namespace leash;

namespace {

struct Fixture {
  Fixture() {
    char name[] = "/tmp/leash-cli-XXXXXX";
    path = ::mkdtemp(name);
    directories = {path + "/run", path + "/log"};
  }
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;
  ~Fixture() { (void)file::remove_tree(path).has_value(); }

  void run(const std::string& id, const std::string& name, int64_t started_us = 1) const {
    oci::RegistryEntry entry;
    entry.container_id = id;
    entry.name = name;
    entry.started_us = started_us;
    entry.init_pid = 42;
    REQUIRE(file::make_directories(directories.registry + "/" + id, 0700));
    REQUIRE(file::write_atomic(directories.registry + "/" + id + "/container.json", oci::print(entry), 0600));
  }
  void end(const std::string& id, const std::string& name) const {
    oci::FlowEvent event;
    event.container = name;
    std::string line;
    oci::print(event, line);
    REQUIRE(file::make_directories(directories.logs + "/" + id, 0700));
    REQUIRE(file::write_atomic(directories.logs + "/" + id + "/flows.jsonl", line, 0600));
  }
  std::vector<cli::Container> list() const {
    auto containers = cli::list_containers(directories);
    if (!containers) FAIL(containers.error().message());
    return *containers;
  }

  std::string path;
  cli::Directories directories;
};

std::string found(const std::vector<cli::Container>& containers, const std::string& wanted, cli::AskEngine ask = nullptr) {
  auto container = cli::find_container(containers, wanted, ask);
  return container ? container->id : "error: " + container.error().message();
}

}  // namespace

TEST_CASE("containers: no directories mean no containers") { CHECK(Fixture().list().empty()); }

TEST_CASE("containers: running ones come first, ended ones by what their logs say") {
  Fixture fixture;
  fixture.run("aaa111", "old", 1);
  fixture.run("bbb222", "new", 2);
  fixture.end("aaa111", "old");
  fixture.end("ccc333", "gone");
  const auto containers = fixture.list();
  REQUIRE(containers.size() == 3);
  CHECK(containers[0].id == "bbb222");
  CHECK(containers[1].id == "aaa111");
  CHECK(containers[2].id == "ccc333");
  CHECK(containers[2].name == "gone");
  CHECK_FALSE(containers[2].is_running);
  CHECK(containers[1].log_directory == fixture.directories.logs + "/aaa111");
}

TEST_CASE("containers: named by id, by the beginning of one, or by name") {
  Fixture fixture;
  fixture.run("abc123", "web");
  fixture.run("abd456", "db");
  fixture.end("fff999", "job");
  const auto containers = fixture.list();
  CHECK(found(containers, "abc123") == "abc123");
  CHECK(found(containers, "abc") == "abc123");
  CHECK(found(containers, "web") == "abc123");
  CHECK(found(containers, "job") == "fff999");
  const std::string ambiguous = found(containers, "ab");
  CHECK(ambiguous.find("'ab' is ambiguous:") != std::string::npos);
  CHECK(ambiguous.find("abc123 (web)") != std::string::npos);
  CHECK(ambiguous.find("abd456 (db)") != std::string::npos);
  CHECK(found(containers, "nothing").find("no leashed container 'nothing'") != std::string::npos);
  CHECK(found(containers, "").find("no leashed container ''") != std::string::npos);
}

TEST_CASE("containers: a running container wins over ended ones of the same name") {
  Fixture fixture;
  fixture.run("abc123", "web");
  fixture.end("def456", "web");
  CHECK(found(fixture.list(), "web") == "abc123");
}

TEST_CASE("containers: a name that is the beginning of another one's id means the name") {
  Fixture fixture;
  fixture.run("abc123", "fff");
  fixture.run("fff999", "other");
  CHECK(found(fixture.list(), "fff") == "abc123");
}

TEST_CASE("containers: the engine is asked for a name that the registry does not have") {
  Fixture fixture;
  fixture.run("abc123", "");
  const auto containers = fixture.list();
  CHECK(found(containers, "renamed", [](const std::string&) { return std::optional<std::string>("abc123"); }) == "abc123");
  CHECK(found(containers, "renamed", [](const std::string&) { return std::optional<std::string>("unknown"); }).starts_with("error"));
}

TEST_CASE("containers: hostile names are escaped in messages") {
  Fixture fixture;
  fixture.run("abc123", "x\x1b[2J");
  fixture.run("abc124", "y");
  CHECK(found(fixture.list(), "abc").find('\x1b') == std::string::npos);
  CHECK(found(fixture.list(), "\x1b[2J").find('\x1b') == std::string::npos);
}

TEST_CASE("containers: a registry entry that cannot be parsed is an error, not an absence") {
  Fixture fixture;
  REQUIRE(file::make_directories(fixture.directories.registry + "/abc", 0700));
  REQUIRE(file::write_atomic(fixture.directories.registry + "/abc/container.json", "{", 0600));
  CHECK_FALSE(cli::list_containers(fixture.directories));
}
