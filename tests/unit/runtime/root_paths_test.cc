#include "runtime/root_paths.h"

#include <fcntl.h>

#include "tests/unit/runtime/temporary_directory.h"

using namespace leash;
using namespace leash::runtime;

namespace {

struct House {
  test::TemporaryDirectory directory;
  Fd root;
  House() {
    directory.make_directory("root/etc");
    directory.make_directory("outside");
    auto opened = sys::open(directory.at("root"), O_PATH | O_DIRECTORY);
    REQUIRE(opened);
    root = std::move(opened).value();
  }
  [[nodiscard]] bool has(const std::string& name) const { return ::access(directory.at(name).c_str(), F_OK) == 0; }
};

}  // namespace

TEST_CASE("root paths: missing directories are made") {
  const House house;
  REQUIRE(make_directory_in_root(house.root.get(), "/a/b/c"));
  CHECK(house.has("root/a/b/c"));
  REQUIRE(make_directory_in_root(house.root.get(), "a/b/c"));
}

TEST_CASE("root paths: an absolute link means the container's root, not the host's") {
  const House house;
  house.directory.link("/etc", "root/link");
  REQUIRE(make_directory_in_root(house.root.get(), "/link/new"));
  CHECK(house.has("root/etc/new"));
}

TEST_CASE("root paths: no number of dots leaves the root") {
  const House house;
  house.directory.link("../../../../../..", "root/up");
  REQUIRE(make_directory_in_root(house.root.get(), "/up/../../made"));
  CHECK(house.has("root/made"));
  REQUIRE(make_directory_in_root(house.root.get(), "/missing/../../../also"));
  CHECK(house.has("root/also"));
}

TEST_CASE("root paths: a dangling link is completed inside") {
  const House house;
  house.directory.link(house.directory.at("outside/target"), "root/dangling");
  REQUIRE(make_directory_in_root(house.root.get(), "/dangling/x"));
  CHECK_FALSE(house.has("outside/target"));
  CHECK(house.has("root" + house.directory.at("outside/target/x")));
}

TEST_CASE("root paths: a loop of links ends in an error") {
  const House house;
  house.directory.link("b", "root/a");
  house.directory.link("a", "root/b");
  const auto made = make_directory_in_root(house.root.get(), "/a/x");
  REQUIRE_FALSE(made);
  CHECK(made.error().code() == ELOOP);
}

TEST_CASE("root paths: a file in the way is no directory") {
  const House house;
  house.directory.write("root/etc/passwd", "x");
  const auto made = make_directory_in_root(house.root.get(), "/etc/passwd");
  REQUIRE_FALSE(made);
  CHECK(made.error().message() == "mkdir /etc/passwd: not a directory");
  CHECK_FALSE(make_directory_in_root(house.root.get(), "/etc/passwd/x"));
}

TEST_CASE("root paths: files are made with their parents, and never through a link out") {
  const House house;
  REQUIRE(make_file_in_root(house.root.get(), "/a/b/file"));
  CHECK(house.has("root/a/b/file"));
  house.directory.link(house.directory.at("outside/file"), "root/trap");
  REQUIRE(make_file_in_root(house.root.get(), "/trap"));
  CHECK_FALSE(house.has("outside/file"));
}

TEST_CASE("root paths: the parent of a path comes with the name after its links") {
  const House house;
  house.directory.link("etc/real", "root/alias");
  const auto place = make_parent_in_root(house.root.get(), "/alias");
  REQUIRE(place);
  CHECK(place->second == "real");
  CHECK_FALSE(make_parent_in_root(house.root.get(), "/"));
}
