// leash-runtime update: other limits for a container that runs. What is not named stays as it is.
#include <unistd.h>

#include <charconv>

#include "base/file.h"
#include "base/sys.h"
#include "runtime/cgroup.h"
#include "runtime/command.h"
#include "runtime/state_store.h"

namespace leash::runtime {

namespace {

constexpr args::Flag kFlags[] = {
    {"resources, r", args::Kind::kValue,
     "path to the file containing the resources to update or '-' to read from the standard input: the JSON of "
     "linux.resources in config.json. All other options are ignored then"},
    {"blkio-weight", args::Kind::kValue, "Specifies per cgroup weight, range is from 10 to 1000"},
    {"cpu-period", args::Kind::kValue, "CPU CFS period to be used for hardcapping (in usecs). 0 to use system default"},
    {"cpu-quota", args::Kind::kValue, "CPU CFS hardcap limit (in usecs). Allowed cpu time in a given period"},
    {"cpu-burst", args::Kind::kValue, "CPU CFS hardcap burst limit (in usecs). Allowed accumulated cpu time additionally for burst"},
    {"cpu-share", args::Kind::kValue, "CPU shares (relative weight vs. other containers)"},
    {"cpu-rt-period", args::Kind::kValue, "CPU realtime period to be used for hardcapping (in usecs). 0 to use system default"},
    {"cpu-rt-runtime", args::Kind::kValue, "CPU realtime hardcap limit (in usecs). Allowed cpu time in a given period"},
    {"cpu-idle", args::Kind::kValue, "set cgroup SCHED_IDLE or not, 0: default behavior, 1: SCHED_IDLE"},
    {"cpuset-cpus", args::Kind::kValue, "CPU(s) to use"},
    {"cpuset-mems", args::Kind::kValue, "Memory node(s) to use"},
    {"kernel-memory", args::Kind::kValue, "(obsolete; do not use)"},
    {"kernel-memory-tcp", args::Kind::kValue, "(obsolete; do not use)"},
    {"memory", args::Kind::kValue, "Memory limit (in bytes)"},
    {"memory-reservation", args::Kind::kValue, "Memory reservation or soft_limit (in bytes)"},
    {"memory-swap", args::Kind::kValue, "Total memory usage (memory + swap); set '-1' to enable unlimited swap"},
    {"pids-limit", args::Kind::kValue, "Maximum number of pids allowed in the container"},
    {"l3-cache-schema", args::Kind::kValue, "The string of Intel RDT/CAT L3 cache schema"},
    {"mem-bw-schema", args::Kind::kValue, "The string of Intel RDT/MBA memory bandwidth schema"},
};

Error invalid_value(const std::string& flag, const std::string& text) {
  return Error(EINVAL, "invalid value for " + flag + ": \"" + text + '"');
}

template <class T>
Result<void> read_number(const args::Parsed& arguments, const std::string& flag, std::optional<T>& out) {
  if (!arguments.has(flag)) return {};
  const std::string text = arguments.value(flag);
  T number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || end != text.data() + text.size()) return invalid_value(flag, text);
  out = number;
  return {};
}

// "-1", bytes, or bytes with a unit as engines' users write them: "64m", "1.5GB", "2GiB", all binary.
Result<void> read_size(const args::Parsed& arguments, const std::string& flag, std::optional<int64_t>& out) {
  if (!arguments.has(flag)) return {};
  const std::string text = arguments.value(flag);
  if (text == "-1") {
    out = -1;
    return {};
  }
  double number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || number < 0) return invalid_value(flag, text);
  std::string unit(end, text.data() + text.size());
  for (char& c : unit) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  while (unit.starts_with(' ')) unit.erase(0, 1);
  size_t power = 0;
  if (!unit.empty() && unit != "b") {
    power = std::string_view("kmgtp").find(unit[0]);
    const std::string rest = unit.substr(1);
    if (power == std::string_view::npos || (!rest.empty() && rest != "b" && rest != "ib")) return invalid_value(flag, text);
    ++power;
  }
  for (; power > 0; --power) number *= 1024;
  if (number >= 9.2e18) return invalid_value(flag, text);
  out = static_cast<int64_t>(number);
  return {};
}

Result<oci::Resources> from_flags(const args::Parsed& arguments) {
  oci::Resources out;
  TRY_VOID(read_number(arguments, "blkio-weight", out.block_io.weight));
  TRY_VOID(read_number(arguments, "cpu-period", out.cpu.period));
  TRY_VOID(read_number(arguments, "cpu-quota", out.cpu.quota));
  TRY_VOID(read_number(arguments, "cpu-burst", out.cpu.burst));
  TRY_VOID(read_number(arguments, "cpu-share", out.cpu.shares));
  TRY_VOID(read_number(arguments, "cpu-rt-period", out.cpu.realtime_period));
  TRY_VOID(read_number(arguments, "cpu-rt-runtime", out.cpu.realtime_runtime));
  TRY_VOID(read_number(arguments, "cpu-idle", out.cpu.idle));
  out.cpu.cpus = arguments.value("cpuset-cpus");
  out.cpu.mems = arguments.value("cpuset-mems");
  TRY_VOID(read_size(arguments, "memory", out.memory.limit));
  TRY_VOID(read_size(arguments, "memory-reservation", out.memory.reservation));
  TRY_VOID(read_size(arguments, "memory-swap", out.memory.swap));
  TRY_VOID(read_number(arguments, "pids-limit", out.pids_limit));
  return out;
}

Result<oci::Resources> from_document(const std::string& path) {
  if (path != "-") {
    TRY(const std::string text, file::read(path));
    return oci::parse_resources(text);
  }
  TRY(const std::string text, sys::read_all(STDIN_FILENO));
  return oci::parse_resources(text);
}

Result<int> update(const GlobalOptions& options, const args::Parsed& arguments) {
  TRY(const Container container, StateStore(options.root).load(arguments.positionals()[0]));
  for (const char* flag : {"l3-cache-schema", "mem-bw-schema"}) {
    if (arguments.has(flag)) return Error(ENOTSUP, "Intel RDT: --" + std::string(flag) + " needs a container with linux.intelRdt");
  }
  const std::string document = arguments.value("resources");
  TRY(oci::Resources resources, document.empty() ? from_flags(arguments) : from_document(document));
  // Rules for devices are made at create: a later list would shut out what init has open already.
  resources.devices.clear();
  TRY(const oci::Status status, container.status());
  if (status == oci::Status::kStopped || status == oci::Status::kCreating) return Error("container not running");
  TRY_VOID(Cgroup::from_record(container.record.cgroups).update(resources));
  return 0;
}

}  // namespace

const Command kUpdateCommand = {
    "update", "update container resource constraints", "[command options] <container-id>", {}, kFlags, 1, 1, false, 1, update};

}  // namespace leash::runtime
