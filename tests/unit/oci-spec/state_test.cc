#include "oci-spec/state.h"

#include "base/file.h"
#include "oci-spec/features.h"
#include "tests/unit/catch.h"

using namespace leash;

namespace {

oci::State sample() {
  oci::State state;
  state.oci_version = "1.0.2-dev";
  state.id = "c1";
  state.status = oci::Status::kRunning;
  state.pid = 42;
  state.bundle = "/b";
  state.rootfs = "/b/rootfs";
  state.created = "2026-11-30T01:02:03.456789Z";
  return state;
}

}  // namespace

TEST_CASE("state: `state` prints runc's fields in runc's order, with two spaces") {
  CHECK(oci::print(sample()) ==
        "{\n  \"ociVersion\": \"1.0.2-dev\",\n  \"id\": \"c1\",\n  \"pid\": 42,\n  \"status\": \"running\",\n"
        "  \"bundle\": \"/b\",\n  \"rootfs\": \"/b/rootfs\",\n  \"created\": \"2026-11-30T01:02:03.456789Z\",\n"
        "  \"owner\": \"\"\n}");
}

TEST_CASE("state: hooks get one line with the specification's fields only") {
  oci::State state = sample();
  state.status = oci::Status::kStopped;
  state.pid = 0;
  state.annotations = {{"a", "b"}};
  CHECK(oci::print_for_hook(state) ==
        R"({"ociVersion":"1.0.2-dev","id":"c1","status":"stopped","bundle":"/b","annotations":{"a":"b"}})");
}

TEST_CASE("state: no containers are null, as runc lists them") {
  CHECK(oci::print(std::vector<oci::State>{}) == "null");
  CHECK(oci::print(std::vector<oci::State>{sample()}).starts_with("[{\"ociVersion\""));
}

TEST_CASE("state: no processes are null, as runc prints them") {
  CHECK(oci::print_pids({}) == "null");
  CHECK(oci::print_pids({12, 34}) == "[12,34]");
}

TEST_CASE("state: the specification's samples are told apart") {
  Result<std::string> good = file::read(SAMPLES_DIRECTORY "/state/good/spec-example.json");
  Result<std::string> bad = file::read(SAMPLES_DIRECTORY "/state/bad/invalid-json.json");
  REQUIRE(good);
  REQUIRE(bad);
  Result<oci::State> state = oci::parse_state(*good);
  REQUIRE(state);
  CHECK(state->pid == 4422);
  CHECK_FALSE(oci::parse_state(*bad));
  CHECK_FALSE(oci::parse_state(R"({"ociVersion":"1.0.0","id":"x","status":"asleep","bundle":"/b"})"));
}

TEST_CASE("state: a record survives print and parse") {
  oci::ContainerRecord record;
  record.id = "c1";
  record.oci_version = "1.3.0";
  record.bundle = "/b";
  record.init_pid = 7;
  record.init_start_time = 18446744073709551615u;
  record.is_leashed = true;
  record.cgroups = {{"memory", "/sys/fs/cgroup/memory/x"}, {"", "/sys/fs/cgroup/unified/x"}};
  record.annotations = {{"k", "v"}};
  record.poststop_hooks = {{"/h", {"h", "x"}, {"A=b"}, 3}};
  Result<oci::ContainerRecord> back = oci::parse_container_record(oci::print(record));
  REQUIRE(back);
  CHECK(back->init_start_time == record.init_start_time);
  CHECK(back->is_leashed);
  CHECK(back->cgroups.at(1).path == "/sys/fs/cgroup/unified/x");
  CHECK(back->poststop_hooks.at(0).timeout_seconds == 3);
  CHECK(back->poststop_hooks.at(0).args.size() == 2);
}

TEST_CASE("state: text that is not UTF-8 does not break the log line") {
  CHECK(oci::print_log_line("error", "bad \xff byte\n", "T") == "{\"level\":\"error\",\"msg\":\"bad \xef\xbf\xbd byte\\n\",\"time\":\"T\"}");
}

TEST_CASE("features: what engines look for is there") {
  oci::Features features;
  features.oci_version_min = "1.0.0";
  features.oci_version_max = "1.3.0";
  features.mount_options = {"rro"};
  std::string text = oci::print(features);
  CHECK(text.find("    \"ociVersionMax\": \"1.3.0\"") != std::string::npos);
  CHECK(text.find("\"rro\"") != std::string::npos);
}
