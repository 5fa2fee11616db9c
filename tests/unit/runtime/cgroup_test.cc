// Against the cgroups of this machine, whatever version they are: each test makes one of its own name and
// removes it. Without the right to make cgroups the tests say so and end.
#include "runtime/cgroup.h"

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "base/file.h"
#include "base/sys.h"
#include "runtime/cgroup_devices.h"
#include "runtime/cgroup_files.h"
#include "runtime/cgroup_limits.h"
#include "runtime/cgroup_stats.h"
#include "tests/unit/catch.h"
#include "tests/unit/runtime/in_child.h"

using namespace leash;
using runtime::Cgroup;
using runtime::CgroupMode;
using tests::in_child;

namespace {

std::string error_text(const Result<void>& result) { return result ? std::string() : result.error().message(); }

// A planned cgroup that is gone after the test, with a process inside on demand.
struct Fixture {
  explicit Fixture(const std::string& name, const std::string& prefix = "/leash-unit-") {
    Result<Cgroup> planned = Cgroup::plan({prefix + name + '-' + std::to_string(getpid()), "id", false, false});
    INFO((planned ? std::string() : planned.error().message()));
    REQUIRE(planned);
    cgroup = *std::move(planned);
  }
  ~Fixture() {
    if (child > 0) {
      (void)cgroup.thaw();
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
    (void)cgroup.kill_all();
    (void)cgroup.destroy();
  }
  void create(const oci::Resources& resources = {}) {
    Result<void> outcome = cgroup.create(resources);
    INFO(error_text(outcome));
    REQUIRE(outcome);
  }
  void start_process() {
    child = fork();
    if (child == 0) {
      for (;;) pause();
    }
    REQUIRE(child > 0);
    Result<void> joined = cgroup.join(child);
    INFO(error_text(joined));
    REQUIRE(joined);
  }
  [[nodiscard]] std::string read(std::string_view controller, std::string_view file) const {
    Result<std::string> text = runtime::cgroup_files::read(cgroup.directory(controller), file);
    return text ? *text : text.error().message();
  }
  // A machine may have a v2 tree without that controller.
  [[nodiscard]] bool can_limit(std::string_view controller) const {
    if (cgroup.mode() != CgroupMode::kV2) return is_v1(controller);
    Result<std::string> all = file::read("/sys/fs/cgroup/cgroup.controllers");
    return all && all->find(controller) != std::string::npos;
  }
  [[nodiscard]] bool is_v1(std::string_view controller) const {
    return cgroup.mode() != CgroupMode::kV2 && !cgroup.directory(controller).empty();
  }

  Cgroup cgroup;
  pid_t child = 0;
};

}  // namespace

TEST_CASE("cgroup: a path from config.json stays below the hierarchy") {
  Result<Cgroup> planned = Cgroup::plan({"/a/../../../b/./c", "id", false, false});
  REQUIRE(planned);
  for (const oci::CgroupPath& entry : planned->paths()) {
    INFO(entry.path);
    CHECK(entry.path.find("..") == std::string::npos);
    CHECK(entry.path.ends_with("/b/c"));
    CHECK(entry.path.starts_with("/sys/fs/cgroup/"));
  }
  CHECK_FALSE(Cgroup::plan({"/..", "id", false, false}));
  Result<Cgroup> by_id = Cgroup::plan({"", "the-id", false, false});
  REQUIRE(by_id);
  CHECK(by_id->paths().at(0).path.ends_with("/the-id"));
}

TEST_CASE("cgroup: without systemd its manager is refused by name") {
  if (std::filesystem::exists("/run/systemd/system")) return;
  Result<Cgroup> planned = Cgroup::plan({"system.slice:docker:x", "x", true, false});
  REQUIRE_FALSE(planned);
  CHECK(planned.error().message() == "systemd not running on this host, cannot use systemd cgroups manager");
}

TEST_CASE("cgroup: a process joins every hierarchy, is listed, and nothing is left at the end") {
  Fixture fixture("join");
  fixture.create();
  fixture.start_process();
  Result<std::string> text = file::read("/proc/" + std::to_string(fixture.child) + "/cgroup");
  REQUIRE(text);
  for (const oci::CgroupPath& entry : fixture.cgroup.paths()) {
    INFO(entry.controllers << " " << *text);
    CHECK(text->find(':' + entry.controllers + ":/leash-unit-join-") != std::string::npos);
  }
  Result<std::vector<pid_t>> pids = fixture.cgroup.pids();
  REQUIRE(pids);
  CHECK(*pids == std::vector<pid_t>{fixture.child});
  CHECK(Cgroup::from_record(fixture.cgroup.paths()).mode() == fixture.cgroup.mode());

  kill(fixture.child, SIGKILL);
  waitpid(fixture.child, nullptr, 0);
  fixture.child = 0;
  Result<void> removed = fixture.cgroup.destroy();
  INFO(error_text(removed));
  CHECK(removed);
  for (const oci::CgroupPath& entry : fixture.cgroup.paths()) CHECK_FALSE(std::filesystem::exists(entry.path));
  CHECK(fixture.cgroup.destroy());
}

TEST_CASE("cgroup: missing parents are made, also for a cpuset") {
  Fixture fixture("leaf", "/leash-unit-parent/sub/");
  fixture.create();
  fixture.start_process();
  CHECK(fixture.cgroup.pids().value().size() == 1);
  kill(fixture.child, SIGKILL);
  waitpid(fixture.child, nullptr, 0);
  fixture.child = 0;
  CHECK(fixture.cgroup.destroy());
  for (const oci::CgroupPath& entry : fixture.cgroup.paths()) {
    const std::filesystem::path sub = std::filesystem::path(entry.path).parent_path();
    rmdir(sub.c_str());
    rmdir(sub.parent_path().c_str());
  }
}

TEST_CASE("cgroup: one with processes is refused, one that is empty is taken") {
  Fixture fixture("used");
  fixture.create();
  Fixture again("used");
  CHECK(again.cgroup.create({}));
  fixture.start_process();
  Result<void> outcome = again.cgroup.create({});
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().message() == "container's cgroup is not empty: 1 process(es) found");
  CHECK_FALSE(again.cgroup.check_unused());
}

TEST_CASE("cgroup: limits are in the kernel's files") {
  Fixture fixture("limits");
  oci::Resources resources;
  resources.memory.limit = 64 << 20;
  resources.memory.swap = 96 << 20;
  resources.memory.reservation = 32 << 20;
  resources.cpu.shares = 512;
  resources.cpu.quota = 50000;
  resources.cpu.period = 100000;
  resources.pids_limit = 20;
  resources.cpu.cpus = "0";
  if (!fixture.is_v1("memory")) return;
  fixture.create(resources);
  CHECK(fixture.read("memory", "memory.limit_in_bytes") == std::to_string(64 << 20));
  if (runtime::cgroup_files::exists(fixture.cgroup.directory("memory"), "memory.memsw.limit_in_bytes")) {
    CHECK(fixture.read("memory", "memory.memsw.limit_in_bytes") == std::to_string(96 << 20));
  }
  CHECK(fixture.read("memory", "memory.soft_limit_in_bytes") == std::to_string(32 << 20));
  CHECK(fixture.read("cpu", "cpu.shares") == "512");
  CHECK(fixture.read("cpu", "cpu.cfs_quota_us") == "50000");
  CHECK(fixture.read("pids", "pids.max") == "20");
  CHECK(fixture.read("cpuset", "cpuset.cpus") == "0");

  SECTION("an update raises and lowers memory and swap in any order, and keeps what it does not name") {
    for (const int64_t megabytes : {256, 16, 128}) {
      oci::Resources change;
      change.memory.limit = megabytes << 20;
      change.memory.swap = (megabytes + 8) << 20;
      Result<void> outcome = fixture.cgroup.update(change);
      INFO(error_text(outcome));
      REQUIRE(outcome);
      CHECK(fixture.read("memory", "memory.limit_in_bytes") == std::to_string(megabytes << 20));
    }
    CHECK(fixture.read("pids", "pids.max") == "20");
    oci::Resources unlimited;
    unlimited.memory.limit = -1;
    unlimited.pids_limit = -1;
    REQUIRE(fixture.cgroup.update(unlimited));
    CHECK(fixture.read("pids", "pids.max") == "max");
    CHECK(fixture.read("memory", "memory.limit_in_bytes").size() > 15);
  }
  SECTION("quota and period change together whatever the order has to be") {
    oci::Resources change;
    change.cpu.quota = 900000;
    change.cpu.period = 1000000;
    REQUIRE(fixture.cgroup.update(change));
    change.cpu.quota = 1000;
    change.cpu.period = 1000;
    REQUIRE(fixture.cgroup.update(change));
    CHECK(fixture.read("cpu", "cpu.cfs_period_us") == "1000");
  }
  SECTION("shares that the kernel would round are refused in runc's words") {
    oci::Resources change;
    change.cpu.shares = 10000000;
    CHECK(error_text(fixture.cgroup.update(change)) == "the maximum allowed cpu-shares is 262144");
    change.cpu.shares = 1;
    CHECK(error_text(fixture.cgroup.update(change)) == "the minimum allowed cpu-shares is 2");
  }
}

TEST_CASE("cgroup: a limit that cannot be kept is an error, and nothing is left behind") {
  Fixture fixture("bad");
  oci::Resources resources;
  resources.cpu.cpus = "4000";
  CHECK_FALSE(fixture.cgroup.create(resources));
  for (const oci::CgroupPath& entry : fixture.cgroup.paths()) CHECK_FALSE(std::filesystem::exists(entry.path));
  resources = {};
  resources.network.class_id = 1;
  if (fixture.cgroup.directory("net_cls").empty()) CHECK_FALSE(fixture.cgroup.create(resources));
}

TEST_CASE("cgroup: a memory limit below what is in use is refused with both numbers") {
  Fixture fixture("busy");
  if (!fixture.is_v1("memory")) return;
  fixture.create();
  // 16 MiB of pages that cannot be dropped: there is no swap for them below the limit of both.
  fixture.child = fork();
  if (fixture.child == 0) {
    if (!fixture.cgroup.join(getpid())) _exit(1);
    std::string pages(16 << 20, 'x');
    (void)file::write_control("/proc/self/oom_score_adj", "1000");
    for (;;) {
      std::fill(pages.begin(), pages.end(), 'y');
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  for (int i = 0; i < 1000 && runtime::cgroup_files::read_number(fixture.cgroup.directory("memory"), "memory.usage_in_bytes").value_or(0) < (16 << 20); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  oci::Resources change;
  change.memory.limit = 1 << 20;
  Result<void> outcome = fixture.cgroup.update(change);
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().message().starts_with("unable to set memory limit to 1048576 (current usage: "));
}

TEST_CASE("cgroup: frozen processes do not run, are told, and can be killed") {
  Fixture fixture("freeze");
  fixture.create();
  fixture.start_process();
  CHECK_FALSE(fixture.cgroup.is_frozen().value());
  Result<void> frozen = fixture.cgroup.freeze();
  INFO(error_text(frozen));
  REQUIRE(frozen);
  CHECK(fixture.cgroup.is_frozen().value());
  REQUIRE(fixture.cgroup.thaw());
  CHECK_FALSE(fixture.cgroup.is_frozen().value());
  REQUIRE(fixture.cgroup.freeze());
  REQUIRE(fixture.cgroup.signal_all(SIGKILL));
  int status = 0;
  CHECK(waitpid(fixture.child, &status, 0) == fixture.child);
  CHECK(WTERMSIG(status) == SIGKILL);
  fixture.child = 0;
}

TEST_CASE("cgroup: all processes end, also those that keep forking and those in cgroups below") {
  Fixture fixture("kill");
  oci::Resources resources;
  // A machine without a bound on processes is not one to fork on without end.
  if (!fixture.can_limit("pids")) return;
  resources.pids_limit = 64;
  fixture.create(resources);
  const pid_t bomb = fork();
  if (bomb == 0) {
    (void)fixture.cgroup.join(getpid());
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
      if (fork() < 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  const pid_t below = fork();
  if (below == 0) {
    for (;;) pause();
  }
  for (const oci::CgroupPath& entry : fixture.cgroup.paths()) {
    if (entry.controllers == "cpuset") continue;
    const std::string directory = entry.path + "/below";
    REQUIRE(mkdir(directory.c_str(), 0755) == 0);
    REQUIRE(runtime::cgroup_files::write(directory, "cgroup.procs", static_cast<int64_t>(below)));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::thread reaper([&] {
    waitpid(below, nullptr, 0);
    waitpid(bomb, nullptr, 0);
  });
  Result<void> outcome = fixture.cgroup.kill_all();
  reaper.join();
  INFO(error_text(outcome));
  CHECK(outcome);
  CHECK(fixture.cgroup.pids().value().empty());
  Result<void> removed = fixture.cgroup.destroy();
  INFO(error_text(removed));
  CHECK(removed);
}

TEST_CASE("cgroup: exec's --cgroup goes below the container's own and nowhere else") {
  Fixture fixture("sub");
  fixture.create();
  if (!fixture.is_v1("memory")) return;
  const std::string below = fixture.cgroup.directory("memory") + "/inner";
  REQUIRE(mkdir(below.c_str(), 0755) == 0);
  const int code = in_child([&] {
    if (!fixture.cgroup.join(getpid(), {"memory:/inner"})) return 1;
    Result<std::string> text = file::read("/proc/self/cgroup");
    return text && text->find("/inner\n") != std::string::npos ? 0 : 2;
  });
  CHECK(code == 0);
  const auto error = [&](const std::vector<std::string>& sub) { return error_text(fixture.cgroup.join(getpid(), sub)); };
  CHECK(error({"nosuch:/inner"}) == "unknown controller nosuch in --cgroup nosuch:/inner");
  CHECK(error({".."}) == ".. is not a sub cgroup path");
  CHECK(error({"memory:inner/../../x"}) == "inner/../../x is not a sub cgroup path");
  CHECK(error({":x"}) == "invalid --cgroup argument: :x (empty <controller> prefix)");
  CHECK(error({"a", "b"}) == "invalid --cgroup argument: a (missing <controller>: prefix)");
  const std::string missing = error({"nonexistent"});
  CHECK(missing.starts_with("error adding pid "));
  CHECK(missing.ends_with("/nonexistent/cgroup.procs: no such file or directory"));
}

TEST_CASE("cgroup: a device that no rule allows cannot be opened, the default ones can") {
  Fixture fixture("devices");
  oci::Resources resources;
  resources.devices = {{false, 'a', std::nullopt, std::nullopt, "rwm"}, {true, 'c', 10, 229, "r"}};
  fixture.create(resources);
  const std::string node = "/tmp/leash-unit-device-" + std::to_string(getpid());
  REQUIRE(mknod(node.c_str(), S_IFCHR | 0600, makedev(1, 11)) == 0);  // kmsg
  const int code = in_child([&] {
    if (!fixture.cgroup.join(getpid())) return 1;
    if (!sys::open("/dev/null", O_RDWR) || !sys::open("/dev/zero", O_RDONLY)) return 2;
    Result<Fd> forbidden = sys::open(node, O_RDONLY);
    return forbidden || forbidden.error().code() != EPERM ? 3 : 0;
  });
  unlink(node.c_str());
  CHECK(code == 0);
}

TEST_CASE("cgroup: the device program of v2 decides as the rules of v1 do") {
  // The v2 tree of a hybrid machine takes it as well as a pure one.
  Fixture fixture("program");
  if (fixture.cgroup.mode() == CgroupMode::kV1) return;
  oci::Resources resources;
  resources.devices = {{true, 'c', 1, 11, "w"}};
  fixture.create(resources);
  const std::string directory = fixture.cgroup.directory("");
  if (fixture.cgroup.mode() == CgroupMode::kHybrid) {
    Result<void> attached = runtime::set_devices_v2(directory, runtime::with_default_devices(resources.devices));
    INFO(error_text(attached));
    REQUIRE(attached);
  }
  const std::string node = "/tmp/leash-unit-device2-" + std::to_string(getpid());
  REQUIRE(mknod(node.c_str(), S_IFCHR | 0600, makedev(1, 11)) == 0);
  const std::string mem = node + "-mem";
  REQUIRE(mknod(mem.c_str(), S_IFCHR | 0600, makedev(1, 1)) == 0);
  const int code = in_child([&] {
    // On a hybrid machine the v2 tree only: v1's rules are not asked.
    if (!runtime::cgroup_files::write(directory, "cgroup.procs", static_cast<int64_t>(getpid()))) return 1;
    if (!sys::open("/dev/null", O_RDWR) || !sys::open("/dev/urandom", O_RDONLY)) return 2;
    if (!sys::open(node, O_WRONLY)) return 3;
    if (sys::open(node, O_RDWR)) return 4;
    if (sys::open(node, O_RDONLY)) return 5;
    if (sys::open(mem, O_RDONLY)) return 6;
    const std::string other = node + "-x";
    if (mknod(other.c_str(), S_IFCHR | 0600, makedev(1, 1)) != 0) return 7;  // mknod of any is allowed
    unlink(other.c_str());
    return 0;
  });
  unlink(node.c_str());
  unlink(mem.c_str());
  CHECK(code == 0);
}

TEST_CASE("cgroup: device rules change a list, in order") {
  using runtime::device_list;
  const std::optional<int64_t> any;
  auto list = device_list({{true, 'a', any, any, "rwm"}, {false, 'c', 1, 1, "w"}});
  CHECK(list.allows_by_default);
  REQUIRE(list.exceptions.size() == 1);
  list = device_list({{false, 'c', 9, 9, "r"}, {false, 'a', any, any, "rwm"}, {true, 'c', 1, 3, "r"}, {true, 'c', 1, 3, "w"}, {true, 'b', 8, any, "r"}, {false, 'b', 8, any, "r"}});
  CHECK_FALSE(list.allows_by_default);
  REQUIRE(list.exceptions.size() == 1);
  CHECK(list.exceptions[0] == runtime::DeviceList::Exception{'c', 1, 3, 2 | 4});
}

TEST_CASE("cgroup: what a container uses is counted") {
  Fixture fixture("stats");
  if (!fixture.can_limit("memory") || !fixture.can_limit("pids")) return;
  oci::Resources resources;
  resources.pids_limit = 7;
  resources.memory.limit = 64 << 20;
  fixture.create(resources);
  fixture.start_process();
  Result<oci::ContainerStats> stats = runtime::container_stats(fixture.cgroup);
  REQUIRE(stats);
  CHECK(stats->pids_current == 1);
  CHECK(stats->pids_limit == 7);
  CHECK(stats->memory.limit == 64 << 20);
  CHECK_FALSE(stats->memory_raw.empty());
  const std::string line = oci::print_stats_event("c", *stats);
  CHECK(line.starts_with(R"({"type":"stats","id":"c","data":{"cpu":{"usage":{)"));
  CHECK(line.find(R"("pids":{"current":1,"limit":7})") != std::string::npos);
  CHECK(line.ends_with(R"("intel_rdt":{},"network_interfaces":null}})"));
}

TEST_CASE("cgroup: the OOM killer's work is noticed and counted") {
  Fixture fixture("oom");
  if (!fixture.can_limit("memory")) return;
  oci::Resources resources;
  resources.memory.limit = 8 << 20;
  resources.memory.swap = 8 << 20;
  fixture.create(resources);
  Result<runtime::OomNotice> notice = runtime::watch_oom(fixture.cgroup);
  REQUIRE(notice);
  CHECK(fixture.cgroup.oom_kills() == 0);
  const int code = in_child([&] {
    if (!fixture.cgroup.join(getpid())) return 1;
    std::string pages(64 << 20, 'x');
    return pages.find('y') == 0 ? 2 : 3;
  });
  CHECK(code == 1000 + SIGKILL);
  pollfd entry = {notice->fd.get(), notice->poll_events, 0};
  CHECK(poll(&entry, 1, 2000) == 1);
  CHECK(fixture.cgroup.oom_kills() == 1);
  notice->acknowledge();
  CHECK(poll(&entry, 1, 0) == 0);
}

TEST_CASE("cgroup: v1 numbers become v2 numbers as in runc") {
  CHECK(runtime::cpu_weight_of_shares(2) == 1);
  CHECK(runtime::cpu_weight_of_shares(1024) == 100);
  CHECK(runtime::cpu_weight_of_shares(262144) == 10000);
  CHECK(runtime::cpu_weight_of_shares(1 << 30) == 10000);
  CHECK(runtime::pids_limit_text(-1) == "max");
  CHECK(runtime::pids_limit_text(0) == "1");
  CHECK(runtime::io_weight_of_blkio(10) == 1);
  CHECK(runtime::io_weight_of_blkio(1000) == 10000);
  const auto swap = [](std::optional<int64_t> limit, std::optional<int64_t> both) {
    oci::MemoryResources memory;
    memory.limit = limit;
    memory.swap = both;
    return runtime::v2_swap(memory);
  };
  CHECK(swap(100, 300).value() == 200);
  CHECK(swap(100, 100).value() == 0);
  CHECK(swap(-1, std::nullopt).value() == -1);
  CHECK(swap(100, -1).value() == -1);
  CHECK_FALSE(swap(100, std::nullopt).value().has_value());
  CHECK_FALSE(swap(300, 100));
  CHECK_FALSE(swap(std::nullopt, 100));
}
