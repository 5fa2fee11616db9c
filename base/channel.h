// Channel: whole messages with descriptors between two of our processes, over a unix SOCK_SEQPACKET
// socket (a socketpair from birth, or accepted from a listening socket of mode 0600).
//
// A message is a kind (one word), a body (a document of oci-spec, usually JSON) and descriptors. A
// body of more than 32 KiB travels as a memfd, since a packet is bounded by the socket buffer. The
// peer is one of ours but may be compromised (leash-proxy): sizes and descriptor counts are bounded,
// and descriptors that nobody asked for are closed.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace leash {

struct Message {
  std::string kind;
  std::string body;
  std::vector<Fd> fds;
};

class Channel {
 public:
  static constexpr size_t kMaxBody = size_t{16} << 20;
  static constexpr size_t kMaxFds = 16;

  Channel() = default;
  explicit Channel(Fd socket) : socket_(std::move(socket)) {}
  // Two connected ends.
  [[nodiscard]] static Result<std::pair<Channel, Channel>> pair();
  // Connects to a listening socket at `path` (unix(7)).
  [[nodiscard]] static Result<Channel> connect(const std::string& path);

  [[nodiscard]] int fd() const { return socket_.get(); }
  [[nodiscard]] bool valid() const { return socket_.valid(); }
  [[nodiscard]] Fd release() { return std::move(socket_); }

  // Errors: EPIPE when the peer is gone; ETIMEDOUT (receive) when the deadline has passed.
  [[nodiscard]] Result<void> send(std::string_view kind, std::string_view body = {},
                                  const std::vector<int>& fds = {}) const;
  // nullopt: the peer has closed its end. Without `timeout` waits for ever; 0 means do not wait.
  [[nodiscard]] Result<std::optional<Message>> receive(
      std::optional<std::chrono::milliseconds> timeout = std::nullopt) const;

 private:
  Fd socket_;
};

}  // namespace leash
