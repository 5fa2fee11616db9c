#include "base/result.h"

#include "tests/unit/catch.h"

using leash::Error;
using leash::Result;

namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return Error("odd number");
  return value / 2;
}

Result<int> quarter(int value) {
  TRY(const int first, half(value).context("first"));
  TRY(const int second, half(first).context("second"));
  return second;
}

}  // namespace

TEST_CASE("result: TRY hands the value on and returns the error with its context") {
  REQUIRE(quarter(8).value() == 2);
  REQUIRE(quarter(3).error().message() == "first: odd number");
  REQUIRE(quarter(2).error().message() == "second: odd number");
}

TEST_CASE("result: errno texts are spelled as engines match them") {
  REQUIRE(leash::errno_text(ENOENT) == "no such file or directory");
  REQUIRE(leash::errno_text(EACCES) == "permission denied");
  REQUIRE(leash::errno_text(EPERM) == "operation not permitted");
  REQUIRE(leash::errno_text(ENOTDIR) == "not a directory");
  REQUIRE(Error::from_errno(EEXIST, "mkdir '/x'").message() == "mkdir '/x': file exists");
}
