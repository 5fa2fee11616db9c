// What a runtime can do (runtime-spec, features.md): the document of the `features` command, which
// engines read at their own start.
#pragma once

#include <string>
#include <vector>

#include "oci-spec/config.h"

namespace leash::oci {

struct Features {
  std::string oci_version_min;
  std::string oci_version_max;
  std::vector<std::string> hooks;
  std::vector<std::string> mount_options;
  std::vector<std::string> namespaces;
  std::vector<std::string> capabilities;
  bool cgroup_v1 = false;
  bool cgroup_v2 = false;
  bool cgroup_systemd = false;
  bool cgroup_systemd_user = false;
  bool cgroup_rdma = false;
  std::vector<std::string> seccomp_actions;
  std::vector<std::string> seccomp_operators;
  std::vector<std::string> seccomp_archs;
  std::vector<std::string> seccomp_known_flags;
  std::vector<std::string> seccomp_supported_flags;
  bool apparmor = false;
  bool selinux = false;
  bool intel_rdt = false;
  bool idmapped_mounts = false;
  bool net_devices = false;
  std::vector<std::string> memory_policy_modes;
  std::vector<std::string> memory_policy_flags;
  StringMap annotations;
  std::vector<std::string> potentially_unsafe_annotations;
};

// Four spaces of indent, no final newline, as runc prints it.
[[nodiscard]] std::string print(const Features& features);

}  // namespace leash::oci
