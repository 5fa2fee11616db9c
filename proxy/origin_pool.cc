#include "proxy/origin_pool.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>

#include "oci-spec/reasons.h"
#include "proxy/origin_verify.h"

namespace leash::proxy {

namespace {

constexpr std::chrono::seconds kConnectTimeout{10};    // for each address
constexpr std::chrono::seconds kHandshakeTimeout{15};

OriginResult failure(std::string_view reason, std::string detail) {
  OriginResult result;
  result.failure.reason = reason;
  result.failure.detail = std::move(detail);
  return result;
}

OriginResult unresolved(const Error& error) {
  if (error.code() != EACCES) return failure(oci::reason::kOriginUnresolved, error.message());
  OriginResult result = failure(oci::reason::kPrivateAddress, error.message());
  result.failure.is_refusal = true;
  return result;
}

}  // namespace

asio::ip::address to_asio(const oci::IpAddress& address) {
  if (!address.is_ipv6) {
    asio::ip::address_v4::bytes_type bytes;
    std::copy_n(address.bytes.begin(), bytes.size(), bytes.begin());
    return asio::ip::address_v4(bytes);
  }
  return asio::ip::address_v6(address.bytes);
}

std::string Origin::key() const { return host + (is_tls ? "|s|" : "|p|") + std::to_string(port); }

OriginPool::OriginPool(asio::io_context& context, Watchdog& watchdog, Resolver& resolver, DialerClient& dialer)
    : context_(context),
      watchdog_(watchdog),
      resolver_(resolver),
      dialer_(dialer),
      drop_timer_(context) {}

std::unique_ptr<OriginConnection> OriginPool::take_idle(const std::string& key) {
  const auto found = idle_.find(key);
  if (found == idle_.end()) return nullptr;
  std::unique_ptr<OriginConnection> connection;
  while (!found->second.empty() && connection == nullptr) {
    std::unique_ptr<OriginConnection> last = std::move(found->second.back());
    found->second.pop_back();
    --idle_count_;
    if (last->stream.is_quiet()) connection = std::move(last);
  }
  if (connection != nullptr) connection->was_kept = true;
  return connection;
}

void OriginPool::give_back(std::unique_ptr<OriginConnection> connection) {
  if (idle_count_ >= kMaxIdle || !connection->stream.is_open()) return;
  connection->idle_since = Clock::now();
  std::vector<std::unique_ptr<OriginConnection>>& list = idle_[connection->key];
  list.push_back(std::move(connection));
  ++idle_count_;
  schedule_drop();
}

void OriginPool::schedule_drop() {
  if (drop_scheduled_ || idle_count_ == 0) return;
  drop_scheduled_ = true;
  drop_timer_.expires_after(kMaxIdleTime / 4);
  drop_timer_.async_wait([this](const boost::system::error_code& stopped) {
    if (stopped) return;
    drop_scheduled_ = false;
    drop_old();
    schedule_drop();
  });
}

void OriginPool::drop_old() {
  const Clock::time_point limit = Clock::now() - kMaxIdleTime;
  for (auto entry = idle_.begin(); entry != idle_.end();) {
    auto& list = entry->second;
    idle_count_ -= std::erase_if(list, [&](const auto& connection) { return connection->idle_since < limit; });
    entry = list.empty() ? idle_.erase(entry) : std::next(entry);
  }
}

asio::awaitable<OriginResult> OriginPool::dial(Origin origin) {
  Result<Resolution> resolution = co_await resolver_.resolve(origin.host);
  if (!resolution) co_return unresolved(resolution.error());
  if (!resolution->verdict.allowed) {
    OriginResult refused = failure(oci::reason::kPrivateAddress, "its addresses are refused");
    refused.failure.is_refusal = true;
    refused.failure.verdict = resolution->verdict;
    if (!refused.failure.verdict.reason.empty()) refused.failure.reason = refused.failure.verdict.reason;
    co_return refused;
  }
  Error last(ENOENT, "no address");
  for (const oci::IpAddress& address : resolution->addresses) {
    Result<Fd> socket = co_await dialer_.dial(Transport::kTcp, to_asio(address), origin.port, kConnectTimeout);
    if (!socket) {
      last = std::move(socket).error().context(oci::print(address));
      continue;
    }
    Fd fd = std::move(socket).value();
    const int on = 1;
    (void)::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)::setsockopt(fd.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    OriginResult result;
    result.connection = std::make_unique<OriginConnection>(context_, watchdog_, std::move(fd));
    result.connection->address = oci::print(address);
    co_return result;
  }
  co_return failure(oci::reason::kOriginUnreachable, last.message());
}

asio::awaitable<OriginResult> OriginPool::connect(Origin origin) {
  if (origin.is_tls && tls_ == nullptr) co_return failure(oci::reason::kOriginCertificate, "no trust store");
  OriginResult result = co_await dial(origin);
  if (result.connection == nullptr) co_return result;
  OriginConnection& connection = *result.connection;
  connection.key = origin.key();
  if (!origin.is_tls) co_return result;
  Result<void> started = connection.stream.start_tls(tls_->context(), {});
  if (started) started = tls_->prepare(connection.stream.ssl(), origin.host, connection.key);
  if (started) started = co_await connection.stream.connect_tls(Clock::now() + kHandshakeTimeout);
  if (started) co_return result;
  tls_->forget(connection.key);
  const std::string problem = certificate_problem(connection.stream.ssl());
  if (!problem.empty()) co_return failure(oci::reason::kOriginCertificate, problem);
  if (started.error().code() == ETIMEDOUT) co_return failure(oci::reason::kTimeout, "tls handshake timed out");
  co_return failure(oci::reason::kOriginProtocol, "tls handshake: " + started.error().message());
}

asio::awaitable<OriginResult> OriginPool::take(Origin origin, bool fresh) {
  OriginResult result;
  if (!fresh) result.connection = take_idle(origin.key());
  if (result.connection != nullptr) co_return result;
  result = co_await connect(std::move(origin));
  co_return result;
}

asio::awaitable<OriginFailure> OriginPool::probe(Origin origin) {
  OriginResult result = co_await take(std::move(origin), false);
  if (result.connection != nullptr) give_back(std::move(result.connection));
  co_return std::move(result.failure);
}

}  // namespace leash::proxy
