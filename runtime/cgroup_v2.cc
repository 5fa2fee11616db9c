// Limits in the files of cgroup v2. config.json speaks v1's language: its numbers are converted as
// runtime-spec and runc do it.
#include <cmath>

#include "runtime/cgroup_files.h"
#include "runtime/cgroup_limits.h"

namespace leash::runtime {

namespace {

namespace files = cgroup_files;

// -1 is v1's "no limit".
std::string limit_text(int64_t value) { return value == -1 ? "max" : std::to_string(value); }

Result<void> check_memory_before_update(const std::string& directory, const oci::MemoryResources& memory, std::optional<int64_t> swap) {
  // memory.max takes any value and kills when too much is in use; v1 refused. The engine asks for v1's way.
  if (!memory.check_before_update.value_or(false)) return {};
  const auto check = [&](std::string_view file, std::optional<int64_t> limit, const char* what) -> Result<void> {
    const std::optional<uint64_t> usage = files::read_number(directory, file);
    if (!limit || *limit <= 0 || !usage || static_cast<uint64_t>(*limit) >= *usage) return {};
    return Error(EBUSY, std::string("rejecting ") + what + " limit " + std::to_string(*limit) + " < usage " + std::to_string(*usage));
  };
  TRY_VOID(check("memory.current", memory.limit, "memory"));
  return check("memory.swap.current", swap, "memory+swap");
}

Result<void> set_memory(const std::string& directory, const oci::MemoryResources& memory) {
  TRY(const std::optional<int64_t> swap, v2_swap(memory));
  TRY_VOID(check_memory_before_update(directory, memory, swap));
  if (swap) {
    Result<void> written = files::write(directory, "memory.swap.max", limit_text(*swap));
    // A kernel without swap accounting has no such file; no swap limit is then no loss if none was asked for.
    if (!written && !(written.error().code() == ENOENT && *swap <= 0)) return written;
  }
  if (memory.limit && *memory.limit != 0) TRY_VOID(files::write(directory, "memory.max", limit_text(*memory.limit)));
  if (memory.reservation && *memory.reservation != 0) {
    TRY_VOID(files::write(directory, "memory.low", limit_text(*memory.reservation)));
  }
  return {};
}

Result<void> set_cpu(const std::string& directory, const oci::CpuResources& cpu) {
  if (cpu.idle) TRY_VOID(files::write(directory, "cpu.idle", *cpu.idle));
  // An idle group has no weight of its own: writing it is refused.
  if (cpu.shares && *cpu.shares != 0 && cpu.idle.value_or(0) == 0) {
    TRY_VOID(files::write(directory, "cpu.weight", cpu_weight_of_shares(*cpu.shares)));
  }
  const auto write_burst = [&] { return files::write(directory, "cpu.max.burst", *cpu.burst); };
  bool burst_is_due = cpu.burst.has_value();
  const bool has_quota = cpu.quota && *cpu.quota != 0;
  const bool has_period = cpu.period && *cpu.period != 0;
  if (burst_is_due) {
    Result<void> written = write_burst();
    burst_is_due = !written && written.error().code() == EINVAL && has_quota;
    if (!written && !burst_is_due) return written;
  }
  if (has_quota || has_period) {
    std::string line = has_quota && *cpu.quota > 0 ? std::to_string(*cpu.quota) : "max";
    if (!has_quota) {
      // The quota stays: only the period is to change.
      if (Result<std::string> present = files::read(directory, "cpu.max")) line = present->substr(0, present->find(' '));
    }
    if (has_period) line += ' ' + std::to_string(*cpu.period);
    TRY_VOID(files::write(directory, "cpu.max", line));
    if (burst_is_due) TRY_VOID(write_burst());
  }
  if (!cpu.cpus.empty()) TRY_VOID(files::write(directory, "cpuset.cpus", cpu.cpus));
  if (!cpu.mems.empty()) TRY_VOID(files::write(directory, "cpuset.mems", cpu.mems));
  return {};
}

Result<void> set_throttle(const std::string& directory, const char* key, const std::vector<oci::BlockIoThrottleDevice>& devices) {
  for (const oci::BlockIoThrottleDevice& device : devices) {
    const std::string rate = device.rate == 0 ? "max" : std::to_string(device.rate);
    TRY_VOID(files::write(directory, "io.max",
                          std::to_string(device.major) + ':' + std::to_string(device.minor) + ' ' + key + '=' + rate));
  }
  return {};
}

Result<void> set_io(const std::string& directory, const oci::BlockIoResources& io) {
  if (io.weight && *io.weight != 0) {
    // BFQ takes v1's numbers; the iocost controller has a range of its own.
    if (files::exists(directory, "io.bfq.weight")) {
      TRY_VOID(files::write(directory, "io.bfq.weight", uint64_t{*io.weight}));
    } else {
      TRY_VOID(files::write(directory, "io.weight", io_weight_of_blkio(*io.weight)));
    }
  }
  for (const oci::BlockIoWeightDevice& device : io.weight_devices) {
    if (!device.weight || *device.weight == 0) continue;
    TRY_VOID(files::write(directory, "io.bfq.weight",
                          std::to_string(device.major) + ':' + std::to_string(device.minor) + ' ' + std::to_string(*device.weight)));
  }
  TRY_VOID(set_throttle(directory, "rbps", io.throttle_read_bps));
  TRY_VOID(set_throttle(directory, "wbps", io.throttle_write_bps));
  TRY_VOID(set_throttle(directory, "riops", io.throttle_read_iops));
  return set_throttle(directory, "wiops", io.throttle_write_iops);
}

}  // namespace

std::string pids_limit_text(int64_t limit) {
  if (limit < 0) return "max";
  // One process there must be: the container's own.
  return std::to_string(limit == 0 ? 1 : limit);
}

uint64_t cpu_weight_of_shares(uint64_t shares) {
  // The three fixed points 2 -> 1, 1024 -> 100 and 262144 -> 10000 on one curve (runc 1.4, crun 1.23): the
  // straight line that was used before made the usual 1024 a weight of 39, below every other process.
  if (shares <= 2) return 1;
  if (shares >= 262144) return 10000;
  const double l = std::log2(static_cast<double>(shares));
  const double exponent = (l * l + 125 * l) / 612.0 - 7.0 / 34.0;
  return static_cast<uint64_t>(std::ceil(std::pow(10, exponent)));
}

uint64_t io_weight_of_blkio(uint16_t weight) {
  const int clamped = weight < 10 ? 10 : weight > 1000 ? 1000 : weight;
  return 1 + static_cast<uint64_t>(clamped - 10) * 9999 / 990;
}

Result<std::optional<int64_t>> v2_swap(const oci::MemoryResources& memory) {
  using Answer = std::optional<int64_t>;
  const int64_t limit = memory.limit.value_or(0);
  const int64_t both = memory.swap.value_or(0);
  if (limit == -1 && both == 0) return Answer(-1);
  if (both == -1) return Answer(-1);
  if (both == 0) return Answer();
  if (limit == 0 || limit == -1) return Error(EINVAL, "unable to set swap limit without memory limit");
  if (limit < 0) return Error(EINVAL, "invalid memory value: " + std::to_string(limit));
  if (both < limit) return Error(EINVAL, "memory+swap limit should be >= memory limit");
  return Answer(both - limit);
}

Result<void> set_hugepages_v2(const std::string& directory, const std::vector<oci::HugepageLimit>& limits) {
  for (const oci::HugepageLimit& limit : limits) {
    const std::string prefix = "hugetlb." + limit.page_size;
    TRY_VOID(files::write(directory, prefix + ".max", limit.limit));
    const std::string reserved = prefix + ".rsvd.max";
    if (files::exists(directory, reserved)) TRY_VOID(files::write(directory, reserved, limit.limit));
  }
  return {};
}

Result<void> set_unified(const std::string& directory, const oci::StringMap& unified) {
  for (const auto& [file, text] : unified) {
    // Several lines are several writes (io.max takes one device each).
    std::string_view rest = text;
    do {
      const size_t end = rest.find('\n');
      const std::string_view line = rest.substr(0, end);
      Result<void> written = files::write(directory, file, line);
      if (!written) {
        const std::string controller = file.substr(0, file.find('.'));
        const bool is_missing = written.error().code() == ENOENT || written.error().code() == EACCES;
        if (is_missing && !files::exists(directory, file)) {
          return Error(ENOENT, "unified resource \"" + file + "\" can't be set: controller \"" + controller + "\" not available");
        }
        return std::move(written).context("unable to set unified resource \"" + file + '"');
      }
      rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    } while (!rest.empty());
  }
  return {};
}

Result<void> set_v2_limits(const std::string& directory, const oci::Resources& resources) {
  if (resources.network.class_id.value_or(0) != 0 || !resources.network.priorities.empty()) {
    return Error(EINVAL, "network classes and priorities need cgroup v1 (net_cls, net_prio), this host has v2");
  }
  TRY_VOID(set_memory(directory, resources.memory));
  TRY_VOID(set_cpu(directory, resources.cpu));
  if (resources.pids_limit) TRY_VOID(files::write(directory, "pids.max", pids_limit_text(*resources.pids_limit)));
  TRY_VOID(set_io(directory, resources.block_io));
  TRY_VOID(set_hugepages_v2(directory, resources.hugepage_limits));
  for (const auto& [device, limit] : resources.rdma) {
    std::string line = device;
    if (limit.hca_handles) line += " hca_handle=" + std::to_string(*limit.hca_handles);
    if (limit.hca_objects) line += " hca_object=" + std::to_string(*limit.hca_objects);
    TRY_VOID(files::write(directory, "rdma.max", line));
  }
  // Last: what is written in v2's own words wins.
  return set_unified(directory, resources.unified);
}

}  // namespace leash::runtime
