#include "runtime/rlimits.h"

#include <sys/resource.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "base/sys.h"

namespace leash::runtime {

namespace {

constexpr std::array<std::pair<std::string_view, int>, 16> kTypes = {{
    {"RLIMIT_CPU", RLIMIT_CPU},           {"RLIMIT_FSIZE", RLIMIT_FSIZE},   {"RLIMIT_DATA", RLIMIT_DATA},
    {"RLIMIT_STACK", RLIMIT_STACK},       {"RLIMIT_CORE", RLIMIT_CORE},     {"RLIMIT_RSS", RLIMIT_RSS},
    {"RLIMIT_NPROC", RLIMIT_NPROC},       {"RLIMIT_NOFILE", RLIMIT_NOFILE}, {"RLIMIT_MEMLOCK", RLIMIT_MEMLOCK},
    {"RLIMIT_AS", RLIMIT_AS},             {"RLIMIT_LOCKS", RLIMIT_LOCKS},   {"RLIMIT_SIGPENDING", RLIMIT_SIGPENDING},
    {"RLIMIT_MSGQUEUE", RLIMIT_MSGQUEUE}, {"RLIMIT_NICE", RLIMIT_NICE},     {"RLIMIT_RTPRIO", RLIMIT_RTPRIO},
    {"RLIMIT_RTTIME", RLIMIT_RTTIME},
}};

int type_number(std::string_view name) {
  for (const auto& [type, number] : kTypes) {
    if (type == name) return number;
  }
  return -1;
}

}  // namespace

Result<void> check_rlimits(const std::vector<oci::Rlimit>& limits) {
  for (const oci::Rlimit& limit : limits) {
    if (type_number(limit.type) < 0) return Error(EINVAL, "wrong rlimit value: " + limit.type);
  }
  return {};
}

Result<void> apply_rlimits(const std::vector<oci::Rlimit>& limits, pid_t pid) {
  for (const oci::Rlimit& limit : limits) {
    const int type = type_number(limit.type);
    if (type < 0) return Error(EINVAL, "wrong rlimit value: " + limit.type);
    const struct rlimit64 values = {limit.soft, limit.hard};
    if (prlimit64(pid, static_cast<__rlimit_resource>(type), &values, nullptr) != 0) {
      return Error::last_errno("error setting rlimits for ready process: error setting rlimit type " +
                               std::to_string(type));
    }
  }
  return {};
}

Result<void> set_oom_score_adj(int score) {
  const std::string text = std::to_string(score);
  TRY(Fd file, sys::open("/proc/self/oom_score_adj", O_RDWR));
  TRY(std::string now, sys::read_all(file.get(), 64));
  if (now == text + '\n') return {};
  return sys::write_all(file.get(), text).context("failed to update /proc/self/oom_score_adj");
}

}  // namespace leash::runtime
