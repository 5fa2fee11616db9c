#include "base/channel.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "base/sys.h"

namespace leash {

namespace {

// On the wire: one flag byte ('i' inline body, 'm' body in the last descriptor), the kind, a NUL, the body.
constexpr size_t kInlineBody = size_t{32} << 10;
constexpr size_t kMaxPacket = kInlineBody + 256;

Result<Fd> body_memfd(std::string_view body) {
  TRY(Fd memfd, sys::memfd_create("leash-message", MFD_ALLOW_SEALING));
  TRY_VOID(sys::write_all(memfd.get(), body));
  if (::fcntl(memfd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0) {
    return Error::last_errno("seal message");
  }
  return memfd;
}

Result<std::string> read_memfd(const Fd& memfd) {
  // Sealed, so that the size checked is the size read, whatever the peer does.
  const int seals = ::fcntl(memfd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & (F_SEAL_SHRINK | F_SEAL_WRITE)) != (F_SEAL_SHRINK | F_SEAL_WRITE)) {
    return Error(EPROTO, "message body is not a sealed memfd");
  }
  if (::lseek(memfd.get(), 0, SEEK_SET) < 0) return Error::last_errno("lseek message");
  return sys::read_all(memfd.get(), Channel::kMaxBody);
}

}  // namespace

Result<std::pair<Channel, Channel>> Channel::pair() {
  TRY(auto ends, sys::socketpair(SOCK_SEQPACKET));
  return std::pair(Channel(std::move(ends.first)), Channel(std::move(ends.second)));
}

Result<Channel> Channel::connect(const std::string& path) {
  TRY(Fd socket, sys::socket(AF_UNIX, SOCK_SEQPACKET, 0));
  struct sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return Error::from_errno(ENAMETOOLONG, "connect '" + path + "'");
  std::memcpy(address.sun_path, path.data(), path.size());
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0) {
    return Error::last_errno("connect '" + path + "'");
  }
  return Channel(std::move(socket));
}

Result<void> Channel::send(std::string_view kind, std::string_view body, const std::vector<int>& fds) const {
  if (body.size() > kMaxBody || fds.size() + 1 > kMaxFds || kind.size() > 64) {
    return Error::from_errno(EMSGSIZE, "send '" + std::string(kind) + "'");
  }
  std::vector<int> passed = fds;
  Fd memfd;
  const bool is_inline = body.size() <= kInlineBody;
  if (!is_inline) {
    TRY(memfd, body_memfd(body));
    passed.push_back(memfd.get());
  }
  std::string packet(1, is_inline ? 'i' : 'm');
  packet += kind;
  packet += '\0';
  if (is_inline) packet += body;

  struct iovec part = {packet.data(), packet.size()};
  alignas(struct cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxFds)> control{};
  struct msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!passed.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(sizeof(int) * passed.size());
    struct cmsghdr* item = CMSG_FIRSTHDR(&header);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN(sizeof(int) * passed.size());
    std::memcpy(CMSG_DATA(item), passed.data(), sizeof(int) * passed.size());
  }
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket_.get(), &header, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) return Error::last_errno("send '" + std::string(kind) + "'");
  return {};
}

Result<std::optional<Message>> Channel::receive(std::optional<std::chrono::milliseconds> timeout) const {
  if (timeout) {
    const auto deadline = std::chrono::steady_clock::now() + *timeout;
    struct pollfd entry = {socket_.get(), POLLIN, 0};
    for (;;) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      const int ready = ::poll(&entry, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
      if (ready > 0) break;
      if (ready < 0 && errno == EINTR) continue;
      if (ready < 0) return Error::last_errno("poll");
      return Error::from_errno(ETIMEDOUT, "receive");
    }
  }
  std::string packet(kMaxPacket, '\0');
  struct iovec part = {packet.data(), packet.size()};
  alignas(struct cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxFds)> control{};
  struct msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  ssize_t length = 0;
  do {
    length = ::recvmsg(socket_.get(), &header, MSG_CMSG_CLOEXEC);
  } while (length < 0 && errno == EINTR);
  if (length < 0 && errno == ECONNRESET) return std::optional<Message>();
  if (length < 0) return Error::last_errno("receive");

  Message message;
  for (struct cmsghdr* item = CMSG_FIRSTHDR(&header); item != nullptr; item = CMSG_NXTHDR(&header, item)) {
    if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (item->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(item) + i * sizeof(int), sizeof fd);
      message.fds.emplace_back(fd);
    }
  }
  if (length == 0) return std::optional<Message>();
  if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) return Error(EPROTO, "message is truncated");
  packet.resize(static_cast<size_t>(length));
  const size_t end = packet.find('\0', 1);
  if (end == std::string::npos) return Error(EPROTO, "message has no kind");
  message.kind = packet.substr(1, end - 1);
  if (packet[0] == 'i') {
    message.body = packet.substr(end + 1);
  } else {
    if (message.fds.empty()) return Error(EPROTO, "message body is missing");
    TRY(message.body, read_memfd(message.fds.back()));
    message.fds.pop_back();
  }
  return std::optional<Message>(std::move(message));
}

}  // namespace leash
