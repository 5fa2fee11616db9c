#include "runtime/signals.h"

#include <signal.h>

#include "tests/unit/catch.h"

using namespace leash::runtime;

TEST_CASE("signals: names with and without SIG, in any case, and numbers") {
  CHECK(*parse_signal("KILL") == SIGKILL);
  CHECK(*parse_signal("SIGKILL") == SIGKILL);
  CHECK(*parse_signal("sigterm") == SIGTERM);
  CHECK(*parse_signal("9") == 9);
  CHECK(*parse_signal("0") == 0);
  CHECK(*parse_signal("RTMIN+3") == SIGRTMIN + 3);
  CHECK(*parse_signal("SIGRTMAX-1") == SIGRTMAX - 1);
  CHECK(*parse_signal("CLD") == SIGCHLD);
}

TEST_CASE("signals: a number is the kernel's to judge, a word is ours") {
  CHECK(*parse_signal("999") == 999);
  for (const char* word : {"NOSUCHSIG", "", "SIG", "9x", "RTMIN-1", "RTMAX+1", "RTMIN+99"}) {
    const auto parsed = parse_signal(word);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().message() == "unknown signal \"" + std::string(word) + "\"");
  }
}
