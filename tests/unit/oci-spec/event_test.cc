#include "oci-spec/event.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "oci-spec/reasons.h"
#include "tests/unit/catch.h"

namespace leash::oci {
namespace {

using nlohmann::json;

std::string line_of(const FlowEvent& event) {
  std::string line;
  print(event, line);
  return line;
}

TEST_CASE("event: a flow's line has the older fields with their types, and the new ones") {
  FlowEvent event;
  event.time_us = 1795924800123456;
  event.seq = 7;
  event.id = "c1";
  event.container = "abc";
  event.rule = "allow[0] ok.test (p.yaml:2)";
  event.scheme = "https";
  event.host = "ok.test";
  event.port = 443;
  event.method = "POST";
  event.path = "/x?y=\"1\"";
  event.http_version = "1.1";
  event.status = 200;
  event.sni = "ok.test";
  event.dst_ip = "203.0.113.9";
  event.req_size = 5;
  event.resp_size = 6;
  event.req_body_sha256 = "2cf2";
  event.req_body_preview = "h\xc3\xa9llo\n";
  event.bytes_up = 700;
  event.bytes_down = 800;
  event.duration_ms = 12.3456;
  event.secrets = {"ANTHROPIC_API_KEY"};
  const std::string line = line_of(event);
  REQUIRE(line.back() == '\n');
  CHECK(line.find('\n') == line.size() - 1);
  const json object = json::parse(line);
  CHECK(object["ts"].is_number_float());
  CHECK(object["ts"].get<double>() == Approx(1795924800.123456).epsilon(1e-12));
  CHECK(object["time"] == "2026-11-29T04:00:00.123Z");
  CHECK(object["host"] == "ok.test");
  CHECK(object["method"] == "POST");
  CHECK(object["path"] == "/x?y=\"1\"");
  CHECK(object["status"] == 200);
  CHECK(object["req_size"] == 5);
  CHECK(object["req_body_sha256"] == "2cf2");
  CHECK(object["req_body_preview"] == "h\xc3\xa9llo\n");
  CHECK(object["resp_size"] == 6);
  CHECK(object["state"] == "inspected");
  CHECK(object["decision"] == "allow");
  CHECK(object["observed"] == false);
  CHECK(object["duration_ms"].get<double>() == Approx(12.345));
  CHECK(object["secrets"] == json::array({"ANTHROPIC_API_KEY"}));
  CHECK(object["error"].is_null());
  for (const char* name : {"seq", "id", "container", "rule", "scheme", "port", "http_version", "sni", "dst_ip", "bytes_up",
                           "bytes_down", "process"}) {
    INFO(name);
    CHECK(object.contains(name));
  }
  const auto back = parse_flow_event(line);
  REQUIRE(back);
  CHECK(back->time_us == event.time_us);
  CHECK(line_of(*back) == line);
}

TEST_CASE("event: a blocked line says where, why and by which rule, and reads back") {
  BlockedEvent event;
  event.time_us = 1795924800000000;
  event.seq = 3;
  event.host = "evil.test";
  event.method = "A";
  event.reason = reason::kHostNotAllowed;
  event.layer = layer::kDns;
  event.scheme = "dns";
  event.bytes_up = 40;
  event.count = 2;
  std::string line;
  print(event, line);
  const json object = json::parse(line);
  CHECK(object["event"] == "blocked");
  CHECK(object["state"] == "blocked");
  CHECK(object["reason"] == "host_not_allowed");
  CHECK(object["layer"] == "dns");
  CHECK(object["rule"].is_null());
  CHECK(object["path"].is_null());
  const auto back = parse_blocked_event(line);
  REQUIRE(back);
  std::string again;
  print(*back, again);
  CHECK(again == line);
  CHECK(!parse_blocked_event(line_of(FlowEvent())));
}

TEST_CASE("event: no text of a container makes a line invalid, longer than 16 KiB or a second line") {
  std::string every_byte;
  for (int i = 0; i < 256; ++i) every_byte += static_cast<char>(i);
  const std::string texts[] = {
      every_byte,
      std::string(100000, '\x01'),
      std::string(100000, 'a'),
      std::string(100000, '\xff'),
      std::string(3000, '\xf0') + "\xf0\x9f\x98\x80",
      "\xed\xa0\x80 surrogate",
      "\xc2\x9b" "31m and \x1b[31m and \x7f",
      std::string("nul \0 inside", 12),
  };
  for (const std::string& text : texts) {
    FlowEvent event;
    event.host = event.path = event.method = event.sni = event.rule = event.req_body_preview = event.container = event.id = text;
    event.process = event.error = event.reason = event.scheme = event.dst_ip = event.http_version = event.req_body_sha256 = text;
    event.decision = text;
    event.secrets = std::vector<std::string>(100, text);
    event.seq = event.req_size = event.resp_size = event.bytes_up = event.bytes_down = UINT64_MAX;
    event.time_us = INT64_MAX / 2;
    event.duration_ms = 1e300;
    const std::string line = line_of(event);
    CHECK(line.size() <= kMaxEventLine);
    CHECK(std::count(line.begin(), line.end(), '\n') == 1);
    CHECK(json::accept(line));  // refuses invalid UTF-8
    CHECK(std::all_of(line.begin(), line.end() - 1, [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f; }));

    BlockedEvent blocked;
    blocked.host = blocked.path = blocked.method = blocked.sni = blocked.rule = blocked.container = blocked.id = text;
    blocked.process = blocked.reason = blocked.layer = blocked.scheme = blocked.dst_ip = text;
    std::string blocked_line;
    print(blocked, blocked_line);
    CHECK(blocked_line.size() <= kMaxEventLine);
    CHECK(json::accept(blocked_line));

    Refusal refusal{text, text, text, text, text, text};
    CHECK(json::accept(refusal_body(refusal)));
  }
}

TEST_CASE("event: a cut text ends in an ellipsis at a character's end") {
  std::string out;
  append_json_string(out, "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9", 12);
  CHECK(json::accept(out));
  CHECK(out.size() <= 12 + 2 + 3);
  CHECK(out.find("\xe2\x80\xa6") != std::string::npos);
  out.clear();
  append_json_string(out, "exactly ten", 11);
  CHECK(out == "\"exactly ten\"");
}

TEST_CASE("event: the last number of a log is that of its last whole line, whatever texts say") {
  CHECK(last_seq("") == 0);
  CHECK(last_seq("{\"seq\":4") == 0);
  FlowEvent event;
  event.seq = 41;
  event.path = R"(/"seq":99,)";
  event.error = R"("seq":98)";
  const std::string line = line_of(event);
  CHECK(last_seq(line) == 41);
  CHECK(last_seq(line + "{\"seq\":50") == 41);
  CHECK(last_seq(line.substr(100)) == 41);
  event.seq = 42;
  CHECK(last_seq(line + line_of(event)) == 42);
}

TEST_CASE("event: times are RFC 3339 in UTC") {
  CHECK(rfc3339(0) == "1970-01-01T00:00:00.000Z");
  CHECK(rfc3339(951782400000000) == "2000-02-29T00:00:00.000Z");
  CHECK(rfc3339(1709164799999999) == "2024-02-28T23:59:59.999Z");
  CHECK(rfc3339(4102444799001000) == "2099-12-31T23:59:59.001Z");
}

TEST_CASE("event: a refusal tells a program what happened") {
  const json body = json::parse(refusal_body({reason::kHostNotAllowed, "evil.test", {}, {}, "GET", "/"}));
  CHECK(body["error"] == "leash_blocked");
  CHECK(body["reason"] == "host_not_allowed");
  CHECK(body["host"] == "evil.test");
  CHECK(body["rule"].is_null());
  CHECK(!body["advice"].get<std::string>().empty());
  CHECK(refusal_header(reason::kHostNotAllowed) == "blocked; reason=host_not_allowed");
}

TEST_CASE("event: what is no log line is refused") {
  for (const char* text : {"", "x", "[]", "1", "{", "{\"state\":\"new\"}"}) {
    INFO(text);
    CHECK(!parse_flow_event(text));
  }
}

}  // namespace
}  // namespace leash::oci
