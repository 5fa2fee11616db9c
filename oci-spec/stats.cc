#include "oci-spec/stats.h"

#include "oci-spec/json.h"

namespace leash::oci {

namespace {

using json::OrderedValue;

// Go's `omitempty`.
void add_unless_zero(OrderedValue& out, const char* key, uint64_t value) {
  if (value != 0) out[key] = value;
}
template <class T>
void add_unless_empty(OrderedValue& out, const char* key, const T& value) {
  if (!value.empty()) out[key] = value;
}

OrderedValue cpu(const CpuUsage& usage) {
  OrderedValue out = OrderedValue::object();
  OrderedValue& use = out["usage"] = OrderedValue::object();
  add_unless_zero(use, "total", usage.total);
  add_unless_empty(use, "percpu", usage.per_cpu);
  add_unless_empty(use, "percpu_kernel", usage.per_cpu_kernel);
  add_unless_empty(use, "percpu_user", usage.per_cpu_user);
  use["kernel"] = usage.kernel;
  use["user"] = usage.user;
  OrderedValue& throttling = out["throttling"] = OrderedValue::object();
  add_unless_zero(throttling, "periods", usage.periods);
  add_unless_zero(throttling, "throttledPeriods", usage.throttled_periods);
  add_unless_zero(throttling, "throttledTime", usage.throttled_time);
  return out;
}

OrderedValue cpuset(const CpusetUse& use) {
  OrderedValue out = OrderedValue::object();
  add_unless_empty(out, "cpus", use.cpus);
  add_unless_empty(out, "mems", use.mems);
  for (const auto& [name, value] : use.flags) out[name] = value;
  return out;
}

OrderedValue memory_entry(const MemoryUsage& usage) {
  OrderedValue out = OrderedValue::object();
  out["limit"] = usage.limit;
  add_unless_zero(out, "usage", usage.usage);
  add_unless_zero(out, "max", usage.max);
  out["failcnt"] = usage.failcnt;
  return out;
}

OrderedValue memory(const ContainerStats& stats) {
  OrderedValue out = OrderedValue::object();
  add_unless_zero(out, "cache", stats.memory_cache);
  out["usage"] = memory_entry(stats.memory);
  out["swap"] = memory_entry(stats.swap);
  out["kernel"] = memory_entry(stats.kernel);
  out["kernelTCP"] = memory_entry(stats.kernel_tcp);
  out["raw"] = stats.memory_raw;
  return out;
}

OrderedValue block_io(const ContainerStats& stats) {
  OrderedValue out = OrderedValue::object();
  for (const auto& [name, entries] : stats.block_io) {
    OrderedValue list = OrderedValue::array();
    for (const BlockIoEntry& entry : entries) {
      OrderedValue item = OrderedValue::object();
      item["major"] = entry.major;
      item["minor"] = entry.minor;
      item["op"] = entry.op;
      add_unless_zero(item, "value", entry.value);
      list.push_back(std::move(item));
    }
    if (!list.empty()) out[name] = std::move(list);
  }
  return out;
}

}  // namespace

std::string print_stats_event(std::string_view container_id, const ContainerStats& stats) {
  OrderedValue data = OrderedValue::object();
  data["cpu"] = cpu(stats.cpu);
  data["cpuset"] = cpuset(stats.cpuset);
  data["memory"] = memory(stats);
  OrderedValue& pids = data["pids"] = OrderedValue::object();
  add_unless_zero(pids, "current", stats.pids_current);
  add_unless_zero(pids, "limit", stats.pids_limit);
  data["blkio"] = block_io(stats);
  OrderedValue& hugetlb = data["hugetlb"] = OrderedValue::object();
  for (const auto& [size, usage] : stats.hugetlb) {
    OrderedValue& entry = hugetlb[size] = OrderedValue::object();
    add_unless_zero(entry, "usage", usage.usage);
    add_unless_zero(entry, "max", usage.max);
    entry["failcnt"] = usage.failcnt;
  }
  data["intel_rdt"] = OrderedValue::object();
  data["network_interfaces"] = nullptr;
  OrderedValue out = OrderedValue::object();
  out["type"] = "stats";
  out["id"] = container_id;
  out["data"] = std::move(data);
  return json::dump(out);
}

std::string print_oom_event(std::string_view container_id) {
  OrderedValue out = OrderedValue::object();
  out["type"] = "oom";
  out["id"] = container_id;
  return json::dump(out);
}

}  // namespace leash::oci
