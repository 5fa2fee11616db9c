#include "proxy/tunnel.h"

#include "oci-spec/host_pattern.h"
#include "oci-spec/reasons.h"
#include "oci-spec/rules.h"
#include "proxy/client_hello.h"

namespace leash::proxy {

namespace {

// A database connection may be silent for hours; a dead peer is found by TCP keep-alive.
constexpr std::chrono::hours kTunnelIdle{2};
constexpr std::chrono::seconds kHelloTimeout{5};

}  // namespace

Tunnel::Tunnel(Services& services, Stream& client, Flow& flow, std::string host, uint16_t port)
    : services_(services), client_(client), flow_(flow), host_(std::move(host)), port_(port), up_ended_(services.context) {}

void Tunnel::abort(Stream& origin) {
  origin.close(true);
  client_.close(true);
}

asio::awaitable<void> Tunnel::run(std::string first) {
  Origin target{host_, port_, false};
  OriginResult taken = co_await services_.pool.dial(std::move(target));
  if (taken.connection == nullptr) {
    if (taken.failure.is_refusal) {
      flow_.refuse(services_.policy, taken.failure.reason, oci::layer::kTcp);
      flow_.event.rule = taken.failure.verdict.rule;
    } else {
      flow_.event.error = taken.failure.reason;
    }
    client_.close(true);
    co_return;
  }
  flow_.event.dst_ip = taken.connection->address;
  Stream& origin = taken.connection->stream;
  spawn(services_.context, "tunnel", up(origin, std::move(first)), [this] { up_ended_.open(); });
  co_await down(origin);
  const bool ignored = co_await up_ended_.wait(Clock::time_point::max());
  (void)ignored;
  origin.close();
}

// Reads on until `first` is a whole ClientHello or something else. True if it may pass.
asio::awaitable<bool> Tunnel::check_hello(std::string& first) {
  const Clock::time_point deadline = Clock::now() + kHelloTimeout;
  ClientHello hello;
  HelloStatus status = parse_client_hello(first, hello);
  Buffer buffer(services_.blocks);
  while (status == HelloStatus::kIncomplete) {
    const std::span<char> room = buffer.room();
    const Result<size_t> got = co_await client_.read_some(room, deadline);
    if (!got || *got == 0) co_return false;
    first.append(room.data(), *got);
    status = parse_client_hello(first, hello);
  }
  if (status == HelloStatus::kMalformed) {
    // Another protocol may pass. A ClientHello that only we cannot read may not: it could name any host.
    constexpr char kHandshake = 22;
    const bool is_tls = first.size() >= 2 && first[0] == kHandshake && first[1] == 3;
    if (is_tls) flow_.judge(oci::refuse(services_.policy, oci::reason::kUnknownProtocol), oci::layer::kTls);
    co_return !is_tls || !flow_.is_blocked;
  }
  if (hello.server_name.empty()) co_return true;
  flow_.event.sni = hello.server_name;
  const Result<std::string> name = oci::normalise_host(hello.server_name);
  bool passes = name.has_value();
  if (passes && *name != host_) {
    const oci::Verdict verdict = oci::judge_connect(services_.policy, *name, port_);
    passes = verdict.allowed && (!verdict.inspect || verdict.observed);
  }
  if (!passes) {
    flow_.judge(oci::refuse(services_.policy, oci::reason::kHostMismatch), oci::layer::kTls);
    passes = !flow_.is_blocked;
  }
  co_return passes;
}

asio::awaitable<void> Tunnel::up(Stream& origin, std::string first) {
  Buffer buffer(services_.blocks);
  bool is_checked = false;
  for (;;) {
    if (first.empty()) {
      // The buffer is taken when there is something to read: an idle tunnel holds none.
      const Result<void> ready = co_await client_.wait_readable(Clock::now() + kTunnelIdle);
      if (!ready) break;
      const std::span<char> room = buffer.room();
      const Result<size_t> got = co_await client_.read_some(room, Clock::now() + kTunnelIdle);
      if (!got) break;
      if (*got == 0) {
        origin.finish();
        cross();
        co_return;
      }
      if (is_checked) {
        const std::string_view data(room.data(), *got);
        const Result<void> sent = co_await origin.write_all(data, Clock::now() + kTunnelIdle);
        cross();
        if (!sent) break;
        buffer.release();
        continue;
      }
      first.assign(room.data(), *got);
    }
    const bool passes = co_await check_hello(first);
    if (!passes) break;
    is_checked = true;
    const Result<void> sent = co_await origin.write_all(first, Clock::now() + kTunnelIdle);
    first.clear();
    cross();
    if (!sent) break;
  }
  abort(origin);
}

asio::awaitable<void> Tunnel::down(Stream& origin) {
  Buffer buffer(services_.blocks);
  for (;;) {
    const Result<void> ready = co_await origin.wait_readable(Clock::now() + kTunnelIdle);
    if (!ready) break;
    const std::span<char> room = buffer.room();
    const Result<size_t> got = co_await origin.read_some(room, Clock::now() + kTunnelIdle);
    if (!got) break;
    if (*got == 0) {
      client_.finish();
      co_return;
    }
    const std::string_view data(room.data(), *got);
    const Result<void> sent = co_await client_.write_all(data, Clock::now() + kTunnelIdle);
    cross();
    if (!sent) break;
    buffer.release();
  }
  abort(origin);
}

}  // namespace leash::proxy
