#include "proxy/tls_stream.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

namespace leash::proxy {

// The BIO between OpenSSL and a Stream.
struct StreamBio {
  static int read(BIO* bio, char* room, int length) {
    BIO_clear_retry_flags(bio);
    const ssize_t got = stream(bio).receive(room, static_cast<size_t>(length));
    if (got < 0 && errno == EAGAIN) BIO_set_retry_read(bio);
    return static_cast<int>(got);
  }
  static int write(BIO* bio, const char* data, int length) {
    BIO_clear_retry_flags(bio);
    const ssize_t put = stream(bio).transmit(data, static_cast<size_t>(length));
    if (put < 0 && errno == EAGAIN) BIO_set_retry_write(bio);
    return static_cast<int>(put);
  }
  static long control(BIO* bio, int command, long, void*) {
    if (command == BIO_CTRL_FLUSH) return 1;
    if (command == BIO_CTRL_EOF) return stream(bio).at_end_ ? 1 : 0;
    return 0;
  }
  static int create(BIO* bio) {
    BIO_set_init(bio, 1);
    return 1;
  }
  static Stream& stream(BIO* bio) { return *static_cast<Stream*>(BIO_get_data(bio)); }

  // One method table for the process, made at the first use and never freed.
  static const BIO_METHOD* method() {
    static const BIO_METHOD* const table = [] {
      BIO_METHOD* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "leash stream");
      BIO_meth_set_read(made, read);
      BIO_meth_set_write(made, write);
      BIO_meth_set_ctrl(made, control);
      BIO_meth_set_create(made, create);
      return made;
    }();
    return table;
  }
};

void SslDeleter::operator()(SSL* ssl) const {
  // Without this SSL_free takes a connection that was not shut down for a failed one, and its
  // session is never resumed.
  SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
  SSL_free(ssl);
}

std::string openssl_error() {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  const char* const text = ERR_reason_error_string(code);
  return text != nullptr ? text : "unknown error";
}

Stream::Stream(asio::io_context& context, Watchdog& watchdog, Fd socket)
    : watchdog_(watchdog), watch_(watchdog.add(*this)), descriptor_(context) {
  boost::system::error_code error;
  descriptor_.assign(socket.get(), error);
  if (!error) (void)socket.release();
}

Stream::~Stream() {
  watchdog_.remove(watch_);
  ssl_.reset();
}

ssize_t Stream::receive(char* room, size_t length) {
  if (replayed_ < replay_.size()) {
    const size_t part = std::min(length, replay_.size() - replayed_);
    std::memcpy(room, replay_.data() + replayed_, part);
    replayed_ += part;
    if (replayed_ == replay_.size()) {
      replay_ = std::string();
      replayed_ = 0;
    }
    return static_cast<ssize_t>(part);
  }
  ssize_t got = 0;
  do {
    got = ::recv(descriptor_.native_handle(), room, length, MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got > 0) bytes_received_ += static_cast<uint64_t>(got);
  if (got == 0) at_end_ = true;
  return got;
}

ssize_t Stream::transmit(const char* data, size_t length) {
  ssize_t put = 0;
  do {
    put = ::send(descriptor_.native_handle(), data, length, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (put < 0 && errno == EINTR);
  if (put > 0) bytes_sent_ += static_cast<uint64_t>(put);
  return put;
}

uint64_t Stream::bytes_received() {
  int unread = 0;
  if (!descriptor_.is_open() || ::ioctl(descriptor_.native_handle(), FIONREAD, &unread) < 0) unread = 0;
  return bytes_received_ + static_cast<uint64_t>(unread);
}

Clock::time_point Stream::expire(Clock::time_point now) {
  bool cancel = false;
  Clock::time_point earliest = Clock::time_point::max();
  for (Wait* const wait : {&read_wait_, &write_wait_}) {
    if (wait->deadline <= now) {
      wait->expired = true;
      cancel = true;
    } else {
      earliest = std::min(earliest, wait->deadline);
    }
  }
  if (cancel) descriptor_.cancel();
  return earliest;
}

Task<> Stream::wait(Direction direction, Clock::time_point deadline) {
  Wait& state = direction == Direction::kRead ? read_wait_ : write_wait_;
  state = {deadline, false, false};
  watchdog_.arm(deadline);
  for (;;) {
    if (!descriptor_.is_open()) co_return Error(ECANCELED, "connection is closed");
    boost::system::error_code error;
    co_await descriptor_.async_wait(direction == Direction::kRead ? asio::posix::descriptor_base::wait_read
                                                                  : asio::posix::descriptor_base::wait_write,
                                    asio::redirect_error(asio::use_awaitable, error));
    if (state.expired || state.canceled) break;
    // The other direction's deadline cancels both: this one waits on.
    if (error == asio::error::operation_aborted) continue;
    state.deadline = Clock::time_point::max();
    if (error) co_return Error::from_errno(error.value(), "wait");
    co_return Result<void>();
  }
  state.deadline = Clock::time_point::max();
  if (state.canceled) co_return Error(ECANCELED, "wait is canceled");
  co_return Error::from_errno(ETIMEDOUT, "wait");
}

Task<> Stream::wait_readable(Clock::time_point deadline) {
  // Bytes that OpenSSL holds already would never make the descriptor readable.
  if (ssl_ != nullptr && SSL_has_pending(ssl_.get()) == 1) co_return Result<void>();
  co_return co_await wait(Direction::kRead, deadline);
}

Result<Stream::Direction> Stream::wanted(int result, std::string_view what) {
  const int saved = errno;
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return Direction::kRead;
    case SSL_ERROR_WANT_WRITE:
      return Direction::kWrite;
    case SSL_ERROR_SYSCALL:
      tls_failed_ = true;
      ERR_clear_error();
      if (saved == 0 || at_end_) return Error(kTruncated, "connection ended");
      return Error::from_errno(saved, what);
    default:
      tls_failed_ = true;
      if (ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
        ERR_clear_error();
        return Error(kTruncated, "connection ended");
      }
      return Error(kTlsError, openssl_error());
  }
}

Task<size_t> Stream::read_some(std::span<char> room, Clock::time_point deadline) {
  for (;;) {
    if (!descriptor_.is_open()) co_return Error(ECANCELED, "connection is closed");
    Direction direction = Direction::kRead;
    if (ssl_ != nullptr) {
      ERR_clear_error();
      size_t got = 0;
      errno = 0;
      const int result = SSL_read_ex(ssl_.get(), room.data(), room.size(), &got);
      if (result == 1) co_return got;
      if (SSL_get_error(ssl_.get(), result) == SSL_ERROR_ZERO_RETURN) co_return size_t{0};
      Result<Direction> next = wanted(result, "read");
      CO_TRY(direction, std::move(next));
    } else {
      const ssize_t got = receive(room.data(), room.size());
      if (got >= 0) co_return static_cast<size_t>(got);
      if (errno != EAGAIN) co_return Error::last_errno("read");
    }
    Result<void> ready = co_await wait(direction, deadline);
    CO_TRY_VOID(std::move(ready));
  }
}

Task<> Stream::write_all(std::string_view data, Clock::time_point deadline) {
  while (!data.empty()) {
    if (!descriptor_.is_open()) co_return Error(ECANCELED, "connection is closed");
    Direction direction = Direction::kWrite;
    if (ssl_ != nullptr) {
      ERR_clear_error();
      size_t put = 0;
      errno = 0;
      const int result = SSL_write_ex(ssl_.get(), data.data(), data.size(), &put);
      if (result == 1) {
        data.remove_prefix(put);
        continue;
      }
      Result<Direction> next = wanted(result, "write");
      CO_TRY(direction, std::move(next));
    } else {
      const ssize_t put = transmit(data.data(), data.size());
      if (put >= 0) {
        data.remove_prefix(static_cast<size_t>(put));
        continue;
      }
      if (errno != EAGAIN) co_return Error::last_errno("write");
    }
    Result<void> ready = co_await wait(direction, deadline);
    CO_TRY_VOID(std::move(ready));
  }
  co_return Result<void>();
}

Result<void> Stream::start_tls(SSL_CTX* context, std::string replay) {
  replay_ = std::move(replay);
  replayed_ = 0;
  ssl_.reset(SSL_new(context));
  BIO* const bio = BIO_new(StreamBio::method());
  if (ssl_ == nullptr || bio == nullptr) {
    BIO_free(bio);
    return Error("openssl: " + openssl_error());
  }
  BIO_set_data(bio, this);
  SSL_set_bio(ssl_.get(), bio, bio);
  return {};
}

Task<> Stream::handshake(bool as_server, Clock::time_point deadline) {
  for (;;) {
    if (!descriptor_.is_open()) co_return Error(ECANCELED, "connection is closed");
    ERR_clear_error();
    errno = 0;
    const int result = as_server ? SSL_accept(ssl_.get()) : SSL_connect(ssl_.get());
    if (result == 1) co_return Result<void>();
    Result<Direction> direction = wanted(result, "handshake");
    if (!direction) co_return std::move(direction).error();
    Result<void> ready = co_await wait(*direction, deadline);
    CO_TRY_VOID(std::move(ready));
  }
}

Task<> Stream::accept_tls(Clock::time_point deadline) { return handshake(true, deadline); }

Task<> Stream::connect_tls(Clock::time_point deadline) { return handshake(false, deadline); }

void Stream::finish() {
  if (!descriptor_.is_open()) return;
  if (ssl_ != nullptr && !tls_failed_ && SSL_is_init_finished(ssl_.get()) == 1) {
    ERR_clear_error();
    (void)SSL_shutdown(ssl_.get());
    ERR_clear_error();
  }
  ::shutdown(descriptor_.native_handle(), SHUT_WR);
}

void Stream::close(bool with_reset) {
  if (!descriptor_.is_open()) return;
  bytes_received_ = bytes_received();
  if (with_reset) {
    const struct linger now = {1, 0};
    (void)::setsockopt(descriptor_.native_handle(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  }
  boost::system::error_code ignored;
  descriptor_.close(ignored);
}

void Stream::cancel_reads() {
  read_wait_.canceled = true;
  descriptor_.cancel();
}

bool Stream::is_gone() {
  if (!descriptor_.is_open()) return true;
  struct pollfd entry = {descriptor_.native_handle(), POLLRDHUP, 0};
  if (::poll(&entry, 1, 0) <= 0) return false;
  return (entry.revents & (POLLERR | POLLHUP)) != 0 || (ssl_ != nullptr && (entry.revents & POLLRDHUP) != 0);
}

bool Stream::is_quiet() {
  if (!descriptor_.is_open()) return false;
  char byte = 0;
  const ssize_t got = ::recv(descriptor_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got < 0) return errno == EAGAIN && (ssl_ == nullptr || SSL_has_pending(ssl_.get()) == 0);
  if (got == 0 || ssl_ == nullptr) return false;
  // A session ticket is no answer; an alert or data is the end of this connection.
  ERR_clear_error();
  size_t length = 0;
  const int result = SSL_peek_ex(ssl_.get(), &byte, 1, &length);
  const bool quiet = result != 1 && SSL_get_error(ssl_.get(), result) == SSL_ERROR_WANT_READ;
  ERR_clear_error();
  return quiet;
}

}  // namespace leash::proxy
