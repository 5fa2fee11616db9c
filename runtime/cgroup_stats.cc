#include "runtime/cgroup_stats.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "base/sys.h"
#include "runtime/cgroup_files.h"

namespace leash::runtime {

namespace {

namespace files = cgroup_files;

constexpr uint64_t kNanosecondsPerMicrosecond = 1000;

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> out;
  for (size_t at = 0; (at = text.find_first_not_of(" \t\n", at)) != std::string_view::npos;) {
    size_t end = text.find_first_of(" \t\n", at);
    if (end == std::string_view::npos) end = text.size();
    out.push_back(text.substr(at, end - at));
    at = end;
  }
  return out;
}

template <class F>
void each_line(const std::string& directory, std::string_view file, F&& f) {
  Result<std::string> text = files::read(directory, file);
  if (!text) return;
  std::string_view rest = *text;
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    f(words(rest.substr(0, end)));
    if (end == std::string_view::npos) return;
    rest.remove_prefix(end + 1);
  }
}

uint64_t number(const std::string& directory, std::string_view file) { return files::read_number(directory, file).value_or(0); }
uint64_t number(std::string_view text) { return files::parse_number(text).value_or(0); }

// "0-2,5"
std::vector<uint16_t> parse_list(std::string_view text) {
  std::vector<uint16_t> out;
  while (!text.empty()) {
    const size_t end = text.find(',');
    const std::string_view part = text.substr(0, end);
    const size_t dash = part.find('-');
    const uint64_t first = number(part.substr(0, dash));
    const uint64_t last = dash == std::string_view::npos ? first : number(part.substr(dash + 1));
    for (uint64_t i = first; i <= last && i < 65536; ++i) out.push_back(static_cast<uint16_t>(i));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return out;
}

// ---- v1 ----

void read_cpu_v1(const Cgroup& cgroup, oci::CpuUsage& cpu) {
  if (const std::string directory = cgroup.directory("cpuacct"); !directory.empty()) {
    // In nanoseconds; cpuacct.stat counts clock ticks.
    cpu.total = number(directory, "cpuacct.usage");
    cpu.kernel = number(directory, "cpuacct.usage_sys");
    cpu.user = number(directory, "cpuacct.usage_user");
    each_line(directory, "cpuacct.usage_all", [&](const std::vector<std::string_view>& line) {  // "cpu user system"
      if (line.size() != 3 || line[0] == "cpu") return;
      cpu.per_cpu_user.push_back(number(line[1]));
      cpu.per_cpu_kernel.push_back(number(line[2]));
    });
    each_line(directory, "cpuacct.usage_percpu", [&](const std::vector<std::string_view>& line) {
      for (const std::string_view word : line) cpu.per_cpu.push_back(number(word));
    });
  }
  if (const std::string directory = cgroup.directory("cpu"); !directory.empty()) {
    cpu.periods = files::read_field(directory, "cpu.stat", "nr_periods").value_or(0);
    cpu.throttled_periods = files::read_field(directory, "cpu.stat", "nr_throttled").value_or(0);
    cpu.throttled_time = files::read_field(directory, "cpu.stat", "throttled_time").value_or(0);
  }
}

void read_cpuset_v1(const std::string& directory, oci::CpusetUse& use) {
  if (Result<std::string> text = files::read(directory, "cpuset.cpus")) use.cpus = parse_list(*text);
  if (Result<std::string> text = files::read(directory, "cpuset.mems")) use.mems = parse_list(*text);
  for (const char* name : {"cpu_exclusive", "mem_hardwall", "mem_exclusive", "memory_migrate", "memory_spread_page",
                           "memory_spread_slab", "memory_pressure", "sched_load_balance", "sched_relax_domain_level"}) {
    Result<std::string> text = files::read(directory, std::string("cpuset.") + name);
    int64_t value = 0;  // sched_relax_domain_level may be -1
    if (text && std::from_chars(text->data(), text->data() + text->size(), value).ec == std::errc()) use.flags[name] = value;
  }
}

oci::MemoryUsage memory_v1(const std::string& directory, const std::string& prefix) {
  return {number(directory, prefix + ".limit_in_bytes"), number(directory, prefix + ".usage_in_bytes"),
          number(directory, prefix + ".max_usage_in_bytes"), number(directory, prefix + ".failcnt")};
}

void read_block_io_v1(const std::string& directory, oci::ContainerStats& stats) {
  // With CFQ (until Linux 5.0) or BFQ the scheduler counts, else the throttler does.
  const bool has_scheduler = files::exists(directory, "blkio.bfq.io_serviced_recursive");
  const std::string prefix = has_scheduler ? "blkio.bfq." : "blkio.throttle.";
  const std::pair<const char*, const char*> kinds[] = {{"ioServiceBytesRecursive", "io_service_bytes_recursive"},
                                                       {"ioServicedRecursive", "io_serviced_recursive"}};
  for (const auto& kind : kinds) {
    auto& entries = stats.block_io[kind.first];
    each_line(directory, prefix + kind.second, [&](const std::vector<std::string_view>& line) {  // "8:0 Read 4096"
      if (line.size() != 3) return;  // "Total N"
      const size_t colon = line[0].find(':');
      if (colon == std::string_view::npos) return;
      entries.push_back({number(line[0].substr(0, colon)), number(line[0].substr(colon + 1)), std::string(line[1]), number(line[2])});
    });
  }
}

void read_hugetlb(const std::string& directory, bool is_v2, oci::ContainerStats& stats) {
  static const std::vector<std::string> sizes = files::children("/sys/kernel/mm/hugepages");
  for (const std::string& name : sizes) {  // "hugepages-2048kB"
    const size_t dash = name.find('-');
    const size_t unit = name.find("kB");
    if (dash == std::string::npos || unit == std::string::npos || unit <= dash) continue;
    uint64_t amount = number(std::string_view(name).substr(dash + 1, unit - dash - 1));
    const char* suffix = "KB";
    if (amount >= 1 << 20) {
      amount >>= 20;
      suffix = "GB";
    } else if (amount >= 1 << 10) {
      amount >>= 10;
      suffix = "MB";
    }
    const std::string size = std::to_string(amount) + suffix;
    const std::string prefix = "hugetlb." + size;
    if (is_v2) {
      if (!files::exists(directory, prefix + ".current")) continue;
      stats.hugetlb[size] = {0, number(directory, prefix + ".current"), 0,
                             files::read_field(directory, prefix + ".events", "max").value_or(0)};
    } else {
      if (!files::exists(directory, prefix + ".usage_in_bytes")) continue;
      stats.hugetlb[size] = memory_v1(directory, prefix);
    }
  }
}

oci::ContainerStats stats_v1(const Cgroup& cgroup) {
  oci::ContainerStats stats;
  read_cpu_v1(cgroup, stats.cpu);
  if (const std::string directory = cgroup.directory("cpuset"); !directory.empty()) read_cpuset_v1(directory, stats.cpuset);
  if (const std::string directory = cgroup.directory("memory"); !directory.empty()) {
    stats.memory = memory_v1(directory, "memory");
    stats.swap = memory_v1(directory, "memory.memsw");
    stats.kernel = memory_v1(directory, "memory.kmem");
    stats.kernel_tcp = memory_v1(directory, "memory.kmem.tcp");
    each_line(directory, "memory.stat", [&](const std::vector<std::string_view>& line) {
      if (line.size() == 2) stats.memory_raw[std::string(line[0])] = number(line[1]);
    });
    stats.memory_cache = stats.memory_raw["cache"];
  }
  if (const std::string directory = cgroup.directory("blkio"); !directory.empty()) read_block_io_v1(directory, stats);
  const std::string hugetlb = cgroup.directory("hugetlb");
  if (!hugetlb.empty()) {
    read_hugetlb(hugetlb, false, stats);
  } else if (cgroup.mode() == CgroupMode::kHybrid) {
    read_hugetlb(cgroup.directory(""), true, stats);
  }
  if (const std::string directory = cgroup.directory("pids"); !directory.empty()) {
    stats.pids_current = number(directory, "pids.current");
    const uint64_t limit = number(directory, "pids.max");
    stats.pids_limit = limit == ~uint64_t{0} ? 0 : limit;
  }
  return stats;
}

// ---- v2 ----

void read_block_io_v2(const std::string& directory, oci::ContainerStats& stats) {
  // "8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6"
  each_line(directory, "io.stat", [&](const std::vector<std::string_view>& line) {
    const size_t colon = line.empty() ? std::string_view::npos : line[0].find(':');
    if (colon == std::string_view::npos) return;
    for (size_t i = 1; i < line.size(); ++i) {
      const size_t equals = line[i].find('=');
      if (equals == std::string_view::npos) continue;
      const std::string_view key = line[i].substr(0, equals);
      const char* list = key.ends_with("bytes") ? "ioServiceBytesRecursive" : "ioServicedRecursive";
      const char* op = key == "rbytes" || key == "rios"   ? "Read"
                       : key == "wbytes" || key == "wios" ? "Write"
                       : key == "dbytes" || key == "dios" ? "Discard"
                                                          : nullptr;
      if (op == nullptr) continue;
      stats.block_io[list].push_back({number(line[0].substr(0, colon)), number(line[0].substr(colon + 1)), op, number(line[i].substr(equals + 1))});
    }
  });
}

oci::ContainerStats stats_v2(const std::string& directory) {
  oci::ContainerStats stats;
  const auto cpu_field = [&](std::string_view name) {
    return files::read_field(directory, "cpu.stat", name).value_or(0) * kNanosecondsPerMicrosecond;
  };
  stats.cpu.total = cpu_field("usage_usec");
  stats.cpu.user = cpu_field("user_usec");
  stats.cpu.kernel = cpu_field("system_usec");
  stats.cpu.periods = files::read_field(directory, "cpu.stat", "nr_periods").value_or(0);
  stats.cpu.throttled_periods = files::read_field(directory, "cpu.stat", "nr_throttled").value_or(0);
  stats.cpu.throttled_time = cpu_field("throttled_usec");
  stats.memory = {number(directory, "memory.max"), number(directory, "memory.current"), number(directory, "memory.peak"),
                  files::read_field(directory, "memory.events", "max").value_or(0)};
  stats.swap = {number(directory, "memory.swap.max"), number(directory, "memory.swap.current"), number(directory, "memory.swap.peak"),
                files::read_field(directory, "memory.swap.events", "max").value_or(0)};
  // As v1 counts, and as readers of this shape expect: memory + swap.
  stats.swap.usage += stats.memory.usage;
  if (stats.swap.limit != ~uint64_t{0} && stats.memory.limit != ~uint64_t{0}) stats.swap.limit += stats.memory.limit;
  each_line(directory, "memory.stat", [&](const std::vector<std::string_view>& line) {
    if (line.size() == 2) stats.memory_raw[std::string(line[0])] = number(line[1]);
  });
  stats.memory_cache = stats.memory_raw["file"];
  read_block_io_v2(directory, stats);
  read_hugetlb(directory, true, stats);
  stats.pids_current = number(directory, "pids.current");
  const uint64_t limit = number(directory, "pids.max");
  stats.pids_limit = limit == ~uint64_t{0} ? 0 : limit;
  return stats;
}

}  // namespace

Result<oci::ContainerStats> container_stats(const Cgroup& cgroup) {
  if (cgroup.paths().empty()) return Error(ENOENT, "the container has no cgroup");
  return cgroup.mode() == CgroupMode::kV2 ? stats_v2(cgroup.directory("")) : stats_v1(cgroup);
}

void OomNotice::acknowledge() const {
  char text[512];
  if (poll_events == POLLIN) {
    uint64_t count = 0;
    (void)!::read(fd.get(), &count, sizeof count);
  } else {
    (void)!::pread(fd.get(), text, sizeof text, 0);
  }
}

Result<OomNotice> watch_oom(const Cgroup& cgroup) {
  TRY(const std::string directory, [&]() -> Result<std::string> {
    std::string memory = cgroup.directory("memory");
    if (memory.empty()) return Error(ENODEV, "cannot watch for OOM kills: the container has no memory cgroup");
    return memory;
  }());
  OomNotice notice;
  if (cgroup.mode() == CgroupMode::kV2) {
    notice.poll_events = POLLPRI;
    TRY(notice.fd, sys::open(directory + "/memory.events", O_RDONLY));
    notice.acknowledge();
    return notice;
  }
  notice.poll_events = POLLIN;
  notice.fd = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!notice.fd) return Error::last_errno("eventfd");
  TRY(notice.kept_open, sys::open(directory + "/memory.oom_control", O_RDONLY));
  TRY_VOID(files::write(directory, "cgroup.event_control", std::to_string(notice.fd.get()) + ' ' + std::to_string(notice.kept_open.get())));
  return notice;
}

}  // namespace leash::runtime
