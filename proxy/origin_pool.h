// OriginPool: connections to origins, made through resolver and dialer, verified, and kept for the next
// request. What is dialled is what our resolver answered for the name, on the port that the client
// meant; never an address that the client claims.
#pragma once

#include <chrono>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "oci-spec/rules.h"
#include "proxy/asio.h"
#include "proxy/dialer_client.h"
#include "proxy/resolver.h"
#include "proxy/tls_context.h"
#include "proxy/tls_stream.h"

namespace leash::proxy {

struct Origin {
  std::string host;  // normalised
  uint16_t port = 0;
  bool is_tls = false;

  [[nodiscard]] std::string key() const;
};

struct OriginConnection {
  OriginConnection(asio::io_context& context, Watchdog& watchdog, Fd socket) : stream(context, watchdog, std::move(socket)) {}

  std::string key;
  std::string address;  // that was dialled
  Stream stream;        // after `key`: its TLS refers to it
  bool was_kept = false;  // it has waited in the pool, so the origin may be closing it right now
  Clock::time_point idle_since;
};

// Why there is no connection.
struct OriginFailure {
  std::string_view reason;  // of reasons.h
  std::string detail;       // for the person who reads the page
  oci::Verdict verdict;     // reason is a refusal of policy (private_address): its verdict
  bool is_refusal = false;
};

struct OriginResult {
  std::unique_ptr<OriginConnection> connection;  // nullptr: see failure
  OriginFailure failure;
};

// An address of ours in Asio's form.
[[nodiscard]] asio::ip::address to_asio(const oci::IpAddress& address);

class OriginPool {
 public:
  OriginPool(asio::io_context& context, Watchdog& watchdog, Resolver& resolver, DialerClient& dialer);

  // Origins cannot be verified, and so not be reached by TLS, before this.
  void set_tls(std::unique_ptr<ClientTls> tls) { tls_ = std::move(tls); }

  // A kept connection, or a new one. `fresh`: not a kept one.
  [[nodiscard]] asio::awaitable<OriginResult> take(Origin origin, bool fresh);
  // Is the origin there, and who it says? Asked before a leaf of ours vouches for its name. The
  // connection stays in the pool for the request that follows. No reason: yes.
  [[nodiscard]] asio::awaitable<OriginFailure> probe(Origin origin);
  // A connection whose last exchange has ended cleanly.
  void give_back(std::unique_ptr<OriginConnection> connection);
  // A plain TCP connection for a tunnel, never kept.
  [[nodiscard]] asio::awaitable<OriginResult> dial(Origin origin);

 private:
  static constexpr size_t kMaxIdle = 512;
  static constexpr std::chrono::seconds kMaxIdleTime{30};

  [[nodiscard]] std::unique_ptr<OriginConnection> take_idle(const std::string& key);
  [[nodiscard]] asio::awaitable<OriginResult> connect(Origin origin);
  void drop_old();
  void schedule_drop();

  asio::io_context& context_;
  Watchdog& watchdog_;
  Resolver& resolver_;
  DialerClient& dialer_;
  std::unique_ptr<ClientTls> tls_;
  std::unordered_map<std::string, std::vector<std::unique_ptr<OriginConnection>>> idle_;  // newest last
  size_t idle_count_ = 0;
  asio::steady_timer drop_timer_;
  bool drop_scheduled_ = false;
};

}  // namespace leash::proxy
