#include "proxy/timed_socket.h"

#include <sys/socket.h>

namespace leash::proxy {

Result<void> TimedSocket::open(Fd socket) {
  boost::system::error_code error;
  descriptor_.assign(socket.get(), error);
  if (error) return Error::from_errno(error.value(), "socket");
  (void)socket.release();
  return {};
}

void TimedSocket::set_deadline(Clock::time_point deadline) {
  expired_ = false;
  timer_.expires_at(deadline);
  timer_.async_wait([self = shared_from_this(), deadline](const boost::system::error_code& stopped) {
    // A handler of an earlier deadline may still be in the queue.
    if (stopped || self->timer_.expiry() != deadline) return;
    self->expired_ = true;
    boost::system::error_code ignored;
    self->descriptor_.cancel(ignored);
  });
}

void TimedSocket::close() {
  timer_.cancel();
  boost::system::error_code ignored;
  descriptor_.close(ignored);
}

Task<> TimedSocket::wait_readable() { return wait(asio::posix::stream_descriptor::wait_read); }
Task<> TimedSocket::wait_writable() { return wait(asio::posix::stream_descriptor::wait_write); }

Task<> TimedSocket::wait(asio::posix::stream_descriptor::wait_type what) {
  if (expired_) co_return Error::from_errno(ETIMEDOUT, "socket");
  if (!is_open()) co_return Error::from_errno(ECANCELED, "socket");
  boost::system::error_code error;
  co_await descriptor_.async_wait(what, asio::redirect_error(asio::use_awaitable, error));
  if (expired_) co_return Error::from_errno(ETIMEDOUT, "socket");
  if (!is_open()) co_return Error::from_errno(ECANCELED, "socket");
  if (error) co_return Error::from_errno(error.value(), "socket");
  co_return Result<void>();
}

Task<std::string> receive_exactly(std::shared_ptr<TimedSocket> socket, size_t size) {
  std::string data(size, '\0');
  for (size_t filled = 0; filled < size;) {
    const ssize_t got = ::recv(socket->fd(), data.data() + filled, size - filled, MSG_DONTWAIT);
    if (got > 0) {
      filled += static_cast<size_t>(got);
      continue;
    }
    if (got == 0) co_return Error(EPIPE, "the peer has closed the connection");
    if (errno != EAGAIN && errno != EINTR) co_return Error::last_errno("receive");
    const Result<void> ready = co_await socket->wait_readable();
    CO_TRY_VOID(ready);
  }
  co_return data;
}

Task<> send_all(std::shared_ptr<TimedSocket> socket, std::string data) {
  for (size_t sent = 0; sent < data.size();) {
    const ssize_t put = ::send(socket->fd(), data.data() + sent, data.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put >= 0) {
      sent += static_cast<size_t>(put);
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) co_return Error::last_errno("send");
    const Result<void> ready = co_await socket->wait_writable();
    CO_TRY_VOID(ready);
  }
  co_return Result<void>();
}

}  // namespace leash::proxy
