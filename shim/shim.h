// One container's supervisor, from `prepare` to the end of its last process. The conversations are those of
// oci-spec/shim_protocol.h:
//
//   kNew --prepare--> kPrepared --attach--> kAttaching --proxy configured--> kReady --commit--> kCommitted
//
// and, whenever init comes to it, n2 -> lock-in -> proxy listening -> go. From kCommitted on the shim
// lives as long as init or a container that joined its network; any end before that, and any end at all,
// goes through finish(), which takes down everything in reverse order.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/channel.h"
#include "base/fd.h"
#include "base/result.h"
#include "hooks/lockin.h"
#include "hooks/trust.h"
#include "oci-spec/policy.h"
#include "oci-spec/shim_protocol.h"
#include "shim/children.h"
#include "shim/log_files.h"
#include "shim/loop.h"
#include "shim/own_cgroup.h"
#include "shim/preparation.h"
#include "shim/process_finder.h"
#include "shim/proxy_supervisor.h"
#include "shim/registry.h"
#include "shim/relay.h"

namespace leash::shim {

class Shim {
 public:
  // `signals`: a signalfd with SIGCHLD and SIGTERM. `proxy_program`: an open leash-proxy.
  Shim(Loop& loop, std::string container_id, Channel runtime, OwnCgroup cgroup, Fd signals, Fd proxy_program);
  ~Shim();
  Shim(const Shim&) = delete;
  Shim& operator=(const Shim&) = delete;

  // Serves until the container's end.
  [[nodiscard]] Result<void> run();

 private:
  enum class State { kNew, kPrepared, kAttaching, kReady, kCommitted, kFinished };

  // A container that joined this one's network.
  struct Member {
    oci::RegistryEntry entry;
    SecretStore secrets;
    Fd pidfd;
  };
  // A connection to shim.sock. What `prepare` made is kept here until `join`.
  struct Client {
    Channel channel;
    std::optional<oci::RegistryEntry> joining;
    std::optional<Preparation> preparation;
    std::string ending;  // the container whose end it waits for
  };

  // The conversation with `create` and with init (shim.cc).
  void on_signal();
  void on_runtime();
  [[nodiscard]] Result<void> handle_runtime(Message message);
  [[nodiscard]] Result<void> handle_prepare(const Message& message);
  [[nodiscard]] Result<void> handle_attach(Message message);
  void handle_commit();
  void fail_create(const Error& reason);
  void on_lock();
  [[nodiscard]] Result<void> lock_in();
  [[nodiscard]] oci::NetworkFacts facts_of_n1(const hooks::NetState& state) const;
  void answer_lock(const Result<void>& outcome);
  void on_init_exit();
  void on_refusals();
  void on_mirror();
  [[nodiscard]] Result<void> guard_n1();
  void run_relay();
  [[nodiscard]] oci::ProxyConfig proxy_config() const;
  void end_if_alone();
  void finish();

  // What others ask (shim_requests.cc).
  void on_shim_socket();
  void on_client(Client* client);
  void drop(Client* client);
  [[nodiscard]] Result<void> handle_client(Client* client, Message message);
  [[nodiscard]] Result<void> handle_exec(Client* client, const Message& message);
  [[nodiscard]] Result<void> handle_join_prepare(Client* client, const Message& message);
  [[nodiscard]] Result<void> handle_join(Client* client, Message message);
  [[nodiscard]] Result<void> handle_end(Client* client, const Message& message);
  [[nodiscard]] oci::StatusReport status() const;
  void end_member(Member* member);
  [[nodiscard]] Result<void> hand_over();
  void tell_proxy(std::vector<oci::ProxySecret> secrets, std::function<void()> then);

  Loop& loop_;
  std::string container_id_;
  Channel runtime_;
  OwnCgroup cgroup_;
  Fd signals_;
  Fd proxy_program_;
  Children children_;

  State state_ = State::kNew;
  RegistryDirectory registry_;
  LogFiles logs_;
  oci::PolicyText policy_text_;
  oci::PrepareRequest request_;  // without its env
  oci::Policy policy_;
  hooks::Authority authority_;
  Fd trust_store_;  // until the proxy is configured with it
  std::optional<SecretStore> secrets_;
  oci::EngineFacts facts_;
  DnsPlan dns_;
  oci::RegistryEntry entry_;
  std::unique_ptr<ProxySupervisor> proxy_;

  oci::AttachRequest attached_;
  Fd init_;  // pidfd
  bool has_init_exited_ = false;
  bool is_n1_the_hosts_ = false;
  Fd n1_;
  Channel lock_;
  std::optional<hooks::LockIn> lockin_;
  bool is_locked_in_ = false;
  Fd n2_;
  std::optional<ProcessFinder> finder_;  // reads n2_
  std::optional<RelayListeners> relay_listeners_;
  Relay relay_;
  uint32_t relay_deaths_ = 0;

  Fd shim_socket_;
  std::list<Client> clients_;
  std::list<Member> members_;
};

}  // namespace leash::shim
