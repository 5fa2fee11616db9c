// The runtime's side of a leashed container: which policy holds, which shim serves it, and the
// conversation with it (oci-spec/shim_protocol.h). With `--policy none` every step is a no-op and
// leash-runtime is a plain OCI runtime.
#pragma once

#include <string>

#include "base/channel.h"
#include "base/result.h"
#include "runtime/bundle.h"
#include "runtime/command.h"
#include "runtime/init.h"
#include "runtime/state_store.h"

namespace leash::runtime {

class Leash {
 public:
  // Finds the policy, classifies the network, starts the shim and hands it the environment.
  [[nodiscard]] static Result<Leash> begin(const GlobalOptions& options, Bundle& bundle, InitPlan& plan);

  [[nodiscard]] bool is_on() const { return is_on_; }
  [[nodiscard]] const std::string& policy_source() const { return policy_source_; }

  // Takes the shim's answer into the plan: environment, mounts, floor filter. After it neither bundle nor
  // plan holds a secret.
  [[nodiscard]] Result<void> finish_plan(Bundle& bundle, InitPlan& plan);
  [[nodiscard]] Result<void> attach(pid_t init_pid, InitPlan& plan);
  [[nodiscard]] Result<void> wait_ready();
  [[nodiscard]] Result<void> commit();

 private:
  bool is_on_ = false;
  std::string policy_source_;
};

// exec in a leashed container: the environment as the shim rewrites it, the floor filter, and no capability
// that the container itself was not given. Fails when the shim does not answer.
[[nodiscard]] Result<void> confine_exec(const Container& container, std::vector<std::string>& env, SeccompFilter& floor,
                                        CapabilitySets& capabilities);

}  // namespace leash::runtime
