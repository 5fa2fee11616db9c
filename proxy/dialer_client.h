// DialerClient: sockets towards the world. leash-proxy has no way out of its own; it asks the dialer,
// a child of the shim that lives in N1, and gets a connected socket back (oci-spec/proxy_protocol.h).
// The caller has judged the address before: the dialer's own check is the second one.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "proxy/asio.h"

namespace leash::proxy {

enum class Transport { kTcp, kUdp };

class DialerClient {
 public:
  // `socket`: the SOCK_SEQPACKET end that came with `configure`.
  DialerClient(asio::io_context& context, Fd socket);
  ~DialerClient();
  DialerClient(const DialerClient&) = delete;
  DialerClient& operator=(const DialerClient&) = delete;

  // A non-blocking, close-on-exec socket that is connected to `address`:`port`; for TCP the handshake
  // is done. Errors carry connect(2)'s errno: ECONNREFUSED, EACCES (never a destination), ETIMEDOUT
  // after `timeout`, EPIPE when the dialer is gone.
  [[nodiscard]] Task<Fd> dial(Transport transport, asio::ip::address address, uint16_t port,
                              std::chrono::milliseconds timeout);

 private:
  struct Pending;

  void send(const std::shared_ptr<Pending>& pending);
  void wait_readable();
  void receive();
  void fail_all(int error);

  asio::io_context& context_;
  asio::posix::stream_descriptor socket_;
  uint32_t next_tag_ = 1;
  bool broken_ = false;
  std::unordered_map<uint32_t, std::shared_ptr<Pending>> pending_;
};

}  // namespace leash::proxy
