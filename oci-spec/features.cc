#include "oci-spec/features.h"

#include "oci-spec/json.h"

namespace leash::oci {

using json::OrderedValue;

std::string print(const Features& features) {
  OrderedValue cgroup;
  cgroup["v1"] = features.cgroup_v1;
  cgroup["v2"] = features.cgroup_v2;
  cgroup["systemd"] = features.cgroup_systemd;
  cgroup["systemdUser"] = features.cgroup_systemd_user;
  cgroup["rdma"] = features.cgroup_rdma;

  OrderedValue seccomp;
  seccomp["enabled"] = !features.seccomp_actions.empty();
  seccomp["actions"] = features.seccomp_actions;
  seccomp["operators"] = features.seccomp_operators;
  seccomp["archs"] = features.seccomp_archs;
  seccomp["knownFlags"] = features.seccomp_known_flags;
  seccomp["supportedFlags"] = features.seccomp_supported_flags;

  OrderedValue linux_part;
  linux_part["namespaces"] = features.namespaces;
  linux_part["capabilities"] = features.capabilities;
  linux_part["cgroup"] = std::move(cgroup);
  linux_part["seccomp"] = std::move(seccomp);
  linux_part["apparmor"]["enabled"] = features.apparmor;
  linux_part["selinux"]["enabled"] = features.selinux;
  linux_part["intelRdt"]["enabled"] = features.intel_rdt;
  linux_part["memoryPolicy"]["modes"] = features.memory_policy_modes;
  linux_part["memoryPolicy"]["flags"] = features.memory_policy_flags;
  linux_part["mountExtensions"]["idmap"]["enabled"] = features.idmapped_mounts;
  linux_part["netDevices"]["enabled"] = features.net_devices;

  OrderedValue out;
  out["ociVersionMin"] = features.oci_version_min;
  out["ociVersionMax"] = features.oci_version_max;
  out["hooks"] = features.hooks;
  out["mountOptions"] = features.mount_options;
  out["linux"] = std::move(linux_part);
  out["annotations"] = features.annotations;
  out["potentiallyUnsafeConfigAnnotations"] = features.potentially_unsafe_annotations;
  return json::dump(out, 4);
}

}  // namespace leash::oci
