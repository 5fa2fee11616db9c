#include "base/file.h"

#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/catch.h"

namespace file = leash::file;

TEST_CASE("file: remove_tree removes a tree and leaves what its symlinks name") {
  char name[] = "/tmp/leash-file-test-XXXXXX";
  REQUIRE(::mkdtemp(name) != nullptr);
  const std::string top = name;
  REQUIRE(file::make_directories(top + "/a/b/c", 0755));
  REQUIRE(file::make_directories(top + "/kept", 0755));
  REQUIRE(file::write_atomic(top + "/kept/x", "1", 0600));
  REQUIRE(::symlink("../../kept", (top + "/a/b/link").c_str()) == 0);
  REQUIRE(file::remove_tree(top + "/a"));
  REQUIRE(::access((top + "/a").c_str(), F_OK) < 0);
  REQUIRE(file::read(top + "/kept/x").value() == "1");
  REQUIRE(file::remove_tree(top + "/a"));  // a missing path is success
  REQUIRE(file::remove_tree(top));
}
