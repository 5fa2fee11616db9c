#include "runtime/rlimits.h"

#include <sys/resource.h>
#include <unistd.h>

#include "base/file.h"
#include "runtime/capabilities.h"
#include "tests/unit/catch.h"
#include "tests/unit/runtime/in_child.h"

using namespace leash;
using tests::in_child;

TEST_CASE("rlimits: soft and hard values are the process's own") {
  const int code = in_child([] {
    if (!runtime::apply_rlimits({{"RLIMIT_NOFILE", 100, 200}, {"RLIMIT_CORE", 0, 0}})) return 1;
    struct rlimit limit = {};
    getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur == 100 && limit.rlim_max == 200 ? 0 : 2;
  });
  CHECK(code == 0);
}

TEST_CASE("rlimits: an unknown type is refused in runc's words") {
  Result<void> verdict = runtime::check_rlimits({{"RLIMIT_NOSUCH", 1, 1}});
  REQUIRE_FALSE(verdict);
  CHECK(verdict.error().message() == "wrong rlimit value: RLIMIT_NOSUCH");
  CHECK(runtime::check_rlimits({{"RLIMIT_RTTIME", 1, 1}}));
}

TEST_CASE("rlimits: the kernel's refusal names the limit as runc does") {
  const int code = in_child([] {
    if (!runtime::set_capabilities({})) return 1;
    Result<void> outcome = runtime::apply_rlimits({{"RLIMIT_NOFILE", 1, RLIM_INFINITY}});
    const bool fits = !outcome && outcome.error().message() ==
                      "error setting rlimits for ready process: error setting rlimit type 7: operation not permitted";
    return fits ? 0 : 2;
  });
  CHECK(code == 0);
}

TEST_CASE("rlimits: the oom score is written, and nothing when it is there already") {
  const int code = in_child([] {
    if (!runtime::set_oom_score_adj(500)) return 1;
    Result<std::string> text = file::read("/proc/self/oom_score_adj");
    if (!text || *text != "500\n") return 2;
    if (!runtime::set_capabilities({})) return 3;
    if (!runtime::set_oom_score_adj(500)) return 4;
    return runtime::set_oom_score_adj(-1000) ? 5 : 0;
  });
  CHECK(code == 0);
}
