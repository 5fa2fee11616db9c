#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/file.h"
#include "base/sys.h"
#include "cli/log_reader.h"
#include "cli/log_view.h"
#include "tests/unit/catch.h"

using namespace leash;

namespace {

constexpr int64_t kTime = 1796011506789000;  // 2026-11-30T04:05:06.789Z

oci::FlowEvent flow() {
  oci::FlowEvent event;
  event.time_us = kTime;
  event.seq = 1;
  event.id = "1";
  event.container = "web";
  event.scheme = "https";
  event.host = "api.anthropic.com";
  event.port = 443;
  event.method = "POST";
  event.path = "/v1/messages?beta=true";
  event.status = 200;
  event.bytes_up = 1234;
  event.bytes_down = 56789;
  event.duration_ms = 532.4;
  return event;
}

oci::BlockedEvent blocked() {
  oci::BlockedEvent event;
  event.time_us = kTime;
  event.seq = 1;
  event.id = "2";
  event.container = "web";
  event.reason = "host_not_allowed";
  event.layer = "http";
  event.scheme = "https";
  event.host = "evil.test";
  event.port = 443;
  event.method = "GET";
  event.path = "/";
  return event;
}

template <class Event>
std::string line_of(const Event& event) {
  std::string out;
  oci::print(event, out);
  return out;
}

std::string shown(const oci::FlowEvent& event, bool colours = false, const std::string& container = "") {
  auto line = cli::parse_log_line(cli::LogKind::kFlows, line_of(event));
  if (!line) FAIL(line.error().message());
  return cli::format_log_line(*line, container, cli::Painter(colours));
}

std::string shown(const oci::BlockedEvent& event, const std::string& container = "") {
  auto line = cli::parse_log_line(cli::LogKind::kBlocked, line_of(event));
  if (!line) FAIL(line.error().message());
  return cli::format_log_line(*line, container, cli::Painter(false));
}

struct TemporaryDirectory {
  TemporaryDirectory() {
    char name[] = "/tmp/leash-logs-XXXXXX";
    path = ::mkdtemp(name);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() { (void)file::remove_tree(path).has_value(); }
  std::string path;
};

void append(const std::string& path, std::string_view text) {
  auto fd = sys::open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
  REQUIRE(fd);
  REQUIRE(sys::write_all(fd->get(), text));
}

std::string flow_line(uint64_t seq, int64_t time_us) {
  oci::FlowEvent event = flow();
  event.seq = seq;
  event.time_us = time_us;
  event.path = "/" + std::to_string(seq);
  return line_of(event);
}

// The paths of all lines that are there.
std::vector<std::string> drain(cli::MergedLogs& logs) {
  std::vector<std::string> seen;
  for (;;) {
    auto entry = logs.next();
    if (!entry) FAIL(entry.error().message());
    if (!*entry) return seen;
    const std::string& target = (*entry)->line.target;
    seen.push_back(target.substr(target.find('/', 8)));
  }
}

}  // namespace

TEST_CASE("logs: an inspected request shows what was asked, of whom, and what came back") {
  CHECK(shown(flow()) ==
        "2026-11-30T04:05:06.789Z  inspected  200   POST     https://api.anthropic.com/v1/messages?beta=true  "
        "1.2 kB up, 57 kB down  532 ms\n");
  oci::FlowEvent event = flow();
  event.secrets = {"ANTHROPIC_API_KEY"};
  CHECK(shown(event, false, "web") ==
        "2026-11-30T04:05:06.789Z  web             inspected  200   POST     "
        "https://api.anthropic.com/v1/messages?beta=true  1.2 kB up, 57 kB down  532 ms  secret: ANTHROPIC_API_KEY\n");
}

TEST_CASE("logs: a passed flow says why it was not inspected") {
  oci::FlowEvent event = flow();
  event.state = oci::FlowState::kPassed;
  event.reason = "rule_inspect_false";
  event.scheme = "tcp";
  event.host = "db";
  event.port = 5432;
  event.method.clear();
  event.path.clear();
  event.status = 0;
  CHECK(shown(event) ==
        "2026-11-30T04:05:06.789Z  passed     -     -        tcp://db:5432  1.2 kB up, 57 kB down  532 ms  "
        "not inspected: rule_inspect_false\n");
}

TEST_CASE("logs: an observed flow is never called blocked") {
  oci::FlowEvent event = flow();
  event.observed = true;
  event.reason = "host_not_allowed";
  const std::string line = shown(event);
  CHECK(line.find("  observed   200 ") != std::string::npos);
  CHECK(line.find("would be blocked: host_not_allowed") != std::string::npos);
}

TEST_CASE("logs: a flow that failed says so in words") {
  oci::FlowEvent event = flow();
  event.status = 502;
  event.error = "origin_certificate";
  CHECK(shown(event).find("failed: origin_certificate (the host's certificate is not valid for its name)\n") != std::string::npos);
}

TEST_CASE("logs: a refusal shows its layer, its reason and its rule") {
  CHECK(shown(blocked()) == "2026-11-30T04:05:06.789Z  blocked    http  GET      https://evil.test/  host_not_allowed\n");
  oci::BlockedEvent event = blocked();
  event.rule = "deny[0] evil.test (policy.yaml:4)";
  event.reason = "host_denied";
  event.count = 40;
  CHECK(shown(event, "web") ==
        "2026-11-30T04:05:06.789Z  web             blocked    http  GET      https://evil.test/  "
        "host_denied  by deny[0] evil.test (policy.yaml:4)  40 times\n");
  event = blocked();
  event.layer = "dns";
  event.scheme.clear();
  event.method = "TXT";
  event.path.clear();
  event.port = 53;
  CHECK(shown(event) == "2026-11-30T04:05:06.789Z  blocked    dns   TXT      evil.test  host_not_allowed\n");
  event = blocked();
  event.layer = "ip";
  event.scheme = "udp";
  event.host = "2001:db8::1";
  event.port = 443;
  event.method.clear();
  event.path.clear();
  event.reason = "protocol_not_allowed";
  CHECK(shown(event) == "2026-11-30T04:05:06.789Z  blocked    ip    -        udp://[2001:db8::1]:443  protocol_not_allowed\n");
}

TEST_CASE("logs: hostile hosts, paths and names cannot write to the terminal") {
  oci::FlowEvent event = flow();
  event.host = "a\x1b]0;owned\x07.test";
  event.path = "/\xe2\x80\xae" "txt\r\n2026-11-30T04:05:06.789Z  inspected  200";
  event.method = "G\x1bT";
  const std::string line = shown(event, false, "c\x1b[1mn");
  CHECK(std::count(line.begin(), line.end(), '\n') == 1);
  for (const char c : line.substr(0, line.size() - 1)) CHECK(static_cast<unsigned char>(c) >= 0x20);
  CHECK(line.find("\xe2\x80\xae") == std::string::npos);
}

TEST_CASE("logs: colours go around columns and not into them") {
  const std::string line = shown(flow(), true);
  CHECK(line.find("\x1b[32minspected\x1b[0m  200 ") != std::string::npos);
}

TEST_CASE("logs: sizes and times are short") {
  CHECK(cli::format_bytes(0) == "0 B");
  CHECK(cli::format_bytes(999) == "999 B");
  CHECK(cli::format_bytes(1000) == "1.0 kB");
  CHECK(cli::format_bytes(9949) == "9.9 kB");
  CHECK(cli::format_bytes(9950) == "10 kB");
  CHECK(cli::format_bytes(999499) == "999 kB");
  CHECK(cli::format_bytes(999500) == "1.0 MB");
  CHECK(cli::format_bytes(10'000'000'000) == "10 GB");
  CHECK(cli::format_bytes(UINT64_MAX) == "18 EB");
  CHECK(cli::format_duration(0.84) == "0.8 ms");
  CHECK(cli::format_duration(999.6) == "1.0 s");
  CHECK(cli::format_duration(59'600) == "1 min 0 s");
  CHECK(cli::format_duration(7'260'000) == "2 h 1 min");
  CHECK(cli::format_duration(-1) == "?");
}

TEST_CASE("logs: rotated files come first and both logs are merged by time") {
  TemporaryDirectory temporary;
  const std::string& at = temporary.path;
  append(at + "/flows.jsonl.2", flow_line(1, kTime));
  append(at + "/flows.jsonl.1", flow_line(2, kTime + 10) + flow_line(3, kTime + 20));
  append(at + "/flows.jsonl", flow_line(4, kTime + 40));
  oci::BlockedEvent refusal = blocked();
  refusal.path = "/refused";
  refusal.time_us = kTime + 30;
  append(at + "/blocked.jsonl", line_of(refusal));
  cli::MergedLogs logs;
  logs.add(at, "web", true, true);
  CHECK(drain(logs) == std::vector<std::string>{"/1", "/2", "/3", "/refused", "/4"});
  CHECK(logs.unreadable() == 0);
}

TEST_CASE("logs: what is appended later comes later, half a line not before its other half") {
  TemporaryDirectory temporary;
  const std::string path = temporary.path + "/flows.jsonl";
  cli::MergedLogs logs;
  logs.add(temporary.path, "web", true, true);
  CHECK(drain(logs).empty());
  append(path, flow_line(1, kTime));
  CHECK(drain(logs) == std::vector<std::string>{"/1"});
  const std::string second = flow_line(2, kTime + 1);
  append(path, second.substr(0, 40));
  CHECK(drain(logs).empty());
  append(path, second.substr(40));
  CHECK(drain(logs) == std::vector<std::string>{"/2"});
}

TEST_CASE("logs: no line is lost or doubled when files are rotated while one follows") {
  TemporaryDirectory temporary;
  const std::string path = temporary.path + "/flows.jsonl";
  const auto rotate = [&] {
    for (int number = 3; number >= 1; --number) {
      (void)::rename((path + "." + std::to_string(number)).c_str(), (path + "." + std::to_string(number + 1)).c_str());
    }
    REQUIRE(::rename(path.c_str(), (path + ".1").c_str()) == 0);
  };
  append(path, flow_line(1, kTime));
  cli::MergedLogs logs;
  logs.add(temporary.path, "web", true, false);
  CHECK(drain(logs) == std::vector<std::string>{"/1"});
  append(path, flow_line(2, kTime + 1));  // written just before the rename
  rotate();
  append(path, flow_line(3, kTime + 2));
  CHECK(drain(logs) == std::vector<std::string>{"/2", "/3"});
  // Twice between two looks.
  append(path, flow_line(4, kTime + 3));
  rotate();
  append(path, flow_line(5, kTime + 4));
  rotate();
  append(path, flow_line(6, kTime + 5));
  CHECK(drain(logs) == std::vector<std::string>{"/4", "/5", "/6"});
}

TEST_CASE("logs: garbage is counted, left out, and does not end the reading") {
  TemporaryDirectory temporary;
  const std::string path = temporary.path + "/flows.jsonl";
  append(path, "not json\n" + std::string(200'000, 'x') + "\n" + flow_line(1, kTime) + "{}\n[1]\n");
  cli::MergedLogs logs;
  logs.add(temporary.path, "web", true, true);
  CHECK(drain(logs) == std::vector<std::string>{"/1"});
  CHECK(logs.unreadable() >= 4);
}

TEST_CASE("logs: a line of one log does not count as one of the other") {
  CHECK_FALSE(cli::parse_log_line(cli::LogKind::kBlocked, line_of(flow())));
}
