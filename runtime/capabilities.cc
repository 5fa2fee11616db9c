#include "runtime/capabilities.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace leash::runtime {

namespace {

// capabilities(7), by number.
constexpr std::array<std::string_view, 41> kNames = {
    "CAP_CHOWN",           "CAP_DAC_OVERRIDE",   "CAP_DAC_READ_SEARCH", "CAP_FOWNER",          "CAP_FSETID",
    "CAP_KILL",            "CAP_SETGID",         "CAP_SETUID",          "CAP_SETPCAP",         "CAP_LINUX_IMMUTABLE",
    "CAP_NET_BIND_SERVICE", "CAP_NET_BROADCAST", "CAP_NET_ADMIN",       "CAP_NET_RAW",         "CAP_IPC_LOCK",
    "CAP_IPC_OWNER",       "CAP_SYS_MODULE",     "CAP_SYS_RAWIO",       "CAP_SYS_CHROOT",      "CAP_SYS_PTRACE",
    "CAP_SYS_PACCT",       "CAP_SYS_ADMIN",      "CAP_SYS_BOOT",        "CAP_SYS_NICE",        "CAP_SYS_RESOURCE",
    "CAP_SYS_TIME",        "CAP_SYS_TTY_CONFIG", "CAP_MKNOD",           "CAP_LEASE",           "CAP_AUDIT_WRITE",
    "CAP_AUDIT_CONTROL",   "CAP_SETFCAP",        "CAP_MAC_OVERRIDE",    "CAP_MAC_ADMIN",       "CAP_SYSLOG",
    "CAP_WAKE_ALARM",      "CAP_BLOCK_SUSPEND",  "CAP_AUDIT_READ",      "CAP_PERFMON",         "CAP_BPF",
    "CAP_CHECKPOINT_RESTORE"};

// Whether this kernel has the capability: PR_CAPBSET_READ refuses a number above its last one.
bool is_known_to_kernel(size_t number) { return prctl(PR_CAPBSET_READ, number, 0, 0, 0) >= 0; }

// How many of kNames this kernel has. Asked once: names are looked up for five sets.
size_t kernel_count() {
  static const size_t count = [] {
    size_t number = kNames.size();
    while (number > 0 && !is_known_to_kernel(number - 1)) --number;
    return number;
  }();
  return count;
}

uint64_t parse_set(const std::vector<std::string>& names, std::vector<std::string>& unknown) {
  uint64_t set = 0;
  for (const std::string& name : names) {
    if (const int number = capability_number(name); number >= 0) {
      set |= uint64_t{1} << number;
    } else {
      unknown.push_back(name);
    }
  }
  return set;
}

}  // namespace

int capability_number(std::string_view name) {
  const auto end = kNames.begin() + static_cast<std::ptrdiff_t>(kernel_count());
  const auto found = std::find(kNames.begin(), end, name);
  return found == end ? -1 : static_cast<int>(found - kNames.begin());
}

std::vector<std::string> known_capabilities() {
  return {kNames.begin(), kNames.begin() + static_cast<std::ptrdiff_t>(kernel_count())};
}

CapabilitySets parse_capabilities(const oci::Capabilities& names, std::vector<std::string>& unknown) {
  CapabilitySets sets;
  sets.bounding = parse_set(names.bounding, unknown);
  sets.effective = parse_set(names.effective, unknown);
  sets.permitted = parse_set(names.permitted, unknown);
  sets.inheritable = parse_set(names.inheritable, unknown);
  sets.ambient = parse_set(names.ambient, unknown) & sets.permitted & sets.inheritable;
  std::sort(unknown.begin(), unknown.end());
  unknown.erase(std::unique(unknown.begin(), unknown.end()), unknown.end());
  return sets;
}

Result<void> drop_bounding(const CapabilitySets& sets) {
  for (unsigned long number = 0; number < 64; ++number) {
    if ((sets.bounding >> number & 1) != 0) continue;
    if (prctl(PR_CAPBSET_DROP, number, 0, 0, 0) == 0) continue;
    if (errno == EINVAL) break;  // above the kernel's last one, and so are all that follow
    return Error::last_errno("unable to apply bounding set");
  }
  return {};
}

Result<void> keep_over_setuid(bool keep) {
  if (prctl(PR_SET_KEEPCAPS, keep ? 1 : 0, 0, 0, 0) != 0) {
    return Error::last_errno(keep ? "unable to set keep caps" : "unable to clear keep caps");
  }
  return {};
}

Result<void> set_capabilities(const CapabilitySets& sets) {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> data = {};
  for (size_t half = 0; half < data.size(); ++half) {
    const auto shift = 32 * half;
    data[half].effective = static_cast<uint32_t>(sets.effective >> shift);
    data[half].permitted = static_cast<uint32_t>(sets.permitted >> shift);
    data[half].inheritable = static_cast<uint32_t>(sets.inheritable >> shift);
  }
  if (syscall(SYS_capset, &header, data.data()) != 0) return Error::last_errno("unable to apply caps");
  // The kernel drops ambient ones that are no longer inheritable, but not those that were never wanted.
  if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0) {
    return Error::last_errno("unable to clear ambient caps");
  }
  for (unsigned long number = 0; number < kNames.size(); ++number) {
    if ((sets.ambient >> number & 1) == 0) continue;
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, number, 0, 0) != 0) {
      return Error::last_errno("unable to apply ambient caps");
    }
  }
  return {};
}

Result<void> set_no_new_privileges() {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return Error::last_errno("unable to set no new privileges");
  return {};
}

}  // namespace leash::runtime
