#include "oci-spec/config.h"
#include "tests/unit/catch.h"

using namespace leash;

namespace {

oci::Config valid() {
  Result<oci::Config> config = oci::parse_config(oci::default_config(false, true, 0, 0));
  REQUIRE(config);
  return std::move(config).value();
}

std::string error_of(const oci::Config& config) {
  Result<void> verdict = oci::validate_for_create(config);
  return verdict ? std::string() : verdict.error().message();
}

void drop_namespace(oci::Config& config, oci::NamespaceType type) {
  std::erase_if(config.linux.namespaces, [type](const oci::Namespace& entry) { return entry.type == type; });
}

}  // namespace

TEST_CASE("validate: a container needs a process with args and an absolute cwd") {
  oci::Config config = valid();
  config.process->args.clear();
  CHECK(error_of(config) == "args must not be empty");
  config.process->args = {"sh"};
  config.process->cwd = "tmp";
  CHECK(error_of(config) == "Cwd must be an absolute path");
  config.process->cwd = "";
  CHECK(error_of(config) == "Cwd property must not be empty");
  config.process.reset();
  CHECK(error_of(config) == "process property must not be empty");
}

TEST_CASE("validate: a number that setresuid takes for 'no change' is no user") {
  const std::string refused = "unable to setup user: uids and gids must be in range 0-2147483647";
  for (uint32_t number : {0xffffffffu, 0x80000000u}) {
    oci::Config config = valid();
    config.process->user.uid = number;
    CHECK(error_of(config) == refused);
    config.process->user = {};
    config.process->user.gid = number;
    CHECK(error_of(config) == refused);
    config.process->user = {};
    config.process->user.additional_gids = {1, number};
    CHECK(error_of(config) == refused);
  }
  oci::Config config = valid();
  config.process->user.uid = config.process->user.gid = 0x7fffffff;
  CHECK(error_of(config).empty());
}

TEST_CASE("validate: a namespace given twice is refused") {
  oci::Config config = valid();
  config.linux.namespaces.push_back({oci::NamespaceType::kPid, ""});
  CHECK(error_of(config) == "malformed spec file: duplicated ns {\"pid\" \"\"}");
}

TEST_CASE("validate: a hostname needs a UTS namespace") {
  oci::Config config = valid();
  drop_namespace(config, oci::NamespaceType::kUts);
  CHECK(error_of(config) == "unable to set hostname without a private UTS namespace");
}

TEST_CASE("validate: masked paths need a mount namespace") {
  oci::Config config = valid();
  drop_namespace(config, oci::NamespaceType::kMount);
  CHECK(error_of(config) == "unable to restrict sys entries without a private MNT namespace");
}

TEST_CASE("validate: a sysctl of the host is refused, one of a namespace is not") {
  oci::Config config = valid();
  auto verdict = [&config](const char* name) {
    config.linux.sysctl = {{name, "1"}};
    return error_of(config);
  };
  CHECK(verdict("kernel.nosuch") == "sysctl \"kernel.nosuch\" is not in a separate kernel namespace");
  CHECK(verdict("vm.swappiness") == "sysctl \"vm.swappiness\" is not in a separate kernel namespace");
  CHECK(verdict("net.ipv4.ip_forward").empty());
  CHECK(verdict("net/ipv4/conf/eth0.100/forwarding").empty());
  CHECK(verdict("kernel.shmmax").empty());
  CHECK(verdict("fs.mqueue.msg_max").empty());
  CHECK(verdict("kernel.hostname") == "sysctl \"kernel.hostname\" conflicts with the OCI \"hostname\" field");
  CHECK_FALSE(verdict("net/../kernel/core_pattern").empty());
  CHECK_FALSE(verdict("net...kernel.core_pattern").empty());
  drop_namespace(config, oci::NamespaceType::kNetwork);
  CHECK(verdict("net.ipv4.ip_forward") == "sysctl \"net.ipv4.ip_forward\" not allowed in host network namespace");
  drop_namespace(config, oci::NamespaceType::kIpc);
  CHECK(verdict("kernel.shmmax") == "sysctl \"kernel.shmmax\" is not allowed in the hosts ipc namespace");
}

TEST_CASE("validate: id mappings and the user namespace come together") {
  oci::Config config = valid();
  config.linux.uid_mappings = {{0, 1000, 1}};
  CHECK_FALSE(error_of(config).empty());
  config.linux.namespaces.push_back({oci::NamespaceType::kUser, ""});
  CHECK(error_of(config) == "user namespaces enabled, but no user mappings found");
  config.linux.gid_mappings = {{0, 1000, 1}};
  CHECK(error_of(config).empty());
}

TEST_CASE("validate: time offsets need a new time namespace") {
  oci::Config config = valid();
  config.linux.time_offset_boottime = oci::TimeOffset{1, 0};
  CHECK_FALSE(error_of(config).empty());
  config.linux.namespaces.push_back({oci::NamespaceType::kTime, ""});
  CHECK(error_of(config).empty());
}

TEST_CASE("validate: scheduler and io priority keep the kernel's bounds") {
  oci::Config config = valid();
  config.process->scheduler = oci::Scheduler{"SCHED_BATCH", 20, 0, {}, 0, 0, 0};
  CHECK(error_of(config) == "invalid scheduler.nice: 20");
  config.process->scheduler = oci::Scheduler{"SCHED_BATCH", 0, 1, {}, 0, 0, 0};
  CHECK_FALSE(error_of(config).empty());
  config.process->scheduler.reset();
  config.process->io_priority = oci::IoPriority{"IOPRIO_CLASS_BE", 8};
  CHECK(error_of(config) == "invalid ioPriority.Priority: 8");
}

TEST_CASE("validate: a network device needs a namespace and a name the kernel takes") {
  oci::Config config = valid();
  config.linux.net_devices = {{"eth0", "in side"}};
  CHECK(error_of(config) == "invalid network device name \"in side\"");
  config.linux.net_devices = {{"eth0", ""}};
  CHECK(error_of(config).empty());
  drop_namespace(config, oci::NamespaceType::kNetwork);
  CHECK_FALSE(error_of(config).empty());
}
