// A directory for one test, removed with everything in it.
#pragma once

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "base/file.h"
#include "base/sys.h"
#include "tests/unit/catch.h"

namespace leash::test {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    char name[] = "/tmp/leash-unit-XXXXXX";
    REQUIRE(::mkdtemp(name) != nullptr);
    path_ = name;
  }
  ~TemporaryDirectory() { static_cast<void>(file::remove_tree(path_)); }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string at(const std::string& name) const { return path_ + "/" + name; }
  void make_directory(const std::string& name) const { REQUIRE(file::make_directories(at(name), 0755)); }
  void write(const std::string& name, std::string_view text, mode_t mode = 0644) const {
    REQUIRE(file::write_atomic(at(name), text, mode));
    REQUIRE(::chmod(at(name).c_str(), mode) == 0);
  }
  void link(const std::string& target, const std::string& name) const {
    REQUIRE(::symlink(target.c_str(), at(name).c_str()) == 0);
  }

 private:
  std::string path_;
};

}  // namespace leash::test
