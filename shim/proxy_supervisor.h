// Keeps one leash-proxy alive for one container: starts it, tells it its configuration and its sockets,
// and starts another when it dies.
//
//   kAbsent --start--> kStarted --configure--> kConfiguring --"configured"--> kConfigured
//     ^                                                                          | listen
//     | death, backoff                                                           v
//     +------------------------------ kRunning <--"listening"-- kOpening <-------+
//
// It is started before there is anything to configure, so that its start overlaps with the runtime's
// work. Each proxy gets a dialer of its own, since an answer meant for a dead one must not reach the next.
// While no proxy runs the listeners refuse (listeners.h).
//
// The proxy parses hostile bytes and may be taken over: what it says is bounded, what it does not say
// in time makes it a dead one, and its end of the socket never makes the shim wait.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/channel.h"
#include "base/fd.h"
#include "base/result.h"
#include "hooks/lockin.h"
#include "oci-spec/proxy_protocol.h"
#include "shim/children.h"
#include "shim/dialer.h"
#include "shim/listeners.h"
#include "shim/log_files.h"
#include "shim/loop.h"

namespace leash::shim {

class ProxySupervisor {
 public:
  using OnResult = std::function<void(Result<void>)>;

  // `program`: an open leash-proxy. Borrowed: everything but `program`.
  ProxySupervisor(Loop& loop, Children& children, LogFiles& logs, Fd program, std::string container_id);
  ~ProxySupervisor();
  ProxySupervisor(const ProxySupervisor&) = delete;
  ProxySupervisor& operator=(const ProxySupervisor&) = delete;

  // Forks and executes it.
  [[nodiscard]] Result<void> start();

  // `make_config` is asked for each proxy anew (secrets come with exec); seq numbers are filled in here.
  // `done` hears of the first proxy's "configured", or why there is none; later ones are restarted.
  void configure(Fd n1, Fd trust_store, std::vector<std::string> resolvers,
                 std::function<oci::ProxyConfig()> make_config, OnResult done);
  // What N1 looks like, as far as the proxy must know; again whenever that changes.
  void set_network(oci::NetworkFacts facts);
  // `done` hears of "listening".
  void listen(std::vector<hooks::Listener> sockets, OnResult done);
  // `done` when the proxy has it: at once if none runs, since the next one is configured with it.
  void add_secret(const oci::ProxySecret& secret, OnResult done);
  void report(oci::RefusedPacket packet);
  // The log files are others now: the proxy goes on there.
  void replace_logs();

  // Answers the proxy's question which process has connected.
  void on_who(std::function<oci::WhoReply(const oci::WhoRequest&)> find) { find_process_ = std::move(find); }

  // For good: lets it write its last lines, then kills it; completes the logs.
  void stop();

  [[nodiscard]] const char* state_word() const;
  [[nodiscard]] pid_t pid() const { return is_alive() ? pid_ : 0; }
  [[nodiscard]] pid_t dialer_pid() const { return dialer_.pid; }
  [[nodiscard]] uint32_t restarts() const { return restarts_; }
  // Called whenever a new proxy or dialer process exists (cgroups).
  void on_spawn(std::function<void(std::vector<pid_t>)> callback) { on_spawn_ = std::move(callback); }

 private:
  enum class State { kAbsent, kStarted, kConfiguring, kConfigured, kOpening, kRunning, kStopped };

  [[nodiscard]] bool is_alive() const { return state_ != State::kAbsent && state_ != State::kStopped; }
  [[nodiscard]] Result<void> send_configuration();
  [[nodiscard]] Result<void> send_listeners();
  void advance();
  void on_message();
  [[nodiscard]] Result<void> handle(Message message);
  void give_up_on(const Error& reason);
  void on_exit(int wait_status);
  void mourn();
  void restart();
  void fail(OnResult& waiting, const Error& reason);
  void flush_reports();
  void set_deadline();

  Loop& loop_;
  Children& children_;
  LogFiles& logs_;
  Fd program_;
  std::string container_id_;

  State state_ = State::kAbsent;
  pid_t pid_ = 0;
  Channel control_;
  Dialer dialer_;
  Fd n1_;
  Fd trust_store_;
  std::vector<std::string> resolvers_;
  std::function<oci::ProxyConfig()> make_config_;
  oci::NetworkFacts network_;
  std::unique_ptr<Listeners> listeners_;
  OnResult on_configured_;
  OnResult on_listening_;
  std::function<void(std::vector<pid_t>)> on_spawn_;
  std::function<oci::WhoReply(const oci::WhoRequest&)> find_process_;
  std::deque<OnResult> secret_waiters_;
  std::deque<oci::RefusedPacket> reports_;
  uint64_t dropped_reports_ = 0;
  std::string last_words_ = "leash-proxy was not started";
  uint32_t restarts_ = 0;
  std::chrono::milliseconds backoff_{0};
  Loop::Clock::time_point started_at_{};
  std::optional<Loop::TimerId> deadline_;
  std::optional<Loop::TimerId> restart_timer_;
  std::optional<Loop::TimerId> report_timer_;
};

}  // namespace leash::shim
