#include "runtime/executable.h"

#include "tests/unit/runtime/temporary_directory.h"

using namespace leash;
using namespace leash::runtime;

TEST_CASE("executable: the first match in PATH, as docker's 127 and 126 want it") {
  const test::TemporaryDirectory directory;
  directory.make_directory("one");
  directory.make_directory("two/tool");
  directory.make_directory("three");
  directory.write("one/data", "x", 0644);
  directory.write("three/tool", "#!/bin/sh\n", 0755);
  const std::vector<std::string> env = {"PATH=" + directory.at("one") + ":" + directory.at("two") + ":" + directory.at("three")};

  CHECK(*find_executable("tool", env) == directory.at("three/tool"));
  CHECK(find_executable("nosuch", env).error().message() == "exec: \"nosuch\": executable file not found in $PATH");
  CHECK(find_executable("data", env).error().message() == "exec: \"data\": executable file not found in $PATH");
  CHECK(find_executable("", env).error().message() == "exec: \"\": executable file not found in $PATH");
  CHECK(find_executable("tool", {}).error().message() == "exec: \"tool\": executable file not found in $PATH");
}

TEST_CASE("executable: a name with a slash is not searched for") {
  const test::TemporaryDirectory directory;
  directory.make_directory("directory");
  directory.write("data", "x", 0644);
  CHECK(*find_executable("/bin/sh", {}) == "/bin/sh");
  CHECK(find_executable("/nosuch", {}).error().message() == "exec: \"/nosuch\": stat /nosuch: no such file or directory");
  for (const char* name : {"directory", "data"}) {
    const std::string path = directory.at(name);
    CHECK(find_executable(path, {}).error().message() == "exec: \"" + path + "\": permission denied");
  }
}
