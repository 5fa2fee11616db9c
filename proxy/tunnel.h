// Tunnel: a connection that policy lets pass unseen (inspect: false, ignore_hosts, a rule for an
// address). Bytes are copied both ways and counted. If what the client sends is a ClientHello after
// all, its name must be one that may pass unseen: a tunnel to one name must not carry another.
#pragma once

#include <string>

#include "proxy/buffer.h"
#include "proxy/flow.h"
#include "proxy/gate.h"
#include "proxy/services.h"

namespace leash::proxy {

class Tunnel {
 public:
  Tunnel(Services& services, Stream& client, Flow& flow, std::string host, uint16_t port);

  // `first`: what the client has sent so far. Ends when both sides have, or one fails.
  [[nodiscard]] asio::awaitable<void> run(std::string first);

 private:
  [[nodiscard]] asio::awaitable<void> up(Stream& origin, std::string first);
  [[nodiscard]] asio::awaitable<void> down(Stream& origin);
  [[nodiscard]] asio::awaitable<bool> check_hello(std::string& first);
  void abort(Stream& origin);
  void cross() { FlowLog::count(flow_, client_.bytes_received(), client_.bytes_sent()); }

  Services& services_;
  Stream& client_;
  Flow& flow_;
  std::string host_;
  uint16_t port_;
  Gate up_ended_;
};

}  // namespace leash::proxy
