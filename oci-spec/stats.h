// What a container uses: the lines that `events` prints, in the shape that runc gave them (there is no
// specification of it; nerdctl, cAdvisor and scripts read it).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace leash::oci {

struct CpuUsage {  // nanoseconds
  uint64_t total = 0;
  uint64_t kernel = 0;
  uint64_t user = 0;
  std::vector<uint64_t> per_cpu;
  std::vector<uint64_t> per_cpu_kernel;
  std::vector<uint64_t> per_cpu_user;
  uint64_t periods = 0;
  uint64_t throttled_periods = 0;
  uint64_t throttled_time = 0;
};

struct CpusetUse {
  std::vector<uint16_t> cpus;
  std::vector<uint16_t> mems;
  std::map<std::string, int64_t> flags;  // "cpu_exclusive" and its like
};

struct MemoryUsage {  // bytes
  uint64_t limit = 0;
  uint64_t usage = 0;
  uint64_t max = 0;
  uint64_t failcnt = 0;
};

struct BlockIoEntry {
  uint64_t major = 0;
  uint64_t minor = 0;
  std::string op;
  uint64_t value = 0;
};

struct ContainerStats {
  CpuUsage cpu;
  CpusetUse cpuset;
  uint64_t memory_cache = 0;
  MemoryUsage memory;
  MemoryUsage swap;
  MemoryUsage kernel;
  MemoryUsage kernel_tcp;
  std::map<std::string, uint64_t> memory_raw;
  uint64_t pids_current = 0;
  uint64_t pids_limit = 0;  // 0: none
  std::map<std::string, std::vector<BlockIoEntry>> block_io;  // "ioServiceBytesRecursive" -> entries
  std::map<std::string, MemoryUsage> hugetlb;                 // "2MB"
};

// {"type":"stats","id":ID,"data":{...}} on one line.
[[nodiscard]] std::string print_stats_event(std::string_view container_id, const ContainerStats& stats);
// {"type":"oom","id":ID}
[[nodiscard]] std::string print_oom_event(std::string_view container_id);

}  // namespace leash::oci
