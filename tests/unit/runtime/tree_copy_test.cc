#include "runtime/tree_copy.h"

#include <fcntl.h>

#include "tests/unit/runtime/temporary_directory.h"

using namespace leash;
using namespace leash::runtime;

TEST_CASE("tree copy: contents, modes and links are kept, links are not followed") {
  const test::TemporaryDirectory directory;
  directory.make_directory("from/sub");
  directory.make_directory("to");
  directory.write("from/sub/file", "text", 0640);
  directory.write("outside", "secret");
  directory.link(directory.at("outside"), "from/link");
  REQUIRE(::chmod(directory.at("from/sub").c_str(), 01777) == 0);
  REQUIRE(::mkfifo(directory.at("from/fifo").c_str(), 0600) == 0);
  auto from = sys::open(directory.at("from"), O_PATH | O_DIRECTORY);
  auto to = sys::open(directory.at("to"), O_RDONLY | O_DIRECTORY);
  REQUIRE(from);
  REQUIRE(to);
  REQUIRE(copy_directory(from->get(), to->get()));
  CHECK(*file::read(directory.at("to/sub/file")) == "text");
  struct stat st = {};
  REQUIRE(::stat(directory.at("to/sub/file").c_str(), &st) == 0);
  CHECK((st.st_mode & 07777) == 0640);
  REQUIRE(::stat(directory.at("to/sub").c_str(), &st) == 0);
  CHECK((st.st_mode & 07777) == 01777);
  CHECK(*sys::readlinkat(AT_FDCWD, directory.at("to/link")) == directory.at("outside"));
  REQUIRE(::lstat(directory.at("to/fifo").c_str(), &st) == 0);
  CHECK(S_ISFIFO(st.st_mode));
}
