#include "hooks/netlink.h"

#include <poll.h>
#include <sys/socket.h>

#include "base/sys.h"
#include "hooks/netns.h"

namespace leash::hooks {
namespace {

constexpr int kAnswerTimeoutMs = 5000;
// The acknowledgements of one send must fit into the receive buffer (212992 bytes by default, about
// 800 for each), since nobody reads while the kernel works through the batch.
constexpr size_t kRequestsPerSend = 64;
constexpr int kDumpAttempts = 10;

uint32_t next_sequence() {
  // Single-threaded processes only (netns.h). 0 marks unsolicited messages.
  static uint32_t sequence = 0;
  if (++sequence == 0) ++sequence;
  return sequence;
}

Result<void> send_all(int socket_fd, const std::vector<iovec>& parts) {
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  msghdr message{};
  message.msg_name = &kernel;
  message.msg_namelen = sizeof(kernel);
  message.msg_iov = const_cast<iovec*>(parts.data());
  message.msg_iovlen = parts.size();
  while (::sendmsg(socket_fd, &message, 0) < 0) {
    if (errno != EINTR) return Error::last_errno("send to netlink");
  }
  return {};
}

}  // namespace

Result<Fd> open_netlink(int netns_fd, int protocol, uint32_t groups) {
  TRY(const NamespaceScope scope, NamespaceScope::enter(netns_fd));
  TRY(Fd socket, sys::socket(AF_NETLINK, SOCK_RAW, protocol));
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = groups;
  if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) < 0)
    return Error::last_errno("bind a netlink socket");
  // Both make answers better, neither changes what is done: a kernel without them is no error.
  const int on = 1;
  ::setsockopt(socket.get(), SOL_NETLINK, NETLINK_EXT_ACK, &on, sizeof(on));
  ::setsockopt(socket.get(), SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof(on));
  // Lets the kernel filter a dump by what the request's header says.
  if (protocol == NETLINK_ROUTE) ::setsockopt(socket.get(), SOL_NETLINK, NETLINK_GET_STRICT_CHK, &on, sizeof(on));
  return socket;
}

NetlinkMessage::NetlinkMessage(uint16_t type, uint16_t flags) {
  mnl_nlmsg_put_header(buffer_);
  header()->nlmsg_type = type;
  header()->nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags);
}

void NetlinkBatch::add(NetlinkMessage& message, std::string name) {
  message.header()->nlmsg_flags |= NLM_F_ACK;
  const char* first = reinterpret_cast<const char*>(message.header());
  entries_.push_back({std::vector<char>(first, first + MNL_ALIGN(message.header()->nlmsg_len)), std::move(name)});
}

Error NetlinkBatch::Outcome::as_error() const {
  Error failure = Error::from_errno(error, name);
  if (explanation.empty()) return failure;
  return Error(error, failure.message() + " (" + explanation + ")");
}

Result<std::vector<NetlinkBatch::Outcome>> NetlinkBatch::run(int socket_fd) {
  std::vector<Outcome> outcomes(entries_.size());
  for (size_t i = 0; i < entries_.size(); ++i) outcomes[i].name = entries_[i].name;

  std::vector<char> buffer;
  for (size_t first = 0; first < entries_.size(); first += kRequestsPerSend) {
    const size_t count = std::min(kRequestsPerSend, entries_.size() - first);
    std::vector<iovec> parts;
    uint32_t first_sequence = 0;
    for (size_t i = 0; i < count; ++i) {
      auto& bytes = entries_[first + i].bytes;
      const uint32_t sequence = next_sequence();
      if (i == 0) first_sequence = sequence;
      reinterpret_cast<nlmsghdr*>(bytes.data())->nlmsg_seq = sequence;
      parts.push_back({bytes.data(), bytes.size()});
    }
    TRY_VOID(send_all(socket_fd, parts).context(entries_[first].name));

    for (size_t answered = 0; answered < count;) {
      TRY(const size_t size, receive_netlink(socket_fd, buffer).context(outcomes[first + answered].name));
      int left = static_cast<int>(size);
      for (auto* message = reinterpret_cast<const nlmsghdr*>(buffer.data()); mnl_nlmsg_ok(message, left);
           message = mnl_nlmsg_next(message, &left)) {
        if (message->nlmsg_type != NLMSG_ERROR) continue;
        NetlinkAck ack = parse_ack(message);
        const uint32_t position = ack.sequence - first_sequence;
        if (position >= count) continue;
        outcomes[first + position].error = ack.error;
        outcomes[first + position].explanation = std::move(ack.explanation);
        ++answered;
      }
    }
  }
  entries_.clear();
  return outcomes;
}

Result<void> NetlinkBatch::run_all(int socket_fd) {
  TRY(const auto outcomes, run(socket_fd));
  for (const Outcome& outcome : outcomes)
    if (outcome.error != 0) return outcome.as_error();
  return {};
}

Result<size_t> receive_netlink(int socket_fd, std::vector<char>& buffer) {
  buffer.resize(64 << 10);
  for (;;) {
    const ssize_t size = ::recv(socket_fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (size >= 0) return static_cast<size_t>(size);
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return Error::last_errno("receive from netlink");
    pollfd wait{socket_fd, POLLIN, 0};
    const int ready = ::poll(&wait, 1, kAnswerTimeoutMs);
    if (ready == 0) return Error::from_errno(ETIMEDOUT, "receive from netlink");
    if (ready < 0 && errno != EINTR) return Error::last_errno("poll netlink");
  }
}

std::span<const uint8_t> attributes_of(const nlmsghdr* message, size_t fixed_header) {
  const size_t size = mnl_nlmsg_get_payload_len(message);
  const size_t offset = MNL_ALIGN(fixed_header);
  if (offset > size) return {};
  return {static_cast<const uint8_t*>(mnl_nlmsg_get_payload(message)) + offset, size - offset};
}

NetlinkAck parse_ack(const nlmsghdr* message) {
  NetlinkAck ack;
  ack.sequence = message->nlmsg_seq;
  if (mnl_nlmsg_get_payload_len(message) < sizeof(nlmsgerr)) {
    ack.error = EBADMSG;
    return ack;
  }
  const auto* body = static_cast<const nlmsgerr*>(mnl_nlmsg_get_payload(message));
  ack.error = -body->error;
  if ((message->nlmsg_flags & NLM_F_ACK_TLVS) == 0) return ack;
  // Behind the error comes the request it is about: whole, unless the message was capped.
  size_t offset = sizeof(nlmsgerr);
  if ((message->nlmsg_flags & NLM_F_CAPPED) == 0 && body->msg.nlmsg_len > sizeof(nlmsghdr))
    offset += MNL_ALIGN(body->msg.nlmsg_len) - sizeof(nlmsghdr);
  for_each_attribute(attributes_of(message, offset), [&](uint16_t type, std::span<const uint8_t> payload) {
    if (type != NLMSGERR_ATTR_MSG) return;
    const auto* text = reinterpret_cast<const char*>(payload.data());
    ack.explanation.assign(text, strnlen(text, payload.size()));
  });
  return ack;
}

Result<void> dump(int socket_fd, NetlinkMessage& request, std::string_view name, const std::function<void()>& restart,
                  const std::function<Result<void>(const nlmsghdr*)>& handle) {
  request.header()->nlmsg_flags |= NLM_F_DUMP;
  std::vector<char> buffer;
  for (int attempt = 0; attempt < kDumpAttempts; ++attempt) {
    restart();
    const uint32_t sequence = next_sequence();
    request.header()->nlmsg_seq = sequence;
    TRY_VOID(send_all(socket_fd, {{request.header(), request.header()->nlmsg_len}}).context(name));

    bool is_done = false;
    bool was_interrupted = false;
    while (!is_done) {
      TRY(const size_t size, receive_netlink(socket_fd, buffer).context(name));
      int left = static_cast<int>(size);
      for (auto* message = reinterpret_cast<const nlmsghdr*>(buffer.data()); mnl_nlmsg_ok(message, left);
           message = mnl_nlmsg_next(message, &left)) {
        if (message->nlmsg_seq != sequence) continue;
        if ((message->nlmsg_flags & NLM_F_DUMP_INTR) != 0) was_interrupted = true;
        if (message->nlmsg_type == NLMSG_DONE) {
          is_done = true;
        } else if (message->nlmsg_type == NLMSG_ERROR) {
          const NetlinkAck ack = parse_ack(message);
          return NetlinkBatch::Outcome{std::string(name), ack.error, ack.explanation}.as_error();
        } else if (!was_interrupted) {
          TRY_VOID(handle(message).context(name));
        }
      }
    }
    if (!was_interrupted) return {};
  }
  return Error::from_errno(EBUSY, name);
}

Result<std::vector<char>> ask(int socket_fd, NetlinkMessage& request, std::string_view name) {
  const uint32_t sequence = next_sequence();
  request.header()->nlmsg_seq = sequence;
  TRY_VOID(send_all(socket_fd, {{request.header(), request.header()->nlmsg_len}}).context(name));
  std::vector<char> buffer;
  for (;;) {
    TRY(const size_t size, receive_netlink(socket_fd, buffer).context(name));
    int left = static_cast<int>(size);
    for (auto* message = reinterpret_cast<const nlmsghdr*>(buffer.data()); mnl_nlmsg_ok(message, left);
         message = mnl_nlmsg_next(message, &left)) {
      if (message->nlmsg_seq != sequence) continue;
      if (message->nlmsg_type == NLMSG_ERROR) {
        const NetlinkAck ack = parse_ack(message);
        return NetlinkBatch::Outcome{std::string(name), ack.error, ack.explanation}.as_error();
      }
      const auto* first = reinterpret_cast<const char*>(message);
      return std::vector<char>(first, first + message->nlmsg_len);
    }
  }
}

}  // namespace leash::hooks
