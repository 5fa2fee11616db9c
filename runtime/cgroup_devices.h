// Which device nodes a container may use. cgroup v1 takes the rules as text; v2 has no file for them but
// runs a BPF program of ours (BPF_PROG_TYPE_CGROUP_DEVICE) at each open and mknod.
//
// The rules' meaning is v1's, in both: each rule changes a list, in order. "a" makes the list empty, with
// everything allowed or everything denied; an allow or deny of one key (type, major, minor) adds to or takes
// from the exceptions to that.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "oci-spec/config.h"

namespace leash::runtime {

// config.json's rules with those that every container gets: nothing first, and the devices of
// config-linux.md#default-devices (and mknod of any, which grants no access) last.
[[nodiscard]] std::vector<oci::DeviceRule> with_default_devices(const std::vector<oci::DeviceRule>& rules);

// What the rules come to.
struct DeviceList {
  struct Exception {
    char type = 'c';
    int64_t major = -1;  // -1: any
    int64_t minor = -1;
    uint32_t access = 0;  // BPF_DEVCG_ACC_*
    bool operator==(const Exception&) const = default;
  };
  bool allows_by_default = true;
  std::vector<Exception> exceptions;
};
[[nodiscard]] DeviceList device_list(const std::vector<oci::DeviceRule>& rules);

[[nodiscard]] Result<void> set_devices_v1(const std::string& directory, const std::vector<oci::DeviceRule>& rules);
[[nodiscard]] Result<void> set_devices_v2(const std::string& directory, const std::vector<oci::DeviceRule>& rules);

}  // namespace leash::runtime
