// The runtime's side of a leashed container: which policy holds, which shim serves it, and the
// conversation with it (oci-spec/shim_protocol.h). With `--policy none` every step is a no-op and
// leash-runtime is a plain OCI runtime.
#pragma once

#include <string>

#include "base/channel.h"
#include "base/result.h"
#include "oci-spec/shim_protocol.h"
#include "runtime/bundle.h"
#include "runtime/command.h"
#include "runtime/init.h"
#include "runtime/leash/network.h"
#include "runtime/leash/policy_source.h"
#include "runtime/state_store.h"

namespace leash::runtime {

class Leash {
 public:
  Leash() = default;
  Leash(Leash&&) = default;
  Leash& operator=(Leash&&) = default;
  Leash(const Leash&) = delete;
  Leash& operator=(const Leash&) = delete;
  // Not committed: the shim takes everything down, and is waited for, so that the id can be used again.
  ~Leash();

  // Finds the policy, classifies the network, starts the shim and hands it the environment.
  [[nodiscard]] static Result<Leash> begin(const GlobalOptions& options, const Bundle& bundle, InitPlan& plan);

  [[nodiscard]] bool is_on() const { return shim_.valid(); }
  [[nodiscard]] const std::string& policy_source() const { return choice_.policy.source; }

  // Takes the shim's answer into plan and bundle: environment, mounts, floor filter. After it neither holds
  // a secret, nor does memory that was freed (wiping_delete.cc).
  [[nodiscard]] Result<void> finish_plan(Bundle& bundle, InitPlan& plan);
  // Hands over init and its network; the shim goes on while init builds its root.
  [[nodiscard]] Result<void> attach(pid_t init_pid, InitPlan& plan);
  [[nodiscard]] Result<void> wait_ready();
  [[nodiscard]] Result<void> commit();

 private:
  [[nodiscard]] Result<void> start_shim(const GlobalOptions& options, const std::string& container_id);
  [[nodiscard]] Result<Message> answer(std::string_view expected);

  PolicyChoice choice_;
  NetworkChoice network_;
  Channel shim_;
  Channel lock_;  // the shim's end, until it is sent
  bool is_committed_ = false;
};

// exec in a leashed container: the environment as the shim rewrites it, the floor filter, and no capability
// that the container itself was not given. Fails when the shim does not answer.
[[nodiscard]] Result<void> confine_exec(const Container& container, const oci::Config& config,
                                        std::vector<std::string>& env, SeccompFilter& floor,
                                        CapabilitySets& capabilities);

}  // namespace leash::runtime
