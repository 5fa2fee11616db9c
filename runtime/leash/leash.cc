#include "runtime/leash/leash.h"

#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/file.h"
#include "base/process.h"
#include "base/sys.h"
#include "runtime/leash/error_text.h"
#include "runtime/leash/image_annotation.h"
#include "runtime/leash/shim_client.h"
#include "runtime/seccomp_floor.h"

namespace leash::runtime {

namespace {

constexpr std::chrono::seconds kDeadline{30};

void wipe(std::string& text) {
  ::explicit_bzero(text.data(), text.size());
  text.clear();
}

void wipe(std::vector<std::string>& texts) {
  for (std::string& text : texts) wipe(text);
  texts.clear();
}

// Buffers of finished calls are still on the stack, below us.
[[gnu::noinline]] void wipe_unused_stack() {
  std::array<char, size_t{256} << 10> below;
  ::explicit_bzero(below.data(), below.size());
}

oci::ExtraMount as_extra(const oci::Mount& mount) {
  oci::ExtraMount extra;
  extra.destination = mount.destination;
  extra.type = mount.type;
  extra.source = mount.source;
  extra.options = mount.options;
  return extra;
}

oci::PrepareRequest prepare_request(const GlobalOptions& options, const Bundle& bundle, const InitPlan& plan,
                                    const PolicyChoice& choice) {
  oci::PrepareRequest request;
  request.container_id = plan.container_id;
  request.bundle = bundle.directory;
  request.rootfs = bundle.rootfs;
  request.runtime_root = options.root;
  request.policy = choice.policy;
  request.policy_is_explicit = choice.is_explicit;
  request.env = plan.config.process->env;
  for (const oci::Mount& mount : plan.config.mounts) request.mounts.push_back(as_extra(mount));
  request.trust_store = options.trust_store;
  request.has_user_namespace = plan.namespaces.has_user_namespace();
  request.rootfs_readonly = plan.config.root.readonly;
  return request;
}

// The engine's own environment goes on to the shim, where a policy may take a key from it (`from: host-env`),
// but for what would change how the shim is loaded and what it trusts.
std::vector<std::string> shim_environment() {
  static constexpr std::array<std::string_view, 7> kLeftOut = {"PATH=", "LD_", "GLIBC_", "MALLOC_", "OPENSSL_", "SSL_", "CTLOG_"};
  std::vector<std::string> environment = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin"};
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const bool is_left_out = std::any_of(kLeftOut.begin(), kLeftOut.end(), [&](std::string_view name) { return text.starts_with(name); });
    if (!is_left_out) environment.emplace_back(text);
  }
  return environment;
}

// The namespace that the container starts in: the one its engine has wired, or will.
Result<Fd> engine_network(const oci::NetworkKind kind, const NamespacePlan& namespaces, pid_t init_pid) {
  switch (kind) {
    case oci::NetworkKind::kNew: return sys::open("/proc/" + std::to_string(init_pid) + "/ns/net", O_RDONLY);
    case oci::NetworkKind::kPath: {
      const JoinedNamespace* joined = namespaces.find_joined(oci::NamespaceType::kNetwork);
      return sys::open("/proc/self/fd/" + std::to_string(joined->fd.get()), O_RDONLY);
    }
    case oci::NetworkKind::kHost: return sys::open("/proc/self/ns/net", O_RDONLY);
  }
  return Error(EINVAL, "unknown kind of network");
}

// A member of a leashed container's network is born in that one's N2, also when config.json names its N1.
void join_network_of(NamespacePlan& namespaces, Fd network) {
  for (JoinedNamespace& joined : namespaces.joined) {
    if (joined.type == oci::NamespaceType::kNetwork) joined.fd = std::move(network);
  }
}

// Until init has been locked in, at start, its network namespace is the engine's, with a way out: nobody
// may follow it in there. It never goes back, so that a look is enough.
Result<void> check_locked_in(const Container& container) {
  TRY(const std::string text, file::read(oci::registry_directory() + "/" + container.record.id + "/container.json"));
  TRY(const oci::RegistryEntry entry, oci::parse_registry_entry(text));
  const uint64_t network = namespace_inode(container.record.init_pid, "net");
  if (network != 0 && network == entry.n2_inode) return {};
  return Error(EAGAIN, "cannot exec in a container whose network is not locked in yet: start it first");
}

}  // namespace

Leash::~Leash() {
  if (!shim_.valid() || is_committed_) return;
  { const Channel closed = std::move(lock_); }
  ::shutdown(shim_.fd(), SHUT_WR);
  for (;;) {
    auto message = shim_.receive(kDeadline);
    if (!message || !*message) return;
  }
}

Result<void> Leash::start_shim(const GlobalOptions& options, const std::string& container_id) {
  TRY(auto ends, Channel::pair());
  const std::string path = options.program_directory + "/leash-shim";
  std::vector<std::string> environment = shim_environment();
  auto spawned = process::spawn_daemon(path, {"leash-shim", container_id}, environment, {{ends.second.fd(), 3}});
  wipe(environment);
  if (!spawned) return std::move(spawned).error();
  shim_ = std::move(ends.first);
  return {};
}

Result<Message> Leash::answer(std::string_view expected) {
  TRY(auto message, shim_.receive(kDeadline));
  if (!message) return Error("the shim ended early");
  if (message->kind == "failed") return Error(message->body);
  if (message->kind != expected) return Error(EPROTO, "unexpected answer '" + message->kind + "' from the shim");
  return std::move(*message);
}

Result<Leash> Leash::begin(const GlobalOptions& options, const Bundle& bundle, InitPlan& plan) {
  return lock_in_step([&]() -> Result<Leash> {
    Leash leash;
    TRY_VOID(check_not_from_image(bundle.directory, plan.config));
    TRY(leash.choice_, choose_policy(options, bundle.rootfs, plan.config));
    if (leash.choice_.is_none) return leash;
    if (plan.root_change == RootChange::kChroot) {
      return Error(EINVAL, "a leashed container needs a mount namespace of its own");
    }
    TRY(leash.network_, classify_network(plan.namespaces));
    if (leash.network_.leashed) {
      TRY(leash.shim_, Channel::connect(oci::registry_directory() + "/" + leash.network_.leashed->container_id + "/shim.sock"));
    } else {
      TRY_VOID(leash.start_shim(options, plan.container_id));
    }
    oci::PrepareRequest request = prepare_request(options, bundle, plan, leash.choice_);
    std::string text = oci::print(request);
    auto sent = leash.shim_.send("prepare", text);
    wipe(text);
    wipe(request.env);
    if (!sent) return std::move(sent).error();
    return leash;
  }());
}

Result<void> Leash::finish_plan(Bundle& bundle, InitPlan& plan) {
  if (!is_on()) return {};
  return lock_in_step([&]() -> Result<void> {
    TRY(Message message, answer("prepared"));
    TRY(oci::PrepareReply reply, oci::parse_prepare_reply(message.body));
    std::string as_written = std::move(bundle.text);
    auto replaced = oci::replace_environment(as_written, reply.env);
    wipe(as_written);
    if (!replaced) return std::move(replaced).error();
    bundle.text = std::move(replaced).value();
    wipe(bundle.config.process->env);
    wipe(plan.config.process->env);
    wipe_unused_stack();
    plan.config.process->env = std::move(reply.env);
    plan.shim_mounts = std::move(reply.mounts);
    TRY(plan.floor, seccomp_floor(reply.syscalls_allow, reply.syscalls_deny));
    if (!network_.leashed) {
      TRY(auto ends, Channel::pair());
      lock_ = std::move(ends.first);
      plan.lock = std::move(ends.second);
      return {};
    }
    if (message.fds.size() != 1) return Error(EPROTO, "the shim sent no network namespace");
    join_network_of(plan.namespaces, std::move(message.fds[0]));
    return {};
  }());
}

Result<void> Leash::attach(pid_t init_pid, InitPlan& plan) {
  if (!is_on()) return {};
  return lock_in_step([&]() -> Result<void> {
    { const Channel inits = std::move(plan.lock); }
    oci::AttachRequest request;
    request.init_pid = init_pid;
    request.network = network_.kind;
    for (const auto& [name, value] : plan.config.linux.sysctl) {
      if (name.starts_with("net.") || name.starts_with("net/")) request.net_sysctls.emplace_back(name, value);
    }
    TRY(Fd pidfd, sys::pidfd_open(init_pid));
    if (network_.leashed) return shim_.send("join", oci::print(request), {pidfd.get()});
    TRY(Fd network, engine_network(network_.kind, plan.namespaces, init_pid));
    TRY_VOID(shim_.send("attach", oci::print(request), {pidfd.get(), network.get(), lock_.fd()}));
    { const Channel shims = std::move(lock_); }
    return {};
  }());
}

Result<void> Leash::wait_ready() {
  if (!is_on()) return {};
  return lock_in_step([&]() -> Result<void> {
    TRY_VOID(answer(network_.leashed ? "joined" : "ready"));
    return {};
  }());
}

Result<void> Leash::commit() {
  if (!is_on()) return {};
  if (!network_.leashed) TRY_VOID(lock_in_step(shim_.send("commit")));
  is_committed_ = true;
  return {};
}

Result<void> confine_exec(const Container& container, const oci::Config& config, std::vector<std::string>& env,
                          SeccompFilter& floor, CapabilitySets& capabilities) {
  return lock_in_step([&]() -> Result<void> {
    TRY_VOID(check_locked_in(container));
    TRY(oci::PrepareReply reply, prepare_exec(container, env));
    wipe(env);
    env = std::move(reply.env);
    TRY(floor, seccomp_floor(reply.syscalls_allow, reply.syscalls_deny));
    std::vector<std::string> unknown;
    const oci::Capabilities names =
        config.process && config.process->capabilities ? *config.process->capabilities : oci::Capabilities();
    const CapabilitySets own = parse_capabilities(names, unknown);
    // `docker exec --privileged` asks for more than the container has; it gets what that has.
    capabilities.bounding &= own.bounding;
    capabilities.effective &= own.bounding;
    capabilities.permitted &= own.bounding;
    capabilities.inheritable &= own.bounding;
    capabilities.ambient &= own.bounding;
    return {};
  }());
}

}  // namespace leash::runtime
