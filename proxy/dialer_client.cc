#include "proxy/dialer_client.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <cstring>
#include <vector>

#include "oci-spec/proxy_protocol.h"
#include "proxy/wait.h"

namespace leash::proxy {

namespace {

// The shim bounds what it queues; beyond this the dialer is not answering at all.
constexpr size_t kMaxPending = 4096;

Result<void> connect_result(int fd) {
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) < 0) return Error::last_errno("connect");
  if (error != 0) return Error::from_errno(error, "connect");
  return {};
}

}  // namespace

// Shared by the waiting coroutine and the table, since either may end first.
struct DialerClient::Pending {
  explicit Pending(asio::io_context& context) : answered(context) {}
  oci::DialRequest request;
  asio::steady_timer answered;
  bool done = false;
  int error = 0;
  Fd fd;
};

DialerClient::DialerClient(asio::io_context& context, Fd socket) : context_(context), socket_(context) {
  boost::system::error_code error;
  socket_.assign(socket.get(), error);
  if (error) {
    broken_ = true;
    return;
  }
  (void)socket.release();
  socket_.non_blocking(true, error);
  wait_readable();
}

DialerClient::~DialerClient() { fail_all(ECANCELED); }

void DialerClient::send(const std::shared_ptr<Pending>& pending) {
  ssize_t sent = 0;
  do {
    sent = ::send(socket_.native_handle(), &pending->request, sizeof pending->request, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent == static_cast<ssize_t>(sizeof pending->request)) return;
  const int error = errno;
  if (error == EAGAIN) {
    // The dialer is behind: the socket buffer is the queue, more than that waits its turn here.
    socket_.async_wait(asio::posix::stream_descriptor::wait_write,
                       [this, pending](const boost::system::error_code& failed) {
                         if (!failed && !pending->done) send(pending);
                       });
    return;
  }
  pending->error = error;
  pending->done = true;
  pending->answered.cancel();
}

void DialerClient::wait_readable() {
  socket_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const boost::system::error_code& error) {
    if (error == asio::error::operation_aborted) return;
    receive();
    if (!broken_) wait_readable();
  });
}

void DialerClient::receive() {
  for (;;) {
    oci::DialReply reply;
    struct iovec part = {&reply, sizeof reply};
    alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    struct msghdr header = {};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    const ssize_t length = ::recvmsg(socket_.native_handle(), &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (length < 0 && errno == EINTR) continue;
    if (length < 0 && errno == EAGAIN) return;
    Fd fd;
    for (struct cmsghdr* item = CMSG_FIRSTHDR(&header); length > 0 && item != nullptr; item = CMSG_NXTHDR(&header, item)) {
      if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) continue;
      int number = -1;
      std::memcpy(&number, CMSG_DATA(item), sizeof number);
      fd.reset(number);
    }
    if (length != static_cast<ssize_t>(sizeof reply)) {
      broken_ = true;
      fail_all(EPIPE);
      return;
    }
    // No entry: the caller has given up meanwhile, and the socket closes here.
    const auto found = pending_.find(reply.tag);
    if (found == pending_.end()) continue;
    const std::shared_ptr<Pending> pending = std::move(found->second);
    pending_.erase(found);
    pending->error = reply.error;
    pending->fd = std::move(fd);
    pending->done = true;
    pending->answered.cancel();
  }
}

void DialerClient::fail_all(int error) {
  for (auto& [tag, pending] : pending_) {
    pending->error = error;
    pending->done = true;
    pending->answered.cancel();
  }
  pending_.clear();
}

Task<Fd> DialerClient::dial(Transport transport, asio::ip::address address, uint16_t port,
                            std::chrono::milliseconds timeout) {
  if (broken_) co_return Error::from_errno(EPIPE, "dialer");
  if (pending_.size() >= kMaxPending) co_return Error::from_errno(EAGAIN, "dialer");
  const Clock::time_point deadline = Clock::now() + timeout;
  const auto pending = std::make_shared<Pending>(context_);
  pending->request.tag = next_tag_++;
  pending->request.is_udp = transport == Transport::kUdp ? 1 : 0;
  pending->request.port = port;
  if (address.is_v6()) {
    const auto bytes = address.to_v6().to_bytes();
    pending->request.is_ipv6 = 1;
    std::memcpy(pending->request.address, bytes.data(), bytes.size());
  } else {
    const auto bytes = address.to_v4().to_bytes();
    std::memcpy(pending->request.address, bytes.data(), bytes.size());
  }
  const uint32_t tag = pending->request.tag;
  pending_.emplace(tag, pending);
  send(pending);
  if (!pending->done) {
    pending->answered.expires_at(deadline);
    boost::system::error_code ignored;
    co_await pending->answered.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  pending_.erase(tag);
  if (!pending->done) co_return Error::from_errno(ETIMEDOUT, "dialer");
  if (pending->error != 0) co_return Error::from_errno(pending->error, "connect");
  Fd fd = std::move(pending->fd);
  if (!fd.valid()) co_return Error(EPROTO, "dialer sent no socket");
  CO_TRY_VOID(sys::set_nonblocking(fd.get(), true));
  if (transport == Transport::kUdp) co_return fd;
  // connect(2) is under way: writable means decided.
  Result<void> ready = co_await wait_writable(context_, fd.get(), deadline);
  CO_TRY_VOID(std::move(ready));
  CO_TRY_VOID(connect_result(fd.get()));
  co_return fd;
}

}  // namespace leash::proxy
