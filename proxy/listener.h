// Listener: accepts on a socket that was made in N2 and starts a connection for each client. It stops
// accepting, without refusing by itself, while the log cannot be written or too many connections are
// open: clients then wait in the kernel's queue, and nothing passes unseen.
#pragma once

#include "proxy/services.h"

namespace leash::proxy {

// Connections open at a time; fewer than there are slots in the in-flight table.
class ConnectionLimit {
 public:
  explicit ConnectionLimit(size_t maximum) : maximum_(maximum) {}
  [[nodiscard]] bool is_reached() const { return open_ >= maximum_; }
  void opened() { ++open_; }
  void closed() { --open_; }

 private:
  size_t maximum_;
  size_t open_ = 0;
};

class Listener {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Listener>> create(Services& services, ConnectionLimit& limit, Fd socket);

  // Accepts until the process ends.
  void start();

 private:
  Listener(Services& services, ConnectionLimit& limit);
  [[nodiscard]] asio::awaitable<void> run();
  // False when the kernel has no descriptor or memory for another connection.
  [[nodiscard]] bool accept_all();

  Services& services_;
  ConnectionLimit& limit_;
  asio::posix::stream_descriptor socket_;
};

}  // namespace leash::proxy
