#include "shim/preparation.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>

#include "base/file.h"
#include "base/sys.h"
#include "shim/journal.h"

namespace leash::shim {

namespace {

// Where distributions keep the bundle (the list of Go's crypto/x509, root_linux.go).
constexpr std::array kBundles = {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                                 "/etc/ssl/ca-bundle.pem", "/etc/pki/tls/cacert.pem",
                                 "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem"};
constexpr size_t kMaxEngineFile = size_t{4} << 20;

}  // namespace

Result<Preparation> prepare(const oci::PrepareRequest& request, const oci::Policy& policy,
                            const hooks::Authority& authority, const std::string& directory) {
  TRY(SecretStore secrets, SecretStore::create(policy.secrets).context("secrets"));
  TRY(SecretStore::Hidden hidden, secrets.hide(request.env).context("secrets"));

  hooks::TrustRequest trust;
  trust.rootfs = request.rootfs;
  trust.mounts = request.mounts;
  trust.env = hidden.env;
  trust.certificate_pem = authority.certificate_pem;
  trust.directory = directory;
  trust.read_only_rootfs = request.rootfs_readonly;
  TRY(hooks::TrustPlan plan, hooks::prepare_trust(trust).context("trust"));

  Preparation result{{}, std::move(secrets), std::move(hidden.added)};
  result.reply.env = std::move(hidden.env);
  result.reply.env.insert(result.reply.env.end(), plan.variables.begin(), plan.variables.end());
  result.reply.mounts = std::move(plan.mounts);
  result.reply.syscalls_allow = policy.syscalls_allow;
  result.reply.syscalls_deny = policy.syscalls_deny;
  return result;
}

Result<SecretStore::Hidden> prepare_exec(SecretStore& secrets, const std::vector<std::string>& env) {
  TRY(SecretStore::Hidden hidden, secrets.hide(env).context("secrets"));
  const std::vector<std::string> variables = hooks::missing_trust_variables(hidden.env);
  hidden.env.insert(hidden.env.end(), variables.begin(), variables.end());
  return hidden;
}

Result<oci::EngineFacts> read_engine_facts(const oci::PrepareRequest& request) {
  constexpr std::string_view kName = "/hostname";
  for (const oci::ExtraMount& mount : request.mounts) {
    if (mount.destination != "/etc/hostname" || !mount.source.ends_with(kName)) continue;
    const std::string directory = mount.source.substr(0, mount.source.size() - kName.size());
    auto config = file::read(directory + "/config.v2.json", kMaxEngineFile);
    auto host_config = file::read(directory + "/hostconfig.json", kMaxEngineFile);
    if (!config || !host_config) return oci::EngineFacts();  // podman keeps none
    TRY(oci::EngineFacts facts, oci::parse_docker_files(*config, *host_config).context("'" + directory + "'"));
    // Somebody's own bind over /etc/hostname, from a directory with files of these names.
    if (facts.container_id != request.container_id) return oci::EngineFacts();
    return facts;
  }
  return oci::EngineFacts();
}

Result<Fd> open_trust_store(const std::string& path) {
  constexpr int kFlags = O_RDONLY | O_NONBLOCK | O_NOCTTY;
  if (!path.empty()) {
    TRY(Fd file, sys::open(path, kFlags).context("trust store"));
    TRY(const struct stat status, sys::fstat(file.get()));
    if (!S_ISREG(status.st_mode)) return Error(EINVAL, "trust store: '" + path + "' is not a regular file");
    return file;
  }
  for (const char* bundle : kBundles) {
    auto file = sys::open(bundle, kFlags);
    if (!file) continue;
    const auto status = sys::fstat(file->get());
    if (status && S_ISREG(status->st_mode) && status->st_size > 0) return file;
  }
  // Not an error here: nothing is vouched for then, every inspected origin is refused as unverified.
  note("this host has no bundle of certificate authorities: no origin can be verified");
  return sys::memfd_create("no-roots", 0);
}

DnsPlan plan_dns(const oci::Policy& policy, const Resolvers& resolvers) {
  DnsPlan plan;
  plan.has_engine_dns = resolvers.has_engine_dns;
  plan.loopback_resolvers = resolvers.loopback;
  for (const oci::IpAddress& address : policy.dns.servers) plan.servers.push_back(oci::print(address));
  if (plan.servers.empty()) {
    // A zone ("fe80::1%eth0") cannot be asked through the dialer.
    std::copy_if(resolvers.servers.begin(), resolvers.servers.end(), std::back_inserter(plan.servers),
                 [](const std::string& server) { return server.find('%') == std::string::npos; });
  }
  if (plan.servers.empty() && resolvers.has_engine_dns) plan.servers.emplace_back("127.0.0.11");
  return plan;
}

}  // namespace leash::shim
