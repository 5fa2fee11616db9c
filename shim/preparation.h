// What the shim works out before a container exists: from the request of `create` to the environment and
// the mounts that it gets. One for the container, one more for each that joins its network.
#pragma once

#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "hooks/trust.h"
#include "oci-spec/engine_files.h"
#include "oci-spec/policy.h"
#include "oci-spec/shim_protocol.h"
#include "shim/resolv_conf.h"
#include "shim/secrets.h"

namespace leash::shim {

struct Preparation {
  oci::PrepareReply reply;
  SecretStore secrets;
  std::vector<oci::ProxySecret> added;  // by this environment
};

// `authority`: of the container whose shim this is. `directory`: where the trust files go.
[[nodiscard]] Result<Preparation> prepare(const oci::PrepareRequest& request, const oci::Policy& policy,
                                          const hooks::Authority& authority, const std::string& directory);

// What an exec into a prepared container gets.
[[nodiscard]] Result<SecretStore::Hidden> prepare_exec(SecretStore& secrets, const std::vector<std::string>& env);

// Name and ports as the engine has them; empty where it left no files (podman, plain bundles).
[[nodiscard]] Result<oci::EngineFacts> read_engine_facts(const oci::PrepareRequest& request);

// The roots that origins are verified with: the named file, or the host's own bundle, or an empty file.
[[nodiscard]] Result<Fd> open_trust_store(const std::string& path);

// What the proxy asks from N1, and what the dialer lets through even on loopback.
struct DnsPlan {
  std::vector<std::string> servers;
  std::vector<std::string> loopback_resolvers;  // for hooks::LockInPlan
  bool has_engine_dns = false;
};
[[nodiscard]] DnsPlan plan_dns(const oci::Policy& policy, const Resolvers& resolvers);

}  // namespace leash::shim
