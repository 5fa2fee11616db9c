#include "oci-spec/config.h"

#include <filesystem>

#include "base/file.h"
#include "tests/unit/catch.h"

using namespace leash;

namespace {

std::vector<std::string> samples(const std::string& directory) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(SAMPLES_DIRECTORY "/" + directory)) {
    paths.push_back(entry.path());
  }
  return paths;
}

// A document with `part` inside "linux".
std::string with_linux(const std::string& part) {
  return R"({"ociVersion":"1.0.2","root":{"path":"r"},"linux":{)" + part + "}}";
}

std::string error_of(const std::string& text) {
  Result<oci::Config> config = oci::parse_config(text);
  return config ? std::string() : config.error().message();
}

}  // namespace

TEST_CASE("config: every good sample of the specification is accepted") {
  for (const std::string& path : samples("config/good")) {
    INFO(path);
    Result<std::string> text = file::read(path);
    REQUIRE(text);
    INFO(error_of(*text));
    CHECK(oci::parse_config(*text));
  }
}

TEST_CASE("config: every bad sample of the specification is refused in one line") {
  for (const std::string& path : samples("config/bad")) {
    INFO(path);
    Result<std::string> text = file::read(path);
    REQUIRE(text);
    Result<oci::Config> config = oci::parse_config(*text);
    REQUIRE_FALSE(config);
    CHECK(config.error().message().find('\n') == std::string::npos);
    CHECK_FALSE(config.error().message().empty());
  }
}

TEST_CASE("config: the specification's example arrives field by field") {
  Result<std::string> text = file::read(SAMPLES_DIRECTORY "/config/good/spec-example.json");
  REQUIRE(text);
  Result<oci::Config> parsed = oci::parse_config(*text);
  REQUIRE(parsed);
  const oci::Config& config = *parsed;
  REQUIRE(config.process);
  CHECK(config.process->terminal);
  CHECK(config.process->user.additional_gids == std::vector<uint32_t>{5, 6});
  CHECK(config.process->capabilities->ambient == std::vector<std::string>{"CAP_NET_BIND_SERVICE"});
  CHECK(config.process->rlimits.at(1).type == "RLIMIT_NOFILE");
  CHECK(config.process->no_new_privileges);
  CHECK_FALSE(config.process->oom_score_adj);
  CHECK(config.root.readonly);
  CHECK(config.mounts.size() == 7);
  CHECK(config.mounts.at(1).options.at(2) == "mode=755");
  CHECK(config.hooks.prestart.at(0).args.size() == 3);
  CHECK(config.hooks.poststart.at(0).timeout_seconds == 5);
  CHECK_FALSE(config.hooks.poststop.at(0).timeout_seconds);
  CHECK(config.linux.namespaces.size() == 8);
  CHECK(config.linux.find_namespace(oci::NamespaceType::kTime) != nullptr);
  CHECK(config.linux.devices.at(1).type == 'b');
  CHECK(config.linux.devices.at(0).file_mode == 438u);
  CHECK(config.linux.resources.pids_limit == 32771);
  CHECK(config.linux.resources.memory.kernel == -1);
  CHECK(config.linux.resources.memory.swappiness == 0u);
  CHECK(config.linux.resources.cpu.cpus == "2-3");
  CHECK_FALSE(config.linux.resources.cpu.idle);
  CHECK(config.linux.resources.devices.at(0).type == 'a');
  CHECK(config.linux.resources.devices.at(1).minor == 229);
  CHECK(config.linux.resources.block_io.weight_devices.at(0).leaf_weight == 300);
  CHECK(config.linux.resources.hugepage_limits.at(0).limit == 9223372036854772000u);
  CHECK(config.linux.resources.network.class_id == 1048577u);
  CHECK(config.linux.seccomp->syscalls.at(0).names.size() == 2);
  CHECK(config.linux.time_offset_boottime->secs == 604800);
  CHECK(config.linux.rootfs_propagation == "slave");
  CHECK(config.annotations.at("com.example.key2") == "value2");
}

TEST_CASE("config: a wrong type is named with its place") {
  CHECK(error_of(with_linux(R"("namespaces":[{"type":"pid"},{"type":"ipc"},{"type":7}])")) ==
        "linux.namespaces[2].type: expected a string, found a number");
  CHECK(error_of(with_linux(R"("namespaces":{})")) == "linux.namespaces: expected an array, found an object");
  CHECK(error_of(with_linux(R"("sysctl":{"a.b":1})")) == "linux.sysctl.a.b: expected a string, found a number");
  CHECK(error_of(with_linux(R"("resources":{"memory":{"limit":1.5}})")) ==
        "linux.resources.memory.limit: expected an integer, found a number that is not an integer");
  CHECK(error_of(R"({"ociVersion":"1.0.0","process":[]})") == "process: expected an object, found an array");
  CHECK(error_of("[]") == "document: expected an object, found an array");
}

TEST_CASE("config: numbers out of their range are refused") {
  CHECK(error_of(with_linux(R"("uidMappings":[{"containerID":-1,"hostID":0,"size":1}])")) ==
        "linux.uidMappings[0].containerID: -1 is out of range");
  CHECK(error_of(with_linux(R"("uidMappings":[{"containerID":4294967296,"hostID":0,"size":1}])")) ==
        "linux.uidMappings[0].containerID: 4294967296 is out of range");
  CHECK(error_of(with_linux(R"("resources":{"memory":{"limit":9223372036854775808}})")) ==
        "linux.resources.memory.limit: 9223372036854775808 is out of range");
  CHECK(error_of(with_linux(R"("resources":{"cpu":{"shares":-1}})")) == "linux.resources.cpu.shares: -1 is out of range");
  CHECK(error_of(with_linux(R"("resources":{"cpu":{"quota":1e400}})")).starts_with("invalid JSON: "));
}

TEST_CASE("config: a missing required field is named") {
  CHECK(error_of("{}") == "document: required field \"ociVersion\" is missing");
  CHECK(error_of(R"({"ociVersion":"1.0.0","mounts":[{}]})") == "mounts[0]: required field \"destination\" is missing");
  CHECK(error_of(with_linux(R"("seccomp":{})")) == "linux.seccomp: required field \"defaultAction\" is missing");
}

TEST_CASE("config: words of enumerations are checked") {
  CHECK(error_of(with_linux(R"("namespaces":[{"type":"nosuchns"}])")) ==
        "linux.namespaces[0]: namespace {\"nosuchns\" \"\"} does not exist");
  CHECK(error_of(with_linux(R"("rootfsPropagation":"sideways")")) == "linux.rootfsPropagation: unknown value \"sideways\"");
  CHECK(error_of(with_linux(R"("rootfsPropagation":"rslave")")).empty());
  CHECK(error_of(with_linux(R"("devices":[{"type":"x","path":"/dev/x"}])")) ==
        "linux.devices[0]: invalid type \"x\", must be one of 'c', 'b', 'u', 'p'");
  CHECK(error_of(R"({"ociVersion":"2.0.0"})").find("unsupported ociVersion") != std::string::npos);
  CHECK(error_of(R"({"ociVersion":"1.3.0"})").empty());
}

TEST_CASE("config: unknown fields and null are as if absent") {
  CHECK(error_of(with_linux(R"("somethingNew":{"x":[1]},"seccomp":null,"resources":{"memory":{"limit":null}})")).empty());
  Result<oci::Config> config = oci::parse_config(with_linux(R"("seccomp":null)"));
  REQUIRE(config);
  CHECK_FALSE(config->linux.seccomp);
}

TEST_CASE("config: a string with a NUL never reaches a system call") {
  CHECK(error_of(R"({"ociVersion":"1.0.0","root":{"path":"/safe\u0000/../evil"}})") ==
        "root.path: the string contains a NUL character");
}

TEST_CASE("config: device rules read as runc reads them") {
  Result<oci::Resources> parsed = oci::parse_resources(
      R"({"devices":[{"allow":false,"access":"rwm"},{"allow":true,"type":"c","major":-1,"minor":5,"access":"m"},{"allow":true,"type":"u","access":"r"}]})");
  REQUIRE(parsed);
  CHECK(parsed->devices.at(0).type == 'a');
  CHECK_FALSE(parsed->devices.at(1).major);
  CHECK(parsed->devices.at(1).minor == 5);
  CHECK(parsed->devices.at(2).type == 'c');
  CHECK_FALSE(oci::parse_resources(R"({"devices":[{"allow":true,"type":"c","access":"rwx"}]})"));
  CHECK_FALSE(oci::parse_resources(R"({"devices":[{"allow":true,"type":"c"}]})"));
  CHECK_FALSE(oci::parse_resources(R"({"devices":[{"allow":true,"type":"zz","access":"r"}]})"));
}

TEST_CASE("config: names that become cgroup files cannot be paths") {
  CHECK_FALSE(oci::parse_resources(R"({"unified":{"../../cgroup.procs":"1"}})"));
  CHECK(oci::parse_resources(R"({"unified":{"memory.high":"1"}})"));
}

TEST_CASE("config: swappiness of 2^64-1 means unset, above 100 is refused") {
  Result<oci::Resources> unset = oci::parse_resources(R"({"memory":{"swappiness":18446744073709551615}})");
  REQUIRE(unset);
  CHECK_FALSE(unset->memory.swappiness);
  CHECK_FALSE(oci::parse_resources(R"({"memory":{"swappiness":101}})"));
}

TEST_CASE("config: a process document travels alone") {
  Result<oci::Process> process = oci::parse_process(
      R"({"cwd":"/","args":["true"],"user":{"uid":1000,"gid":5},"execCPUAffinity":{"initial":"0-1","final":"1"}})");
  REQUIRE(process);
  CHECK(process->user.uid == 1000);
  CHECK(process->exec_cpu_affinity->final_cpus == "1");
  Result<oci::Process> bad = oci::parse_process(R"({"user":{"uid":"root"}})");
  REQUIRE_FALSE(bad);
  CHECK(bad.error().message() == "user.uid: expected an unsigned integer, found a string");
}

TEST_CASE("config: the template of `spec` can be run, also rootless") {
  for (bool rootless : {false, true}) {
    Result<oci::Config> config = oci::parse_config(oci::default_config(rootless, true, 1000, 100));
    REQUIRE(config);
    CHECK(oci::validate_for_create(*config));
    CHECK((config->linux.find_namespace(oci::NamespaceType::kUser) != nullptr) == rootless);
    CHECK((config->linux.find_namespace(oci::NamespaceType::kNetwork) != nullptr) != rootless);
    CHECK(config->linux.uid_mappings.size() == (rootless ? 1u : 0u));
    CHECK(config->process->rlimits.at(0).hard == 1024);
  }
  const std::string on_v1 = oci::default_config(false, false, 0, 0);
  CHECK(oci::parse_config(on_v1)->linux.find_namespace(oci::NamespaceType::kCgroup) == nullptr);
}

TEST_CASE("config: a redacted document has everything but the environment") {
  Result<std::string> text = oci::redact_environment(
      R"({"ociVersion":"1.0.0","process":{"cwd":"/","args":["sh"],"env":["ANTHROPIC_API_KEY=sk-ant-real"]}})");
  REQUIRE(text);
  CHECK(text->find("sk-ant-real") == std::string::npos);
  Result<oci::Config> config = oci::parse_config(*text);
  REQUIRE(config);
  CHECK(config->process->env.empty());
  CHECK(config->process->args == std::vector<std::string>{"sh"});
  CHECK_FALSE(oci::redact_environment("[]"));
  CHECK(*oci::replace_environment(R"({"process":{"env":["A=secret"],"cwd":"/"}})", {"A=placeholder"}) ==
        R"({"process":{"cwd":"/","env":["A=placeholder"]}})");
}
