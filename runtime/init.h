// The process that becomes the container: cloned by launch.cc, it builds the container around itself,
// waits for `start`, and executes the user's program. Its conversation is in init_protocol.h.
//
// It runs with a copy of the runtime's memory: everything it needs was parsed and compiled before the
// clone, and nothing of the engine's secrets may be in there (launch.cc wipes them).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/channel.h"
#include "base/fd.h"
#include "oci-spec/config.h"
#include "oci-spec/shim_protocol.h"
#include "oci-spec/state.h"
#include "runtime/capabilities.h"
#include "runtime/namespaces.h"
#include "runtime/rootfs.h"
#include "runtime/seccomp.h"

namespace leash::runtime {

struct InitPlan {
  oci::Config config;
  oci::State state;  // for the hooks that init runs
  std::string container_id;
  std::string rootfs;  // absolute
  NamespacePlan namespaces;
  std::vector<oci::CgroupPath> cgroups;
  CapabilitySets capabilities;
  SeccompFilter seccomp;
  SeccompFilter floor;  // leashed containers only
  RootChange root_change = RootChange::kPivot;
  unsigned long root_propagation = 0;
  bool no_new_keyring = false;
  int preserved_fds = 0;
  std::vector<oci::ExtraMount> shim_mounts;  // after config.json's own

  Fd start_socket;    // listening
  Fd console_socket;  // only with process.terminal
  Channel lock;       // to leash-shim; valid when the network must be locked in
};

// Does not return.
[[noreturn]] void run_init(InitPlan& plan, Channel parent);

// Closes all descriptors above 2 and the preserved ones but those in `kept`.
void close_inherited(int preserved_fds, std::vector<int> kept);

}  // namespace leash::runtime
