// Stream: one TCP connection, plain or TLS. OpenSSL works on the descriptor itself through a small BIO
// of ours and we wait for readiness: asio::ssl::stream would hold 72 KB for an idle connection and copy
// every byte twice more; this holds 10 KB. The BIO counts what crosses the wire, replays the bytes that
// were read to look at the ClientHello, and never raises SIGPIPE.
//
// A read and a write may be under way at the same time, in two coroutines; not two of either.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "proxy/asio.h"
#include "proxy/watchdog.h"

namespace leash::proxy {

struct SslDeleter {
  void operator()(SSL* ssl) const;
};
using SslPointer = std::unique_ptr<SSL, SslDeleter>;

class Stream final : public Watched {
 public:
  // Error codes of what reads and writes return, beside those of recv(2) and send(2):
  static constexpr int kTruncated = ENODATA;  // TCP ended without TLS's close_notify
  static constexpr int kTlsError = EPROTO;

  Stream(asio::io_context& context, Watchdog& watchdog, Fd socket);
  ~Stream() override;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Up to room.size() bytes, as soon as there are any; 0 when the peer has ended cleanly.
  [[nodiscard]] Task<size_t> read_some(std::span<char> room, Clock::time_point deadline);
  // All of `data`, which must stay in place.
  [[nodiscard]] Task<> write_all(std::string_view data, Clock::time_point deadline);
  // Until a read would not block (data, end, or error). ETIMEDOUT.
  [[nodiscard]] Task<> wait_readable(Clock::time_point deadline);

  // From here on TLS. `replay`: bytes of the peer that were read already.
  [[nodiscard]] Result<void> start_tls(SSL_CTX* context, std::string replay);
  [[nodiscard]] Task<> accept_tls(Clock::time_point deadline);
  [[nodiscard]] Task<> connect_tls(Clock::time_point deadline);
  [[nodiscard]] SSL* ssl() const { return ssl_.get(); }

  // Says that nothing more follows: close_notify and FIN. Does not wait.
  void finish();
  // Closes at once; `with_reset` so that the peer sees that something is missing.
  void close(bool with_reset = false);
  // Ends the waits under way with ECANCELED; later ones are as usual.
  void cancel_reads();
  [[nodiscard]] bool is_open() const { return descriptor_.is_open(); }
  // A kept connection on which nothing has come: not closed by the peer, no stray bytes.
  [[nodiscard]] bool is_quiet();

  // The peer has closed: TLS, in either direction; plain TCP, both (half a close is how some clients end
  // their request).
  [[nodiscard]] bool is_gone();

  [[nodiscard]] int fd() { return descriptor_.native_handle(); }
  // TCP payload, TLS included. What lies unread in the kernel counts as received.
  [[nodiscard]] uint64_t bytes_received();
  [[nodiscard]] uint64_t bytes_sent() const { return bytes_sent_; }

  Clock::time_point expire(Clock::time_point now) override;

 private:
  enum class Direction { kRead, kWrite };
  struct Wait {
    Clock::time_point deadline = Clock::time_point::max();
    bool expired = false;
    bool canceled = false;
  };
  friend struct StreamBio;

  [[nodiscard]] Task<> wait(Direction direction, Clock::time_point deadline);
  [[nodiscard]] Task<> handshake(bool as_server, Clock::time_point deadline);
  // What an SSL_* call that returned `result` wants: a wait, or it has failed.
  [[nodiscard]] Result<Direction> wanted(int result, std::string_view what);
  ssize_t receive(char* room, size_t length);
  ssize_t transmit(const char* data, size_t length);

  Watchdog& watchdog_;
  Watchdog::Handle watch_;
  asio::posix::stream_descriptor descriptor_;
  SslPointer ssl_;
  std::string replay_;
  size_t replayed_ = 0;
  bool at_end_ = false;      // the peer's FIN was seen
  bool tls_failed_ = false;  // no close_notify after a fatal error
  uint64_t bytes_received_ = 0;
  uint64_t bytes_sent_ = 0;
  Wait read_wait_;
  Wait write_wait_;
};

// The newest OpenSSL error as text, and the queue emptied.
[[nodiscard]] std::string openssl_error();

}  // namespace leash::proxy
