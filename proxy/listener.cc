#include "proxy/listener.h"

#include <sys/socket.h>

#include "base/log.h"
#include "base/sys.h"
#include "proxy/client_connection.h"
#include "proxy/gate.h"

namespace leash::proxy {

namespace {

constexpr std::chrono::milliseconds kPause{200};

asio::awaitable<void> serve(std::unique_ptr<ClientConnection> connection) { co_await connection->run(); }

}  // namespace

Listener::Listener(Services& services, ConnectionLimit& limit)
    : services_(services), limit_(limit), socket_(services.context) {}

Result<std::unique_ptr<Listener>> Listener::create(Services& services, ConnectionLimit& limit, Fd socket) {
  std::unique_ptr<Listener> listener(new Listener(services, limit));
  TRY_VOID(sys::set_nonblocking(socket.get(), true));
  boost::system::error_code error;
  listener->socket_.assign(socket.get(), error);
  if (error) return Error::from_errno(error.value(), "listener");
  (void)socket.release();
  return listener;
}

void Listener::start() { spawn(services_.context, "listener", run()); }

asio::awaitable<void> Listener::run() {
  asio::steady_timer pause(services_.context);
  for (;;) {
    boost::system::error_code error;
    co_await socket_.async_wait(asio::posix::descriptor_base::wait_read, asio::redirect_error(asio::use_awaitable, error));
    if (error) {
      log::error("listener: " + error.message());
      co_return;
    }
    bool must_pause = !accept_all();
    while (must_pause || limit_.is_reached() || !services_.flows.is_healthy()) {
      pause.expires_after(kPause);
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
      must_pause = false;
    }
  }
}

bool Listener::accept_all() {
  while (!limit_.is_reached() && services_.flows.is_healthy()) {
    Fd client(::accept4(socket_.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!client.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return errno == EAGAIN;
    }
    auto connection = std::make_unique<ClientConnection>(services_, std::move(client));
    limit_.opened();
    spawn(services_.context, "connection", serve(std::move(connection)), [&limit = limit_] { limit.closed(); });
  }
  return true;
}

}  // namespace leash::proxy
