// leash-runtime features: what it can do, for engines that ask at their start.
#include "oci-spec/features.h"

#include <unistd.h>

#include <iostream>

#include "runtime/capabilities.h"
#include "runtime/command.h"
#include "runtime/mount_options.h"
#include "runtime/seccomp.h"

namespace leash::runtime {

namespace {

Result<int> features(const GlobalOptions&, const args::Parsed&) {
  oci::Features document;
  document.oci_version_min = "1.0.0";
  document.oci_version_max = "1.3.0";
  document.hooks = {"prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"};
  document.mount_options = known_mount_options();
  document.namespaces = {"cgroup", "ipc", "mount", "network", "pid", "time", "user", "uts"};
  document.capabilities = known_capabilities();
  document.cgroup_v1 = true;
  document.cgroup_v2 = true;
  document.cgroup_rdma = true;
  document.seccomp_actions = seccomp_known_actions();
  document.seccomp_operators = seccomp_known_operators();
  document.seccomp_archs = seccomp_known_archs();
  document.seccomp_known_flags = seccomp_known_flags();
  document.seccomp_supported_flags = seccomp_supported_flags();
  document.apparmor = true;
  document.selinux = false;
  document.idmapped_mounts = true;
  document.annotations = {{"io.github.seccomp.libseccomp.version", libseccomp_version()},
                          {"org.opencontainers.runc.checkpoint.enabled", "false"}};
  std::cout << oci::print(document) << '\n';
  return 0;
}

}  // namespace

const Command kFeaturesCommand = {
    "features", "show the enabled features", {},
    "Show the enabled features. The result is the JSON of the runtime specification (features.md).", {}, 0, 0, false, 1, features};

}  // namespace leash::runtime
