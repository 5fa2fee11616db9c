#include "base/log.h"

#include "tests/unit/catch.h"

using namespace leash;

TEST_CASE("log: a JSON line is one object with escaped text") {
  CHECK(log::format_line(log::Format::kJson, log::Level::kError, "exec: \"x\": a\\b\nc\x01", "2026-01-02T03:04:05Z") ==
        "{\"level\":\"error\",\"msg\":\"exec: \\\"x\\\": a\\\\b\\nc\\u0001\",\"time\":\"2026-01-02T03:04:05Z\"}");
}

TEST_CASE("log: a text line is runc's") {
  CHECK(log::format_line(log::Format::kText, log::Level::kWarning, "say \"hi\"", "T") ==
        "time=\"T\" level=warning msg=\"say \\\"hi\\\"\"");
}

TEST_CASE("log: the time is RFC 3339 in UTC") {
  const std::string now = log::now_rfc3339();
  REQUIRE(now.size() >= 20);
  CHECK(now[4] == '-');
  CHECK(now[10] == 'T');
  CHECK(now.back() == 'Z');
  CHECK(now.find(".Z") == std::string::npos);
}
