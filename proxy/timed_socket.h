// TimedSocket: a non-blocking socket whose waits all end at one deadline. For small exchanges (DNS),
// where a coroutine owns the socket and reads and writes it with plain system calls.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "proxy/asio.h"

namespace leash::proxy {

// Always held by a shared_ptr: the timer's handler may be queued already when the last wait ends.
class TimedSocket : public std::enable_shared_from_this<TimedSocket> {
 public:
  explicit TimedSocket(const asio::any_io_executor& executor) : descriptor_(executor), timer_(executor) {}

  [[nodiscard]] Result<void> open(Fd socket);
  void set_deadline(Clock::time_point deadline);
  // Ends every wait with ECANCELED.
  void close();

  [[nodiscard]] int fd() { return descriptor_.native_handle(); }
  [[nodiscard]] bool is_open() const { return descriptor_.is_open(); }

  // Errors: ETIMEDOUT at the deadline, ECANCELED after close().
  [[nodiscard]] Task<> wait_readable();
  [[nodiscard]] Task<> wait_writable();

 private:
  Task<> wait(asio::posix::stream_descriptor::wait_type what);

  asio::posix::stream_descriptor descriptor_;
  asio::steady_timer timer_;
  bool expired_ = false;
};

// Exactly `size` bytes; EPIPE if the peer closes before.
[[nodiscard]] Task<std::string> receive_exactly(std::shared_ptr<TimedSocket> socket, size_t size);
[[nodiscard]] Task<> send_all(std::shared_ptr<TimedSocket> socket, std::string data);

// Closes at the end of a coroutine, on whatever way it ends.
struct CloseAtEnd {
  std::shared_ptr<TimedSocket> socket;
  explicit CloseAtEnd(std::shared_ptr<TimedSocket> owned) : socket(std::move(owned)) {}
  CloseAtEnd(const CloseAtEnd&) = delete;
  CloseAtEnd& operator=(const CloseAtEnd&) = delete;
  ~CloseAtEnd() { socket->close(); }
};

}  // namespace leash::proxy
