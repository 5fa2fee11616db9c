#include "shim/process_finder.h"

#include "tests/unit/catch.h"

using namespace leash::shim;
using std::chrono::milliseconds;

namespace {

constexpr const char* kHybrid =
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "39 31 0:36 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
    "40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

}  // namespace

TEST_CASE("process finder: a container's cgroup is found in the hierarchy in which it has one") {
  CHECK(cgroup_directory("3:pids:/docker/ab\n1:name=systemd:/\n0::/\n", kHybrid) == "/sys/fs/cgroup/pids/docker/ab");
  CHECK(cgroup_directory("2:cpu,cpuacct:/docker/ab\n", kHybrid) == "/sys/fs/cgroup/cpu,cpuacct/docker/ab");
  CHECK(cgroup_directory("1:name=systemd:/docker/ab\n0::/\n", kHybrid) == "/sys/fs/cgroup/systemd/docker/ab");
  CHECK(cgroup_directory("0::/system.slice/docker-ab.scope\n", "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n") ==
        "/sys/fs/cgroup/system.slice/docker-ab.scope");
}

TEST_CASE("process finder: everybody's cgroup is nobody's, and one that is mounted nowhere is not found") {
  CHECK(cgroup_directory("3:pids:/\n0::/\n", kHybrid).empty());
  CHECK(cgroup_directory("9:rdma:/docker/ab\n", kHybrid).empty());
  CHECK(cgroup_directory("0::/../other\n", kHybrid).empty());
  CHECK(cgroup_directory("", kHybrid).empty());
  CHECK(cgroup_directory("nonsense\n::\n0::/a\n", "nonsense\n").empty());
}

TEST_CASE("process finder: below a mount of a part of the hierarchy, the part's path is left out") {
  const char* mounts = "41 31 0:38 /docker/outer /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
  CHECK(cgroup_directory("0::/docker/outer/docker/inner\n", mounts) == "/sys/fs/cgroup/docker/inner");
  CHECK(cgroup_directory("0::/docker/outermost/inner\n", mounts).empty());
}

TEST_CASE("process finder: pids are read outermost first") {
  CHECK(namespace_pids("Name:\tcurl\nNSpid:\t4242\t17\t1\nNSpgid:\t1\n") == std::vector<uint32_t>{4242, 17, 1});
  CHECK(namespace_pids("NSpid:\t4242") == std::vector<uint32_t>{4242});
  CHECK(namespace_pids("Name:\tcurl\n").empty());
  CHECK(namespace_pids("").empty());
}

TEST_CASE("process finder: a process cannot pass for another by its name in its status") {
  // The kernel escapes a line feed in a name.
  CHECK(namespace_pids("Name:\ta\\nNSpid:\t1\nNSpid:\t4242\t17\n") == std::vector<uint32_t>{4242, 17});
}

TEST_CASE("process finder: time is spent up to a share of what passes, and saved up to a bound") {
  const TimeBudget::Clock::time_point start{};
  TimeBudget budget(milliseconds(100), 20, start);
  CHECK(budget.has_some(start));
  budget.spend(milliseconds(101));
  CHECK_FALSE(budget.has_some(start));
  CHECK_FALSE(budget.has_some(start + milliseconds(10)));
  CHECK(budget.has_some(start + milliseconds(30)));
  CHECK(budget.has_some(start + std::chrono::hours(1)));
  budget.spend(milliseconds(100));
  CHECK_FALSE(budget.has_some(start + std::chrono::hours(1)));
}

TEST_CASE("process finder: a question about addresses that are none is answered with nobody") {
  ProcessFinder finder(-1);
  CHECK(finder.find({5, "x", 1, "y", 2}).pid == 0);
  CHECK(finder.find({5, "x", 1, "y", 2}).tag == 5);
}
