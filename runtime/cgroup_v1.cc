// Limits in the files of cgroup v1. An absent value is not written; so is a zero where zero means "not set"
// in every engine (cpu shares, quota and period, a memory limit).
#include <algorithm>

#include "runtime/cgroup_files.h"
#include "runtime/cgroup_limits.h"

namespace leash::runtime {

namespace {

namespace files = cgroup_files;

template <class T>
bool is_given(const std::optional<T>& value) {
  return value && *value != 0;
}

// ---- memory ----

Result<void> write_memory_limit(const std::string& directory, int64_t limit) {
  Result<void> written = files::write(directory, "memory.limit_in_bytes", limit);
  if (written || written.error().code() != EBUSY) return written;
  // More is in use than the new limit lets stay, and the kernel could not push it out.
  const auto number = [&](std::string_view file) { return std::to_string(files::read_number(directory, file).value_or(0)); };
  return Error(EBUSY, "unable to set memory limit to " + std::to_string(limit) + " (current usage: " + number("memory.usage_in_bytes") +
                          ", peak usage: " + number("memory.max_usage_in_bytes") + ")");
}

// At every moment memory must be at most memory+swap: which of the two is written first depends on whether
// they grow or shrink.
Result<void> set_memory_and_swap(const std::string& directory, const oci::MemoryResources& memory, bool is_new) {
  const int64_t limit = memory.limit.value_or(0);
  int64_t swap = memory.swap.value_or(0);
  // No limit on memory is none on memory+swap: the old one would still hold.
  if (limit == -1 && swap == 0 && files::exists(directory, "memory.memsw.limit_in_bytes")) swap = -1;
  const auto write_swap = [&] { return files::write(directory, "memory.memsw.limit_in_bytes", swap); };
  bool swap_first = limit == 0;
  if (limit != 0 && swap != 0 && !is_new) {
    const uint64_t present = files::read_number(directory, "memory.limit_in_bytes").value_or(0);
    swap_first = swap == -1 || present < static_cast<uint64_t>(swap);
  }
  if (swap != 0 && swap_first) TRY_VOID(write_swap());
  if (limit != 0) TRY_VOID(write_memory_limit(directory, limit));
  if (swap != 0 && !swap_first) TRY_VOID(write_swap());
  return {};
}

Result<void> set_memory(const Cgroup& cgroup, const oci::MemoryResources& memory, bool is_new) {
  const bool has_any = is_given(memory.limit) || is_given(memory.swap) || is_given(memory.reservation) ||
                       is_given(memory.kernel_tcp) || memory.swappiness || memory.disable_oom_killer.value_or(false);
  if (!has_any && !(memory.disable_oom_killer && !is_new)) return {};
  TRY(const std::string directory, directory_for(cgroup, "memory", "memory limit"));
  TRY_VOID(set_memory_and_swap(directory, memory, is_new));
  // memory.kernel is obsolete: kernels since 5.16 refuse the file, and the specification says to ignore it.
  if (is_given(memory.reservation)) TRY_VOID(files::write(directory, "memory.soft_limit_in_bytes", *memory.reservation));
  if (is_given(memory.kernel_tcp)) TRY_VOID(files::write(directory, "memory.kmem.tcp.limit_in_bytes", *memory.kernel_tcp));
  if (memory.disable_oom_killer && (*memory.disable_oom_killer || !is_new)) {
    TRY_VOID(files::write(directory, "memory.oom_control", *memory.disable_oom_killer ? "1" : "0"));
  }
  if (memory.swappiness) TRY_VOID(files::write(directory, "memory.swappiness", *memory.swappiness));
  return {};
}

// ---- cpu ----

Result<void> set_shares(const std::string& directory, uint64_t shares) {
  TRY_VOID(files::write(directory, "cpu.shares", shares));
  // The kernel silently takes the nearest value that it supports.
  const uint64_t taken = files::read_number(directory, "cpu.shares").value_or(shares);
  if (shares > taken) return Error(EINVAL, "the maximum allowed cpu-shares is " + std::to_string(taken));
  if (shares < taken) return Error(EINVAL, "the minimum allowed cpu-shares is " + std::to_string(taken));
  return {};
}

// A change is refused for a moment at which burst is above quota, or quota/period above the parent's: what
// is refused first is written again after the other.
Result<void> set_bandwidth(const std::string& directory, const oci::CpuResources& cpu) {
  const auto write_burst = [&] { return files::write(directory, "cpu.cfs_burst_us", *cpu.burst); };
  const auto write_period = [&] { return files::write(directory, "cpu.cfs_period_us", *cpu.period); };
  bool burst_is_due = cpu.burst.has_value();
  if (burst_is_due) {
    Result<void> written = write_burst();
    burst_is_due = !written && written.error().code() == EINVAL && is_given(cpu.quota);
    if (!written && !burst_is_due) return written;
  }
  bool period_is_due = false;
  if (is_given(cpu.period)) {
    Result<void> written = write_period();
    period_is_due = !written && written.error().code() == EINVAL && is_given(cpu.quota);
    if (!written && !period_is_due) return written;
  }
  if (is_given(cpu.quota)) {
    TRY_VOID(files::write(directory, "cpu.cfs_quota_us", *cpu.quota));
    if (period_is_due) TRY_VOID(write_period());
    if (burst_is_due) TRY_VOID(write_burst());
  }
  return {};
}

Result<void> set_realtime(const std::string& directory, const oci::CpuResources& cpu) {
  const auto write_period = [&] { return files::write(directory, "cpu.rt_period_us", *cpu.realtime_period); };
  bool period_is_due = false;
  if (is_given(cpu.realtime_period)) {
    Result<void> written = write_period();
    period_is_due = !written && written.error().code() == EINVAL && is_given(cpu.realtime_runtime);
    if (!written && !period_is_due) return written;
  }
  if (is_given(cpu.realtime_runtime)) {
    TRY_VOID(files::write(directory, "cpu.rt_runtime_us", *cpu.realtime_runtime));
    if (period_is_due) TRY_VOID(write_period());
  }
  return {};
}

Result<void> set_cpu(const Cgroup& cgroup, const oci::CpuResources& cpu) {
  if (!is_given(cpu.shares) && !is_given(cpu.quota) && !is_given(cpu.period) && !cpu.burst && !is_given(cpu.realtime_period) &&
      !is_given(cpu.realtime_runtime) && !cpu.idle) {
    return {};
  }
  TRY(const std::string directory, directory_for(cgroup, "cpu", "CPU limit"));
  TRY_VOID(set_realtime(directory, cpu));
  // An idle group has no shares of its own: writing them is refused.
  if (cpu.idle) TRY_VOID(files::write(directory, "cpu.idle", *cpu.idle));
  if (is_given(cpu.shares) && cpu.idle.value_or(0) == 0) TRY_VOID(set_shares(directory, *cpu.shares));
  return set_bandwidth(directory, cpu);
}

Result<void> set_cpuset(const Cgroup& cgroup, const oci::CpuResources& cpu) {
  if (cpu.cpus.empty() && cpu.mems.empty()) return {};
  TRY(const std::string directory, directory_for(cgroup, "cpuset", "cpuset"));
  if (!cpu.cpus.empty()) TRY_VOID(files::write(directory, "cpuset.cpus", cpu.cpus));
  if (!cpu.mems.empty()) TRY_VOID(files::write(directory, "cpuset.mems", cpu.mems));
  return {};
}

// ---- the others ----

Result<void> set_pids(const Cgroup& cgroup, const std::optional<int64_t>& limit) {
  if (!limit) return {};
  TRY(const std::string directory, directory_for(cgroup, "pids", "pids limit"));
  return files::write(directory, "pids.max", pids_limit_text(*limit));
}

std::string device_line(int64_t major, int64_t minor, uint64_t value) {
  return std::to_string(major) + ':' + std::to_string(minor) + ' ' + std::to_string(value);
}

Result<void> set_block_io(const Cgroup& cgroup, const oci::BlockIoResources& io) {
  const std::pair<const std::vector<oci::BlockIoThrottleDevice>*, std::string_view> throttles[] = {
      {&io.throttle_read_bps, "blkio.throttle.read_bps_device"},
      {&io.throttle_write_bps, "blkio.throttle.write_bps_device"},
      {&io.throttle_read_iops, "blkio.throttle.read_iops_device"},
      {&io.throttle_write_iops, "blkio.throttle.write_iops_device"}};
  const bool has_throttle = std::any_of(std::begin(throttles), std::end(throttles), [](const auto& entry) { return !entry.first->empty(); });
  if (!is_given(io.weight) && !is_given(io.leaf_weight) && io.weight_devices.empty() && !has_throttle) return {};
  TRY(const std::string directory, directory_for(cgroup, "blkio", "block IO limit"));
  // The CFQ scheduler's files are gone with it (Linux 5.0); BFQ has its own.
  const bool has_bfq = !files::exists(directory, "blkio.weight") && files::exists(directory, "blkio.bfq.weight");
  const std::string weight = has_bfq ? "blkio.bfq.weight" : "blkio.weight";
  if (is_given(io.weight)) TRY_VOID(files::write(directory, weight, uint64_t{*io.weight}));
  if (is_given(io.leaf_weight)) TRY_VOID(files::write(directory, "blkio.leaf_weight", uint64_t{*io.leaf_weight}));
  for (const oci::BlockIoWeightDevice& device : io.weight_devices) {
    if (is_given(device.weight)) {
      TRY_VOID(files::write(directory, weight + "_device", device_line(device.major, device.minor, *device.weight)));
    }
    if (is_given(device.leaf_weight)) {
      TRY_VOID(files::write(directory, "blkio.leaf_weight_device", device_line(device.major, device.minor, *device.leaf_weight)));
    }
  }
  for (const auto& [devices, file] : throttles) {
    for (const oci::BlockIoThrottleDevice& device : *devices) {
      TRY_VOID(files::write(directory, file, device_line(device.major, device.minor, device.rate)));
    }
  }
  return {};
}

Result<void> set_hugepages(const Cgroup& cgroup, const std::vector<oci::HugepageLimit>& limits) {
  if (limits.empty()) return {};
  if (cgroup.directory("hugetlb").empty() && cgroup.mode() == CgroupMode::kHybrid) {
    return set_hugepages_v2(cgroup.directory(""), limits);
  }
  TRY(const std::string directory, directory_for(cgroup, "hugetlb", "hugetlb limit"));
  for (const oci::HugepageLimit& limit : limits) {
    const std::string prefix = "hugetlb." + limit.page_size;
    TRY_VOID(files::write(directory, prefix + ".limit_in_bytes", limit.limit));
    // Reservations are counted apart since Linux 5.7; without that limit a mapping succeeds and its first
    // touch is a SIGBUS.
    const std::string reserved = prefix + ".rsvd.limit_in_bytes";
    if (files::exists(directory, reserved)) TRY_VOID(files::write(directory, reserved, limit.limit));
  }
  return {};
}

Result<void> set_network(const Cgroup& cgroup, const oci::NetworkResources& network) {
  if (is_given(network.class_id)) {
    TRY(const std::string directory, directory_for(cgroup, "net_cls", "network class"));
    TRY_VOID(files::write(directory, "net_cls.classid", uint64_t{*network.class_id}));
  }
  if (!network.priorities.empty()) {
    TRY(const std::string directory, directory_for(cgroup, "net_prio", "network priority"));
    for (const oci::InterfacePriority& entry : network.priorities) {
      TRY_VOID(files::write(directory, "net_prio.ifpriomap", entry.name + ' ' + std::to_string(entry.priority)));
    }
  }
  return {};
}

Result<void> set_rdma(const Cgroup& cgroup, const std::map<std::string, oci::Rdma>& limits) {
  if (limits.empty()) return {};
  TRY(const std::string directory, directory_for(cgroup, "rdma", "rdma limit"));
  for (const auto& [device, limit] : limits) {
    std::string line = device;
    if (limit.hca_handles) line += " hca_handle=" + std::to_string(*limit.hca_handles);
    if (limit.hca_objects) line += " hca_object=" + std::to_string(*limit.hca_objects);
    TRY_VOID(files::write(directory, "rdma.max", line));
  }
  return {};
}

}  // namespace

Result<void> set_v1_limits(const Cgroup& cgroup, const oci::Resources& resources, bool is_new) {
  if (!resources.unified.empty()) {
    // Also on a hybrid host: its controllers are v1's, and what is meant by "memory.max" could not be done.
    return Error(EINVAL, "invalid configuration: cannot use unified resources on cgroup v1");
  }
  TRY_VOID(set_memory(cgroup, resources.memory, is_new));
  TRY_VOID(set_cpu(cgroup, resources.cpu));
  TRY_VOID(set_cpuset(cgroup, resources.cpu));
  TRY_VOID(set_pids(cgroup, resources.pids_limit));
  TRY_VOID(set_block_io(cgroup, resources.block_io));
  TRY_VOID(set_hugepages(cgroup, resources.hugepage_limits));
  TRY_VOID(set_network(cgroup, resources.network));
  return set_rdma(cgroup, resources.rdma);
}

}  // namespace leash::runtime
