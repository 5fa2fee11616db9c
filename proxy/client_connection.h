// ClientConnection: from an accepted socket to its last line. Whom did the client mean (original
// destination), what does it speak (the first bytes), may it (policy): then a tunnel, or TLS with a
// leaf of ours, and requests one after the other.
#pragma once

#include <optional>
#include <string>

#include "proxy/buffer.h"
#include "proxy/client_hello.h"
#include "proxy/exchange.h"
#include "proxy/flow.h"
#include "proxy/process_names.h"
#include "proxy/services.h"

namespace leash::proxy {

class ClientConnection {
 public:
  ClientConnection(Services& services, Fd socket);

  [[nodiscard]] asio::awaitable<void> run();

 private:
  enum class Protocol { kTls, kHttp, kUnknown, kClosed };

  [[nodiscard]] asio::awaitable<Protocol> sniff();
  [[nodiscard]] asio::awaitable<void> serve_tls();
  [[nodiscard]] asio::awaitable<void> serve_requests();
  [[nodiscard]] asio::awaitable<bool> read_head(size_t& length, HeadProblem& problem);
  [[nodiscard]] asio::awaitable<bool> wait_for_request();
  [[nodiscard]] asio::awaitable<void> tunnel(std::string host, std::string_view pass_reason);
  [[nodiscard]] asio::awaitable<void> linger();
  [[nodiscard]] asio::awaitable<void> refuse_unknown(std::string_view reason, std::string_view layer);
  void handshake_failed(const Error& error);
  void ask_for_process();
  [[nodiscard]] bool begin_flow();
  void end_flow();

  Services& services_;
  Stream client_;
  Buffer in_;
  ConnectionFacts facts_;
  oci::IpAddress destination_;
  ProcessNames::Question process_;  // who is at the other end
  ClientHello hello_;
  Flow flow_;            // slot == nullptr: none is under way
  bool reset_ = false;   // close so that the client sees a failure
};

}  // namespace leash::proxy
