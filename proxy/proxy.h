// Proxy: everything that one container's proxy is made of, put together once it knows its policy, its
// CA and its secrets, and torn apart with the process.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "oci-spec/proxy_protocol.h"
#include "proxy/dns_server.h"
#include "proxy/listener.h"
#include "proxy/services.h"

namespace leash::proxy {

// The descriptors of `configure`.
struct ProxyFiles {
  Fd flows;
  Fd blocked;
  Fd dialer;
  Fd in_flight;
  Fd trust_store;
};

class Proxy {
 public:
  // Wipes the secrets out of `config`. `ask_for_rotation`: the file has reached log.max_size. `ask_who`:
  // a connection's process is to be found.
  [[nodiscard]] static Result<std::unique_ptr<Proxy>> create(asio::io_context& context, oci::ProxyConfig config,
                                                             ProxyFiles files, std::function<void(Log)> ask_for_rotation,
                                                             ProcessNames::Ask ask_who);
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  [[nodiscard]] Result<void> listen(const oci::ListenerList& list, std::vector<Fd> sockets);
  [[nodiscard]] Result<void> add_secret(oci::ProxySecret secret) { return secrets_.add(std::move(secret)); }
  [[nodiscard]] Result<void> set_network(const oci::NetworkFacts& facts);
  // A packet that the lock-in has refused.
  void report(const oci::RefusedPacket& packet);
  void name_process(const oci::WhoReply& reply) { processes_.answer(reply); }
  void rotated(Log log, Fd file) { writer_.replace(log, std::move(file)); }

 private:
  explicit Proxy(asio::io_context& context);
  [[nodiscard]] Result<void> build(oci::ProxyConfig& config, ProxyFiles files);
  void watch_log();

  asio::io_context& context_;
  Watchdog watchdog_;
  BlockPool blocks_;
  oci::Policy policy_;
  InFlightTable table_;
  LogWriter writer_;
  SecretStore secrets_;
  DigestMethod sha256_;
  ProcessNames processes_;
  ConnectionLimit limit_;
  std::unique_ptr<FlowLog> flows_;
  std::unique_ptr<DialerClient> dialer_;
  std::unique_ptr<Resolver> resolver_;
  std::unique_ptr<LeafMint> mint_;
  std::unique_ptr<ServerTls> server_tls_;
  std::unique_ptr<OriginPool> pool_;
  std::unique_ptr<Services> services_;
  std::unique_ptr<DnsServer> dns_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  asio::steady_timer log_timer_;
  bool is_watching_log_ = false;
  bool has_log_trouble_ = false;  // told once
};

}  // namespace leash::proxy
