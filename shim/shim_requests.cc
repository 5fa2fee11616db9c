// The part of Shim that answers shim.sock: exec and delete of this container, containers that join its
// network, the operator's command.
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "base/sys.h"
#include "shim/error_text.h"
#include "shim/journal.h"
#include "shim/shim.h"

namespace leash::shim {

namespace {

constexpr size_t kMaxClients = 64;

}  // namespace

void Shim::on_shim_socket() {
  Fd socket(::accept4(shim_socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) return;
  if (!is_peer_trusted(socket.get()) || clients_.size() >= kMaxClients) return;
  clients_.push_back(Client{Channel(std::move(socket)), {}, {}, {}});
  Client* client = &clients_.back();
  auto watched = loop_.watch(client->channel.fd(), EPOLLIN, [this, client](uint32_t) { on_client(client); });
  if (!watched) clients_.pop_back();
}

void Shim::drop(Client* client) {
  const auto found = std::find_if(clients_.begin(), clients_.end(), [&](const Client& one) { return &one == client; });
  if (found == clients_.end()) return;
  loop_.unwatch(client->channel.fd());
  if (client->joining) {  // prepared, never joined
    retire_member(client->joining->container_id);
    discard_member(client->joining->container_id);
  }
  clients_.erase(found);
}

void Shim::on_client(Client* client) {
  auto received = client->channel.receive(std::chrono::milliseconds(0));
  if (!received && received.error().code() == ETIMEDOUT) return;
  if (!received || !received->has_value()) {
    drop(client);
    return;
  }
  const std::string kind = (*received)->kind.substr(0, 32);
  auto handled = handle_client(client, std::move(**received));
  if (handled || state_ == State::kFinished) return;
  note(kind + ": " + handled.error().message());
  (void)client->channel.send("failed", for_engine(handled.error().message()));
  drop(client);
}

Result<void> Shim::handle_client(Client* client, Message message) {
  if (message.kind == "status") return client->channel.send("status", oci::print(status()));
  if (message.kind == "end") return handle_end(client, message);
  if (state_ != State::kCommitted && state_ != State::kReady) {
    return Error(EAGAIN, "container '" + container_id_ + "' is still being created");
  }
  if (message.kind == "exec") return handle_exec(client, message);
  if (message.kind == "prepare") return handle_join_prepare(client, message);
  if (message.kind == "join") return handle_join(client, std::move(message));
  return Error(EPROTO, "leash-shim has no request '" + message.kind.substr(0, 32) + "'");
}

// Calls `then` once the proxy has them all, whatever happens to it meanwhile.
void Shim::tell_proxy(std::vector<oci::ProxySecret> secrets, std::function<void()> then) {
  struct Countdown {
    size_t left;
    std::function<void()> then;
  };
  // Shared by the answers, of which the last one calls.
  auto countdown = std::make_shared<Countdown>(Countdown{secrets.size() + 1, std::move(then)});
  const auto one_done = [countdown](const Result<void>&) {
    if (--countdown->left == 0) countdown->then();
  };
  for (const oci::ProxySecret& secret : secrets) proxy_->add_secret(secret, one_done);
  one_done({});
}

Result<void> Shim::handle_exec(Client* client, const Message& message) {
  TRY(const oci::ExecRequest request, oci::parse_exec_request(message.body));
  SecretStore* secrets = nullptr;
  if (request.container_id == container_id_) secrets = &*secrets_;
  for (Member& member : members_) {
    if (member.entry.container_id == request.container_id) secrets = &member.secrets;
  }
  if (secrets == nullptr) return Error(ESRCH, "container '" + request.container_id + "' is not served here");
  TRY(SecretStore::Hidden hidden, prepare_exec(*secrets, request.env));
  oci::PrepareReply reply;
  reply.env = std::move(hidden.env);
  reply.syscalls_allow = policy_.syscalls_allow;
  reply.syscalls_deny = policy_.syscalls_deny;
  // The process must not find a proxy that does not know its placeholder yet.
  tell_proxy(std::move(hidden.added), [this, client, reply = std::move(reply)] {
    const bool is_there = std::any_of(clients_.begin(), clients_.end(), [&](const Client& one) { return &one == client; });
    if (is_there) (void)client->channel.send("prepared", oci::print(reply));
  });
  return {};
}

Result<void> Shim::handle_join_prepare(Client* client, const Message& message) {
  TRY(const oci::PrepareRequest request, oci::parse_prepare_request(message.body));
  if (client->joining) return Error(EPROTO, "prepare came twice");
  TRY_VOID(check_container_id(request.container_id));
  if (!is_locked_in_ || has_init_exited_) {
    return Error(EAGAIN, "cannot join the network of container '" + container_id_ + "': it is not running");
  }
  if (request.policy_is_explicit && request.policy.text != policy_text_.text) {
    return Error(EINVAL, "policy '" + request.policy.source + "': container '" + request.container_id +
                             "' joins the network of container '" + container_id_ +
                             "', whose policy is another one ('" + policy_text_.source + "')");
  }
  oci::RegistryEntry entry = entry_;
  entry.container_id = request.container_id;
  entry.bundle = request.bundle;
  entry.runtime_root = request.runtime_root;
  entry.network_of = container_id_;
  auto facts = read_engine_facts(request);
  entry.name = facts ? facts->name : std::string();
  // Its directory exists from here, because the trust files lie there.
  TRY_VOID(publish_member(entry, container_id_).context("registry"));
  client->joining = entry;
  TRY(client->preparation, prepare(request, policy_, authority_, oci::registry_directory() + "/" + request.container_id + "/trust"));
  return client->channel.send("prepared", oci::print(client->preparation->reply), {n2_.get()});
}

Result<void> Shim::handle_join(Client* client, Message message) {
  TRY(const oci::AttachRequest request, oci::parse_attach_request(message.body));
  if (!client->joining || message.fds.size() != 1) return Error(EPROTO, "join: prepare and a pidfd are expected");
  if (sys::pidfd_exited(message.fds[0].get())) return Error(ESRCH, "join: the container's init has died");
  oci::RegistryEntry entry = *client->joining;
  entry.init_pid = request.init_pid;
  TRY_VOID(publish_member(entry, container_id_).context("registry"));

  members_.push_back(Member{std::move(entry), std::move(client->preparation->secrets), std::move(message.fds[0])});
  Member* member = &members_.back();
  if (finder_) finder_->add(member->entry.init_pid);
  std::vector<oci::ProxySecret> added = std::move(client->preparation->added);
  client->joining.reset();
  client->preparation.reset();
  TRY_VOID(loop_.watch(member->pidfd.get(), EPOLLIN, [this, member](uint32_t) { end_member(member); }));
  tell_proxy(std::move(added), [this, client] {
    const bool is_there = std::any_of(clients_.begin(), clients_.end(), [&](const Client& one) { return &one == client; });
    if (is_there) (void)client->channel.send("joined");
  });
  return {};
}

void Shim::end_member(Member* member) {
  const auto found = std::find_if(members_.begin(), members_.end(), [&](const Member& one) { return &one == member; });
  if (found == members_.end()) return;
  loop_.unwatch(member->pidfd.get());
  const std::string id = member->entry.container_id;
  if (finder_) finder_->remove(member->entry.init_pid);
  members_.erase(found);
  retire_member(id);
  // A `delete` that waits for it.
  for (auto client = clients_.begin(); client != clients_.end();) {
    const auto next = std::next(client);
    if (client->ending == id) drop(&*client);
    client = next;
  }
  discard_member(id);
  end_if_alone();
}

Result<void> Shim::handle_end(Client* client, const Message& message) {
  TRY(const oci::EndRequest request, oci::parse_end_request(message.body));
  for (Member& member : members_) {
    if (member.entry.container_id != request.container_id) continue;
    client->ending = request.container_id;
    end_member(&member);
    return {};
  }
  if (request.container_id != container_id_) {
    return Error(ESRCH, "container '" + request.container_id + "' is not served here");
  }
  if (members_.empty()) {
    finish();
    return {};
  }
  // Others live in its network: the shim stays for them, under the name of one of them, so that a container
  // of this id can be created again (`docker restart`).
  const std::string heir = members_.front().entry.container_id;  // no member any more once it is the heir
  TRY_VOID(hand_over().context("hand over to '" + heir + "'"));
  drop(client);
  return {};
}

Result<void> Shim::hand_over() {
  Member& heir = members_.front();
  if (finder_) finder_->remove(entry_.init_pid);
  const std::string id = heir.entry.container_id;
  TRY(RegistryDirectory home, RegistryDirectory::claim(id));
  TRY_VOID(registry_.hand_over(home));
  std::swap(registry_, home);

  // The logs of the one that is gone belong to its next life; what comes now is the heir's.
  const std::string directory = entry_.log_directory;
  entry_ = heir.entry;
  entry_.network_of.clear();
  const size_t slash = directory.rfind('/');
  entry_.log_directory = directory.substr(0, slash + 1) + id;
  TRY(LogFiles logs, LogFiles::open(entry_.log_directory, registry_.path() + "/in-flight",
                                    entry_.name.empty() ? id : entry_.name));
  std::swap(logs_, logs);
  proxy_->replace_logs();
  logs.remove_empty_files();
  TRY_VOID(logs_.take_diagnostics());
  note("container '" + container_id_ + "' has ended; its shim goes on for '" + id + "', which joined its network");

  container_id_ = id;
  facts_.name = entry_.name;
  secrets_ = std::move(heir.secrets);
  loop_.unwatch(heir.pidfd.get());
  init_ = std::move(heir.pidfd);
  has_init_exited_ = false;
  members_.pop_front();
  TRY_VOID(loop_.watch(init_.get(), EPOLLIN, [this](uint32_t) { on_init_exit(); }));
  TRY_VOID(registry_.publish(entry_));
  for (Member& member : members_) {
    member.entry.network_of = id;
    TRY_VOID(publish_member(member.entry, id));
  }
  std::vector<pid_t> pids = {::getpid()};
  for (const pid_t pid : {proxy_->pid(), proxy_->dialer_pid(), relay_.pid}) {
    if (pid > 0) pids.push_back(pid);
  }
  cgroup_.move(id, pids);
  home.retire();
  home.discard();
  logs.remove_empty_directory();
  return {};
}

oci::StatusReport Shim::status() const {
  oci::StatusReport report;
  report.entry = entry_;
  report.policy = policy_text_;
  if (proxy_) {
    report.proxy_state = proxy_->state_word();
    report.proxy_pid = proxy_->pid();
    report.dialer_pid = proxy_->dialer_pid();
    report.proxy_restarts = proxy_->restarts();
  }
  report.locked_in = is_locked_in_;
  const auto add_names = [&report](const SecretStore& store) {
    for (const oci::ProxySecret& secret : store.secrets()) {
      if (std::find(report.secrets.begin(), report.secrets.end(), secret.name) == report.secrets.end()) {
        report.secrets.push_back(secret.name);
      }
    }
  };
  if (secrets_) add_names(*secrets_);
  for (const Member& member : members_) {
    report.members.push_back(member.entry.container_id);
    add_names(member.secrets);
  }
  // A list of single ports is what people read; ranges of thousands are not worth it.
  for (const oci::TcpPorts& ports : facts_.tcp_ports) {
    for (uint32_t port = ports.first; port <= ports.last && report.inbound_ports.size() < 256; ++port) {
      report.inbound_ports.push_back(static_cast<uint16_t>(port));
    }
  }
  return report;
}

}  // namespace leash::shim
