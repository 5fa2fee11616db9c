// Where a container's policy comes from, first match wins:
//
//   1  the annotation leash.policy: a path on the host, or a name in /etc/leash/policies
//   2  a bind mount at /etc/leash/policy.yaml: read once, then left out of the container
//   3  --policy FILE of the runtime ("none": a plain OCI runtime)
//   4  /etc/leash/policy.yaml (rootless: $XDG_CONFIG_HOME/leash/policy.yaml first)
//   5  the built-in profile
//
// Nothing that an image can set is read: no environment variable, no label, and no annotation of its
// manifest (image_annotation.h).
#pragma once

#include <string>

#include "base/result.h"
#include "oci-spec/config.h"
#include "oci-spec/shim_protocol.h"
#include "runtime/command.h"

namespace leash::runtime {

struct PolicyChoice {
  bool is_none = false;
  bool is_explicit = false;  // 1 or 2: named for this container
  oci::PolicyText policy;    // source "built-in" with an empty text: the shim knows it
};

// Takes the mount of 2 out of `config`. Refuses a file that the container could write to.
[[nodiscard]] Result<PolicyChoice> choose_policy(const GlobalOptions& options, const std::string& rootfs,
                                                 oci::Config& config);

// Does `file` lie in a directory (or is it one) that the container may write to? Names the mount.
[[nodiscard]] Result<void> check_out_of_reach(const std::string& file, const std::string& rootfs,
                                              const oci::Config& config);

}  // namespace leash::runtime
