#include "shim/relay.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <optional>
#include <unordered_map>

#include "base/sys.h"
#include "shim/loop.h"
#include "shim/unprivileged.h"

namespace leash::shim {

namespace {

// SO_ORIGINAL_DST and IP6T_SO_ORIGINAL_DST: their kernel headers do not compile beside netinet/in.h.
constexpr int kOriginalDestination = 80;
constexpr size_t kMaxConnections = 4096;
constexpr size_t kPipeSize = size_t{64} << 10;

// One direction: from -> pipe -> to.
struct Direction {
  Fd pipe_out;
  Fd pipe_in;
  size_t buffered = 0;
  bool is_source_done = false;  // end of file read
  bool is_closed = false;       // and passed on
};

enum class Outcome { kWait, kDone, kReset };

// Moves what can be moved now.
Outcome pump(Direction& direction, int from, int to) {
  for (;;) {
    bool has_moved = false;
    if (!direction.is_source_done && direction.buffered < kPipeSize) {
      const ssize_t got = ::splice(from, nullptr, direction.pipe_in.get(), nullptr, kPipeSize - direction.buffered,
                                   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
      if (got > 0) {
        direction.buffered += static_cast<size_t>(got);
        has_moved = true;
      } else if (got == 0) {
        direction.is_source_done = true;
      } else if (errno != EAGAIN && errno != EINTR) {
        return Outcome::kReset;
      }
    }
    if (direction.buffered > 0) {
      const ssize_t put = ::splice(direction.pipe_out.get(), nullptr, to, nullptr, direction.buffered,
                                   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
      if (put > 0) {
        direction.buffered -= static_cast<size_t>(put);
        has_moved = true;
      } else if (put < 0 && errno != EAGAIN && errno != EINTR) {
        return Outcome::kReset;
      }
    }
    if (direction.is_source_done && direction.buffered == 0) {
      if (!direction.is_closed) {
        direction.is_closed = true;
        (void)::shutdown(to, SHUT_WR);
      }
      return Outcome::kDone;
    }
    if (!has_moved) return Outcome::kWait;
  }
}

struct Connection {
  Fd outside;
  Fd inside;
  bool is_connected = false;
  Direction inward;
  Direction outward;
};

// Closes with a reset: the other side's reset, or its refusal, is what the peer shall see.
void reset(Fd& socket) {
  const struct linger now = {1, 0};
  (void)::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  socket.reset();
}

bool make_pipe(Direction& direction) {
  std::array<int, 2> fds{};
  if (::pipe2(fds.data(), O_CLOEXEC | O_NONBLOCK) < 0) return false;
  direction.pipe_out.reset(fds[0]);
  direction.pipe_in.reset(fds[1]);
  return true;
}

class RelayServer {
 public:
  RelayServer(Loop& loop, std::vector<int> listeners) : loop_(loop), listeners_(std::move(listeners)) {}

  Result<void> start() {
    for (const int listener : listeners_) {
      TRY_VOID(loop_.watch(listener, EPOLLIN, [this, listener](uint32_t) { accept_all(listener); }));
    }
    return {};
  }

 private:
  void accept_all(int listener) {
    for (;;) {
      Fd outside(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!outside) {
        if (errno == EINTR || errno == ECONNABORTED) continue;
        // Out of descriptors: the readiness stays; without a pause this would be a busy loop.
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) pause(listener);
        return;
      }
      if (connections_.size() >= kMaxConnections) {
        reset(outside);
        continue;
      }
      take(std::move(outside));
    }
  }

  void pause(int listener) {
    loop_.unwatch(listener);
    (void)loop_.after(std::chrono::milliseconds(100), [this, listener] {
      (void)loop_.watch(listener, EPOLLIN, [this, listener](uint32_t) { accept_all(listener); });
    });
  }

  void take(Fd outside) {
    struct sockaddr_storage wanted = {};
    socklen_t size = sizeof wanted;
    struct sockaddr_storage local = {};
    socklen_t local_size = sizeof local;
    if (::getsockname(outside.get(), reinterpret_cast<struct sockaddr*>(&local), &local_size) < 0) return;
    const bool is_ipv6 = local.ss_family == AF_INET6;
    // A connection that no rule redirected has no original destination or its own: it came to the
    // relay's port itself, which N1's ruleset does not let in.
    if (::getsockopt(outside.get(), is_ipv6 ? SOL_IPV6 : SOL_IP, kOriginalDestination, &wanted, &size) < 0) {
      reset(outside);
      return;
    }
    Fd inside(::socket(wanted.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    auto connection = std::make_unique<Connection>();
    if (!inside || !make_pipe(connection->inward) || !make_pipe(connection->outward)) {
      reset(outside);
      return;
    }
    const int on = 1;
    (void)::setsockopt(inside.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)::setsockopt(outside.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (::connect(inside.get(), reinterpret_cast<const struct sockaddr*>(&wanted), size) < 0 && errno != EINPROGRESS) {
      reset(outside);
      return;
    }
    connection->outside = std::move(outside);
    connection->inside = std::move(inside);
    Connection* key = connection.get();
    connections_.emplace(key, std::move(connection));
    // Edge-triggered: pump() goes on until nothing moves, so no edge is lost.
    const auto on_event = [this, key](uint32_t) { progress(key); };
    const uint32_t events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    if (!loop_.watch(key->inside.get(), events, on_event) || !loop_.watch(key->outside.get(), events, on_event)) {
      close(key, true);
    }
  }

  void progress(Connection* connection) {
    if (connections_.find(connection) == connections_.end()) return;
    if (!connection->is_connected) {
      int error = 0;
      socklen_t size = sizeof error;
      struct sockaddr_storage peer = {};
      socklen_t peer_size = sizeof peer;
      if (::getsockopt(connection->inside.get(), SOL_SOCKET, SO_ERROR, &error, &size) < 0 || error != 0) {
        close(connection, true);
        return;
      }
      if (::getpeername(connection->inside.get(), reinterpret_cast<struct sockaddr*>(&peer), &peer_size) < 0) return;
      connection->is_connected = true;
    }
    const Outcome inward = pump(connection->inward, connection->outside.get(), connection->inside.get());
    const Outcome outward = pump(connection->outward, connection->inside.get(), connection->outside.get());
    if (inward == Outcome::kReset || outward == Outcome::kReset) {
      close(connection, true);
    } else if (inward == Outcome::kDone && outward == Outcome::kDone) {
      close(connection, false);
    }
  }

  void close(Connection* connection, bool is_reset) {
    loop_.unwatch(connection->inside.get());
    loop_.unwatch(connection->outside.get());
    if (is_reset) {
      reset(connection->inside);
      reset(connection->outside);
    }
    connections_.erase(connection);
  }

  Loop& loop_;
  std::vector<int> listeners_;
  std::unordered_map<Connection*, std::unique_ptr<Connection>> connections_;
};

// In the child. Comes back only with an error.
Error run_relay(const std::vector<int>& listeners, int n2_fd, const Fd& report, pid_t parent) {
  (void)::prctl(PR_SET_NAME, "leash-relay", 0, 0, 0);
  auto in_n2 = sys::setns(n2_fd, CLONE_NEWNET).context("enter the container's network namespace");
  if (!in_n2) return std::move(in_n2).error();
  std::vector<int> kept = listeners;
  kept.push_back(report.get());
  auto closed = close_all_but(kept);
  if (!closed) return std::move(closed).error();
  auto dropped = give_up_privileges(child_uid(ChildKind::kRelay, ::getpid()), parent);
  if (!dropped) return std::move(dropped).error();
  (void)::signal(SIGPIPE, SIG_IGN);
  auto loop = Loop::create();
  if (!loop) return std::move(loop).error();
  RelayServer server(*loop, listeners);
  auto started = server.start();
  if (!started) return std::move(started).error();
  const char ready = 0;
  if (::write(report.get(), &ready, 1) != 1) ::_exit(1);
  auto ended = loop->run();
  return ended ? Error("the loop has ended") : Error(std::move(ended).error());
}

Result<Fd> bind_listener(int family, uint16_t& port) {
  TRY(Fd socket, sys::socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0));
  // Or the listener could not listen again while connections of a dead relay are in TIME_WAIT. In N1 there
  // is nobody who could take the port meanwhile.
  const int on = 1;
  if (::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0) return Error::last_errno("SO_REUSEADDR");
  struct sockaddr_in6 v6 = {};
  struct sockaddr_in v4 = {};
  const struct sockaddr* address = reinterpret_cast<const struct sockaddr*>(&v4);
  socklen_t size = sizeof v4;
  if (family == AF_INET6) {
    if (::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) < 0) return Error::last_errno("IPV6_V6ONLY");
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    address = reinterpret_cast<const struct sockaddr*>(&v6);
    size = sizeof v6;
  } else {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
  }
  if (::bind(socket.get(), address, size) < 0) return Error::last_errno("bind " + std::to_string(port));
  return socket;
}

}  // namespace

Result<RelayListeners> bind_relay_listeners(int n1_fd) {
  TRY(Fd home, sys::open("/proc/self/ns/net", O_RDONLY));
  TRY_VOID(sys::setns(n1_fd, CLONE_NEWNET).context("enter the engine's network namespace"));
  auto bound = []() -> Result<RelayListeners> {
    // Ports outside the ephemeral range, named and not chosen by the kernel: a port that bind(2) chose is
    // given back when the listener is shut down (deafen), a named one is kept.
    RelayListeners listeners;
    for (uint16_t port = 15080; port < 15180; ++port) {
      auto v4 = bind_listener(AF_INET, port);
      if (!v4) {
        if (v4.error().code() == EADDRINUSE) continue;
        return std::move(v4).error();
      }
      auto v6 = bind_listener(AF_INET6, port);
      if (!v6 && v6.error().code() == EADDRINUSE) continue;
      listeners.port = port;
      listeners.sockets.push_back(std::move(v4).value());
      // A namespace without IPv6 needs no IPv6 listener; any other failure is one.
      if (v6) {
        listeners.sockets.push_back(std::move(v6).value());
      } else if (v6.error().code() != EAFNOSUPPORT && v6.error().code() != EADDRNOTAVAIL) {
        return std::move(v6).error();
      }
      return listeners;
    }
    return Error(EADDRINUSE, "no free port for the relay");
  }();
  // The way back cannot be allowed to fail: everything after would happen in the wrong namespace.
  if (!sys::setns(home.get(), CLONE_NEWNET)) ::abort();
  return std::move(bound).context("inbound relay");
}

Result<Relay> start_relay(const RelayListeners& listeners, int n2_fd) {
  std::vector<int> sockets;
  for (const Fd& socket : listeners.sockets) sockets.push_back(socket.get());
  TRY(auto report, sys::pipe());
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return Error::last_errno("fork the relay");
  if (pid == 0) {
    report.first.reset();
    const Error error = run_relay(sockets, n2_fd, report.second, parent);
    (void)!::write(report.second.get(), error.message().data(), error.message().size());
    ::_exit(1);
  }
  report.second.reset();
  Relay relay;
  relay.pid = pid;
  const auto started = [&]() -> Result<void> {
    TRY(relay.pidfd, sys::pidfd_open(pid));
    struct pollfd entry = {report.first.get(), POLLIN, 0};
    if (::poll(&entry, 1, 5000) <= 0) return Error(ETIMEDOUT, "no answer");
    std::array<char, 512> text{};
    const ssize_t length = ::read(report.first.get(), text.data(), text.size());
    if (length != 1 || text[0] != 0) {
      return Error(EPROTO, length > 0 ? std::string(text.data(), static_cast<size_t>(length)) : "ended early");
    }
    for (const int socket : sockets) {
      if (::listen(socket, 1024) < 0) return Error::last_errno("listen");
    }
    return {};
  }();
  if (!started) {
    (void)::kill(pid, SIGKILL);
    (void)::waitpid(pid, nullptr, 0);
    return Error(started.error()).context("inbound relay");
  }
  return relay;
}

void deafen(const RelayListeners& listeners) {
  for (const Fd& socket : listeners.sockets) (void)::shutdown(socket.get(), SHUT_RD);
}

}  // namespace leash::shim
