#include "shim/shim.h"

#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>

#include "base/file.h"
#include "base/sys.h"
#include "shim/error_text.h"
#include "shim/journal.h"
#include "shim/left_over.h"
#include "shim/network_facts.h"
#include "shim/own_memory.h"

namespace leash::shim {

namespace {

using std::chrono::milliseconds;

// An earlier shim of the same id is taking itself down: `docker restart` is faster than that.
constexpr milliseconds kPredecessorTime{3000};

int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Result<uint64_t> inode_of(const Fd& fd) {
  TRY(const struct stat status, sys::fstat(fd.get()));
  return static_cast<uint64_t>(status.st_ino);
}

Result<RegistryDirectory> claim_registry(const std::string& container_id) {
  const auto deadline = Loop::Clock::now() + kPredecessorTime;
  for (;;) {
    auto claimed = RegistryDirectory::claim(container_id);
    if (claimed || claimed.error().code() != EBUSY || Loop::Clock::now() > deadline) return claimed;
    ::usleep(5000);
  }
}

std::string log_directory(const oci::PrepareRequest& request, const oci::Policy& policy) {
  if (!request.log_directory.empty()) return request.log_directory;
  if (!policy.log.directory.empty()) return policy.log.directory + "/" + request.container_id;
  return "/var/lib/leash/" + request.container_id;
}

}  // namespace

Shim::Shim(Loop& loop, std::string container_id, Channel runtime, OwnCgroup cgroup, Fd signals, Fd proxy_program)
    : loop_(loop),
      container_id_(std::move(container_id)),
      runtime_(std::move(runtime)),
      cgroup_(std::move(cgroup)),
      signals_(std::move(signals)),
      proxy_program_(std::move(proxy_program)) {}

Shim::~Shim() { finish(); }

Result<void> Shim::run() {
  TRY_VOID(loop_.watch(signals_.get(), EPOLLIN, [this](uint32_t) { on_signal(); }));
  TRY_VOID(loop_.watch(runtime_.fd(), EPOLLIN, [this](uint32_t) { on_runtime(); }));
  return loop_.run();
}

void Shim::on_signal() {
  struct signalfd_siginfo info = {};
  while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    // SIGTERM is a machine that goes down, or a person who takes us for the container's process. While
    // there is a container it needs its supervisor; afterwards we are going anyway.
    if (info.ssi_signo == SIGTERM) note("SIGTERM is ignored: leash-shim ends with its container");
  }
  children_.reap();
}

// ---- create ----

void Shim::on_runtime() {
  auto received = runtime_.receive(milliseconds(0));
  if (!received && received.error().code() == ETIMEDOUT) return;
  if (!received || !received->has_value()) {
    // create has died or given up before "commit": everything goes.
    finish();
    return;
  }
  auto handled = handle_runtime(std::move(**received));
  if (!handled) fail_create(handled.error());
}

void Shim::fail_create(const Error& reason) {
  if (state_ == State::kFinished) return;
  // A create that was killed has nobody left to tell, and its container no log.
  if (reason.code() != EPIPE && reason.code() != ECONNRESET) note("create: " + reason.message());
  (void)runtime_.send("failed", for_engine(reason.message()));
  finish();
}

Result<void> Shim::handle_runtime(Message message) {
  if (message.kind == "prepare" && state_ == State::kNew) return handle_prepare(message);
  if (message.kind == "attach" && state_ == State::kPrepared) return handle_attach(std::move(message));
  if (message.kind == "commit" && state_ == State::kReady) {
    handle_commit();
    return {};
  }
  return Error(EPROTO, "leash-shim: '" + message.kind + "' does not come now");
}

Result<void> Shim::handle_prepare(const Message& message) {
  TRY(const oci::PrepareRequest request, oci::parse_prepare_request(message.body));
  if (request.container_id != container_id_) return Error(EPROTO, "prepare: for container '" + request.container_id + "'");
  policy_text_ = request.policy;
  // The runtime has no policy code: it sends the name of the built-in one alone.
  if (policy_text_.source == oci::kBuiltInSource) policy_text_.text = oci::built_in_policy();
  TRY(policy_, oci::parse_policy(policy_text_.source, policy_text_.text).context("policy"));
  TRY(registry_, claim_registry(container_id_).context("registry"));
  if (registry_.taken() == RegistryDirectory::Taken::kLeftOver) TRY_VOID(clear_left_over(registry_, container_id_));
  TRY(facts_, read_engine_facts(request).context("ports"));

  entry_.container_id = container_id_;
  entry_.name = facts_.name;
  entry_.bundle = request.bundle;
  entry_.runtime_root = request.runtime_root;
  entry_.policy_source = request.policy.source;
  entry_.log_directory = log_directory(request, policy_);
  entry_.shim_pid = ::getpid();
  TRY(logs_, LogFiles::open(entry_.log_directory, registry_.path() + "/in-flight",
                            facts_.name.empty() ? container_id_ : facts_.name).context("logs"));
  TRY_VOID(logs_.take_diagnostics().context("logs"));
  lock_memory();

  // First the proxy, whose start takes longer than all that follows here.
  proxy_ = std::make_unique<ProxySupervisor>(loop_, children_, logs_, std::move(proxy_program_), container_id_);
  TRY_VOID(proxy_->start().context("proxy"));

  request_ = request;
  request_.env.clear();  // the secrets are in secrets_ alone
  TRY(const Resolvers resolvers, read_resolvers(request).context("dns"));
  dns_ = plan_dns(policy_, resolvers);
  TRY(trust_store_, open_trust_store(request.trust_store));
  TRY(authority_, hooks::create_authority(container_id_).context("certificate authority"));
  TRY(Preparation preparation, prepare(request, policy_, authority_, registry_.path() + "/trust"));
  secrets_ = std::move(preparation.secrets);
  state_ = State::kPrepared;
  return runtime_.send("prepared", oci::print(preparation.reply));
}

Result<void> Shim::handle_attach(Message message) {
  TRY(attached_, oci::parse_attach_request(message.body));
  if (message.fds.size() != 3) return Error(EPROTO, "attach: pidfd, network namespace and lock are expected");
  init_ = std::move(message.fds[0]);
  n1_ = std::move(message.fds[1]);
  lock_ = Channel(std::move(message.fds[2]));
  entry_.init_pid = attached_.init_pid;
  TRY(entry_.n1_inode, inode_of(n1_));
  TRY(const Fd own, sys::open("/proc/self/ns/net", O_RDONLY));
  TRY(const uint64_t own_inode, inode_of(own));
  is_n1_the_hosts_ = own_inode == entry_.n1_inode;
  if (sys::pidfd_exited(init_.get())) return Error(ESRCH, "attach: the container's init has died");

  state_ = State::kAttaching;
  Fd dialer_n1(::fcntl(n1_.get(), F_DUPFD_CLOEXEC, 3));
  if (!dialer_n1) return Error::last_errno("dup network namespace");
  const auto make_config = [this] { return proxy_config(); };
  proxy_->configure(std::move(dialer_n1), std::move(trust_store_), dns_.servers, make_config, [this](Result<void> outcome) {
    if (state_ != State::kAttaching) return;
    if (!outcome) {
      fail_create(std::move(outcome).error().context("proxy"));
      return;
    }
    state_ = State::kReady;
    entry_.started_us = now_us();
    auto published = registry_.publish(entry_);
    if (published) published = runtime_.send("ready");
    if (!published) fail_create(published.error());
  });
  if (state_ == State::kFinished) return {};
  // While the proxy reads its configuration:
  TRY_VOID(guard_n1());
  TRY(shim_socket_, registry_.listen());
  TRY_VOID(loop_.watch(shim_socket_.get(), EPOLLIN, [this](uint32_t) { on_shim_socket(); }));
  TRY_VOID(loop_.watch(init_.get(), EPOLLIN, [this](uint32_t) { on_init_exit(); }));
  return loop_.watch(lock_.fd(), EPOLLIN, [this](uint32_t) { on_lock(); });
}

void Shim::handle_commit() {
  state_ = State::kCommitted;
  loop_.unwatch(runtime_.fd());
  runtime_ = Channel();
  // Not before: a create that is undone shall not have waited for a migration.
  std::vector<pid_t> pids = {::getpid()};
  for (const pid_t pid : {proxy_->pid(), proxy_->dialer_pid()}) {
    if (pid > 0) pids.push_back(pid);
  }
  cgroup_.adopt(pids);
  end_if_alone();
}

oci::ProxyConfig Shim::proxy_config() const {
  oci::ProxyConfig config;
  config.container_id = container_id_;
  config.container_name = facts_.name;
  config.policy = policy_text_;
  config.ca_certificate_pem = authority_.certificate_pem;
  config.ca_key_pem = authority_.key_pem;
  config.dns_servers = dns_.servers;
  config.has_engine_dns = dns_.has_engine_dns;
  if (secrets_) config.secrets = secrets_->secrets();
  for (const Member& member : members_) {
    const std::vector<oci::ProxySecret>& theirs = member.secrets.secrets();
    config.secrets.insert(config.secrets.end(), theirs.begin(), theirs.end());
  }
  return config;
}

// ---- N1: what may come in ----

Result<void> Shim::guard_n1() {
  // The host's own namespace is not ours to guard, and nothing is published there.
  if (is_n1_the_hosts_) return {};
  hooks::InboundPlan plan;
  plan.n1_fd = n1_.get();
  if (!facts_.tcp_ports.empty()) {
    TRY(relay_listeners_, bind_relay_listeners(n1_.get()));
    plan.relay_port = relay_listeners_->port;
    for (const oci::TcpPorts& ports : facts_.tcp_ports) plan.tcp_ports.push_back({ports.first, ports.last});
  }
  return hooks::guard_inbound(plan).context("inbound guard");
}

void Shim::run_relay() {
  if (!relay_listeners_ || state_ == State::kFinished) return;
  auto started = start_relay(*relay_listeners_, n2_.get());
  if (!started) {
    // Published ports stay closed; what goes out is not touched by that.
    note(started.error().message());
    deafen(*relay_listeners_);
    return;
  }
  relay_ = std::move(*started);
  children_.expect(relay_.pid, [this](int) {
    relay_ = Relay();
    deafen(*relay_listeners_);
    note("the inbound relay has died");
    const milliseconds pause = std::min(milliseconds(5000), milliseconds(50) * (++relay_deaths_));
    (void)loop_.after(pause, [this] { run_relay(); });
  });
}

// ---- start: the lock-in ----

void Shim::on_lock() {
  auto received = lock_.receive(milliseconds(0));
  if (!received && received.error().code() == ETIMEDOUT) return;
  loop_.unwatch(lock_.fd());
  if (!received || !received->has_value()) return;  // init is gone; its pidfd says so
  if ((*received)->kind != "n2") {
    answer_lock(Error(EPROTO, "init said '" + (*received)->kind.substr(0, 32) + "' instead of n2"));
    return;
  }
  auto locked = lock_in();
  if (!locked) answer_lock(locked);
}

Result<void> Shim::lock_in() {
  if (lockin_) return Error(EPROTO, "n2 came twice");
  TRY(n2_, sys::open("/proc/" + std::to_string(attached_.init_pid) + "/ns/net", O_RDONLY));
  // Checked after: had init died before, the number could be another process's by now.
  if (sys::pidfd_exited(init_.get())) return Error(ESRCH, "the container's init has died");
  TRY(entry_.n2_inode, inode_of(n2_));
  TRY(const Fd own, sys::open("/proc/self/ns/net", O_RDONLY));
  TRY(const uint64_t own_inode, inode_of(own));
  if (entry_.n2_inode == entry_.n1_inode || entry_.n2_inode == own_inode) {
    return Error(EPROTO, "init is not in a network namespace of its own");
  }

  hooks::LockInPlan plan;
  plan.n1_fd = n1_.get();
  plan.n2_fd = n2_.get();
  plan.net_sysctls = attached_.net_sysctls;
  // Again: the engine has connected the container since, and its own resolver comes with that.
  TRY(const Resolvers resolvers, read_resolvers(request_).context("dns"));
  dns_.has_engine_dns = dns_.has_engine_dns || resolvers.has_engine_dns;
  dns_.loopback_resolvers = resolvers.loopback;
  plan.loopback_resolvers = dns_.loopback_resolvers;
  TRY(lockin_, hooks::build(plan));
  for (const std::string& text : lockin_->notes) note("lock-in: " + text);
  TRY_VOID(loop_.watch(lockin_->refusals.fd(), EPOLLIN, [this](uint32_t) { on_refusals(); }));
  TRY_VOID(loop_.watch(lockin_->mirror.fd(), EPOLLIN, [this](uint32_t) { on_mirror(); }));
  proxy_->set_network(facts_of_n1(lockin_->mirror.applied()));
  finder_.emplace(n2_.get());
  finder_->add(attached_.init_pid);
  for (const Member& member : members_) finder_->add(member.entry.init_pid);
  proxy_->on_who([this](const oci::WhoRequest& request) { return finder_->find(request); });
  proxy_->listen(std::move(lockin_->listeners), [this](Result<void> outcome) {
    answer_lock(outcome ? Result<void>() : Result<void>(std::move(outcome).error().context("proxy")));
  });
  run_relay();
  return {};
}

oci::NetworkFacts Shim::facts_of_n1(const hooks::NetState& state) const {
  oci::NetworkFacts facts = network_facts(state, is_n1_the_hosts_);
  facts.has_engine_dns = dns_.has_engine_dns;
  return facts;
}

void Shim::answer_lock(const Result<void>& outcome) {
  if (!lock_.valid()) return;
  Result<void> answered = outcome;
  if (answered) {
    is_locked_in_ = true;
    answered = registry_.publish(entry_);
  }
  if (answered) {
    answered = lock_.send("go");
  } else {
    is_locked_in_ = false;
    const std::string text = "lock-in: " + answered.error().message();
    note(text);
    (void)lock_.send("failed", for_engine(text));
  }
  if (!answered) note("start: " + answered.error().message());
  lock_ = Channel();
}

void Shim::on_refusals() {
  auto packets = lockin_->refusals.read();
  if (!packets) {
    note("refused packets: " + packets.error().message());
    return;
  }
  for (oci::RefusedPacket& packet : *packets) proxy_->report(std::move(packet));
}

void Shim::on_mirror() {
  auto synced = lockin_->mirror.sync();
  if (!synced) {
    note("addresses: " + synced.error().message());
    return;
  }
  for (const std::string& text : *synced) note("addresses: " + text);
  proxy_->set_network(facts_of_n1(lockin_->mirror.applied()));
}

// ---- the end ----

void Shim::on_init_exit() {
  loop_.unwatch(init_.get());
  has_init_exited_ = true;
  end_if_alone();
}

void Shim::end_if_alone() {
  // Before commit it is create that notices, reports and lets go.
  if (state_ == State::kCommitted && has_init_exited_ && members_.empty()) finish();
}

void Shim::finish() {
  if (std::exchange(state_, State::kFinished) == State::kFinished) return;
  loop_.stop();
  if (shim_socket_) loop_.unwatch(shim_socket_.get());
  if (init_) loop_.unwatch(init_.get());
  if (lock_.valid()) loop_.unwatch(lock_.fd());
  // Without "go": init has to know now, not when its deadline passes.
  lock_ = Channel();
  if (lockin_) {
    loop_.unwatch(lockin_->mirror.fd());
    loop_.unwatch(lockin_->refusals.fd());
    on_refusals();  // the last ones
  }
  if (proxy_) proxy_->stop();
  children_.destroy(std::exchange(relay_.pid, 0));
  relay_listeners_.reset();
  // A namespace that the engine made for this container alone ends with it, its table included.
  if (n1_ && !is_n1_the_hosts_ && attached_.network == oci::NetworkKind::kPath) {
    auto removed = hooks::remove_guard(n1_.get());
    if (!removed) note("inbound guard: " + removed.error().message());
  }
  lockin_.reset();
  finder_.reset();
  n2_.reset();
  n1_.reset();
  for (const Member& member : members_) retire_member(member.entry.container_id);
  // Before the name is free: the next shim of this id may want the same files.
  logs_.remove_empty_files();
  registry_.retire();
  // `delete` waits for this.
  shim_socket_.reset();
  if (runtime_.valid()) loop_.unwatch(runtime_.fd());
  runtime_ = Channel();
  for (Client& client : clients_) loop_.unwatch(client.channel.fd());
  clients_.clear();
  registry_.discard();
  for (const Member& member : members_) discard_member(member.entry.container_id);
  members_.clear();
  logs_.remove_empty_directory();
  cgroup_.leave_and_remove();
}

}  // namespace leash::shim
