#include "proxy/dns_server.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <exception>
#include <vector>

#include "base/log.h"
#include "proxy/asio.h"
#include "proxy/dns_guard.h"
#include "proxy/dns_message.h"
#include "proxy/timed_socket.h"

namespace leash::proxy {
namespace {

using std::chrono::seconds;

constexpr size_t kMaxUdpQueries = 256;  // under way at the same time; more are dropped
constexpr size_t kMaxTcpSessions = 64;
constexpr seconds kTcpIdle{10};
constexpr int kDatagramsPerTurn = 32;
// A flood of refused names must not fill the disk: beyond this many lines, one line stands for many.
constexpr double kLinesPerSecond = 50;
constexpr double kLineBurst = 200;

int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void report(const std::exception_ptr& failure) {
  if (!failure) return;
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& e) {
    log::error(std::string("dns: ") + e.what());
  }
}

bool is_localhost(std::string_view host) { return host == "localhost" || host.ends_with(".localhost"); }

// Asked by nobody who only looks for a host, and wide enough to carry data.
bool is_refused_type(uint16_t qtype) {
  namespace type = dns::type;
  return qtype == type::kTxt || qtype == type::kNull || qtype == type::kAny || qtype == type::kAxfr || qtype == type::kIxfr ||
         qtype == 253 || qtype == 254;
}

}  // namespace

class DnsServer::Impl : public std::enable_shared_from_this<DnsServer::Impl> {
 public:
  Impl(asio::any_io_executor executor, const oci::Policy& policy, Resolver& resolver, DnsLog log)
      : executor_(std::move(executor)),
        policy_(policy),
        resolver_(resolver),
        log_(std::move(log)),
        flush_timer_(executor_) {}

  Result<void> serve(oci::ListenerKind kind, Fd socket) {
    const auto listener = std::make_shared<TimedSocket>(executor_);
    TRY_VOID(listener->open(std::move(socket)).context("DNS listener"));
    listeners_.push_back(listener);
    const auto self = shared_from_this();
    switch (kind) {
      case oci::ListenerKind::kDnsEngineUdp:
        asio::co_spawn(executor_, serve_udp(self, listener, ResolverView::kEngine), report);
        return {};
      case oci::ListenerKind::kDnsOtherUdp:
        asio::co_spawn(executor_, serve_udp(self, listener, ResolverView::kOther), report);
        return {};
      case oci::ListenerKind::kDnsEngineTcp:
        asio::co_spawn(executor_, serve_tcp(self, listener, ResolverView::kEngine), report);
        return {};
      case oci::ListenerKind::kDnsOtherTcp:
        asio::co_spawn(executor_, serve_tcp(self, listener, ResolverView::kOther), report);
        return {};
      case oci::ListenerKind::kTcp: break;
    }
    return Error("not a DNS listener");
  }

  void stop() {
    for (const auto& listener : listeners_) listener->close();
    for (const auto& session : sessions_) {
      if (const auto alive = session.lock()) alive->close();
    }
    flush();
    flush_timer_.cancel();
  }

 private:
  using Self = std::shared_ptr<Impl>;
  using Socket = std::shared_ptr<TimedSocket>;

  struct Counter {
    explicit Counter(size_t& counted) : count(counted) { ++count; }
    Counter(const Counter&) = delete;
    Counter& operator=(const Counter&) = delete;
    ~Counter() { --count; }
    size_t& count;
  };

  struct Client {
    sockaddr_storage address{};
    socklen_t size = sizeof(sockaddr_storage);
  };

  static asio::awaitable<void> serve_udp(Self self, Socket socket, ResolverView view) {
    std::string buffer(dns::kMaxQuery + 1, '\0');
    while (socket->is_open()) {
      const Result<void> ready = co_await socket->wait_readable();
      if (!ready) {
        if (ready.error().code() != ECANCELED) log::error("dns: listener: " + ready.error().message());
        break;
      }
      for (int i = 0; i < kDatagramsPerTurn; ++i) {
        Client client;
        const ssize_t got = ::recvfrom(socket->fd(), buffer.data(), buffer.size(), MSG_DONTWAIT,
                                       reinterpret_cast<sockaddr*>(&client.address), &client.size);
        // An ICMP error of an earlier answer comes back here: not the listener's end.
        if (got < 0) break;
        if (self->udp_queries_ >= kMaxUdpQueries) continue;
        asio::co_spawn(self->executor_,
                       answer_udp(self, socket, client, std::string(buffer.data(), static_cast<size_t>(got)), view), report);
      }
    }
  }

  static asio::awaitable<void> answer_udp(Self self, Socket socket, Client client, std::string packet, ResolverView view) {
    const Counter counter(self->udp_queries_);
    const std::string response = co_await self->answer(std::move(packet), view, false);
    if (response.empty() || !socket->is_open()) co_return;
    // A full socket buffer drops the answer, as a network would; the client asks again.
    (void)::sendto(socket->fd(), response.data(), response.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
                   reinterpret_cast<const sockaddr*>(&client.address), client.size);
  }

  static asio::awaitable<void> serve_tcp(Self self, Socket listener, ResolverView view) {
    while (listener->is_open()) {
      const Result<void> ready = co_await listener->wait_readable();
      if (!ready) {
        if (ready.error().code() != ECANCELED) log::error("dns: listener: " + ready.error().message());
        break;
      }
      Fd client(::accept4(listener->fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!client.valid()) {
        // Out of descriptors: without a pause this loop would spin.
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) co_await self->pause();
        continue;
      }
      if (self->tcp_sessions_ >= kMaxTcpSessions) continue;
      const auto session = std::make_shared<TimedSocket>(self->executor_);
      if (!session->open(std::move(client))) continue;
      std::erase_if(self->sessions_, [](const auto& other) { return other.expired(); });
      self->sessions_.push_back(session);
      asio::co_spawn(self->executor_, answer_tcp(self, session, view), report);
    }
  }

  asio::awaitable<void> pause() {
    asio::steady_timer timer(executor_, std::chrono::milliseconds(100));
    boost::system::error_code ignored;
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }

  // RFC 7766: several queries may come on one connection; they are answered in order.
  static asio::awaitable<void> answer_tcp(Self self, Socket socket, ResolverView view) {
    const Counter counter(self->tcp_sessions_);
    const CloseAtEnd close_at_end(socket);
    for (;;) {
      socket->set_deadline(Clock::now() + kTcpIdle);
      const Result<std::string> prefix = co_await receive_exactly(socket, 2);
      if (!prefix) co_return;
      const size_t size = static_cast<size_t>(static_cast<unsigned char>((*prefix)[0])) << 8 | static_cast<unsigned char>((*prefix)[1]);
      if (size > dns::kMaxQuery) {
        self->refuse_malformed(std::string(), size);
        co_return;
      }
      const Result<std::string> packet = co_await receive_exactly(socket, size);
      if (!packet) co_return;
      const std::string response = co_await self->answer(*packet, view, true);
      if (response.empty() || !socket->is_open()) co_return;
      std::string framed;
      framed += static_cast<char>(response.size() >> 8);
      framed += static_cast<char>(response.size() & 0xff);
      framed += response;
      socket->set_deadline(Clock::now() + kTcpIdle);
      const Result<void> sent = co_await send_all(socket, std::move(framed));
      if (!sent) co_return;
    }
  }

  // What is known of a query once it is parsed, for its answer and its line.
  struct Asked {
    dns::Query query;
    std::string host;
    size_t size = 0;   // of the query's packet
    size_t limit = 0;  // for the answer
  };

  // The packet to send back; empty for none.
  asio::awaitable<std::string> answer(std::string packet, ResolverView view, bool is_tcp) {
    Asked asked;
    asked.size = packet.size();
    Result<dns::Query> parsed = dns::parse_query(packet);
    if (!parsed) {
      std::string response = dns::build_format_error(packet);
      if (!response.empty()) refuse_malformed(response, packet.size());
      co_return response;
    }
    asked.query = std::move(parsed).value();
    asked.limit = is_tcp ? dns::kMaxMessage : asked.query.udp_size;
    const dns::Query& query = asked.query;
    if (query.opcode != 0) co_return respond(asked, dns::Rcode::kNotImp);
    if (query.qclass != dns::kClassIn) co_return refuse(asked, oci::refuse(policy_, oci::reason::kDnsTypeNotAllowed), dns::Rcode::kRefused);
    // The root itself: what resolvers ask when they try a server.
    if (query.name.empty()) co_return respond(asked, dns::Rcode::kNoError);

    if (const auto address = dns::reverse_address(query.name)) {
      asked.host = query.name;
      co_return co_await answer_reverse(std::move(asked), *address);
    }
    auto host = oci::normalise_host(query.name);
    if (!host) {
      asked.host = query.name;
      co_return refuse(asked, oci::refuse(policy_, oci::reason::kAmbiguousHost), dns::Rcode::kNxDomain);
    }
    asked.host = std::move(host).value();
    if (is_localhost(asked.host)) co_return answer_localhost(asked);
    // An address written as a name is nobody's name.
    if (oci::parse_ip(asked.host)) co_return respond(asked, dns::Rcode::kNxDomain);

    const oci::Verdict verdict = oci::judge_name(policy_, asked.host);
    if (!verdict.allowed) co_return refuse(asked, verdict, dns::Rcode::kNxDomain);
    if (is_refused_type(query.type)) {
      co_return refuse(asked, oci::refuse(policy_, oci::reason::kDnsTypeNotAllowed), dns::Rcode::kRefused);
    }
    // HTTPS and SVCB would bring ECH and other addresses; the rest means nothing to who connects.
    if (query.type != dns::type::kA && query.type != dns::type::kAaaa) co_return respond(asked, dns::Rcode::kNoError);
    co_return co_await answer_address(std::move(asked), verdict, view);
  }

  asio::awaitable<std::string> answer_address(Asked asked, oci::Verdict verdict, ResolverView view) {
    const bool is_ipv6 = asked.query.type == dns::type::kAaaa;
    const bool enforces = policy_.mode == oci::PolicyMode::kEnforce;
    switch (resolver_.admit(asked.host, is_ipv6, view)) {
      case DnsGuard::Answer::kYes: break;
      case DnsGuard::Answer::kLooksLikeData:
        co_return refuse(asked, oci::refuse(policy_, oci::reason::kDnsNameSuspicious), dns::Rcode::kNxDomain);
      case DnsGuard::Answer::kTooFast:
        co_return refuse(asked, oci::refuse(policy_, oci::reason::kDnsRateExceeded), dns::Rcode::kServFail);
    }
    Result<Resolution> resolved = co_await resolver_.query(asked.host, is_ipv6, view);
    if (!resolved) {
      const int code = resolved.error().code();
      if (code != ENOENT && code != EACCES) log::warning("dns: " + resolved.error().message());
      if (verdict.observed) observe(asked, verdict, oci::reason::kOriginUnresolved);
      // EACCES: only loopback and its like, which no policy allows.
      if (code == EACCES && enforces) {
        oci::Verdict never = oci::refuse(policy_, oci::reason::kPrivateAddress);
        co_return refuse(asked, never, dns::Rcode::kNxDomain);
      }
      const bool is_absent = code == ENOENT || code == EACCES;
      co_return respond(asked, is_absent ? dns::Rcode::kNxDomain : dns::Rcode::kServFail, {}, 0,
                        is_absent ? dns::ExtendedError::kNone : dns::ExtendedError::kNoReachableAuthority);
    }
    if (!resolved->verdict.allowed) {
      co_return refuse(asked, resolved->verdict, dns::Rcode::kNxDomain,
                       resolved->refused.empty() ? std::string() : oci::print(resolved->refused.front()));
    }
    if (verdict.observed) observe(asked, verdict, {});
    else if (resolved->verdict.observed) observe(asked, resolved->verdict, {});
    co_return respond(asked, dns::Rcode::kNoError, std::move(resolved->addresses), resolved->ttl_seconds);
  }

  // PTR: loopback's own, and peers that a rule names. All else is not asked of anybody.
  asio::awaitable<std::string> answer_reverse(Asked asked, oci::IpAddress address) {
    if (asked.query.type != dns::type::kPtr) co_return respond(asked, dns::Rcode::kNxDomain);
    dns::Response response;
    if (oci::classify(address) == oci::IpClass::kLoopback) {
      response.pointer = "localhost";
      co_return dns::build_response(asked.query, response, asked.limit);
    }
    const Result<std::string> name = co_await resolver_.peer_name(address);
    if (name && !name->empty()) {
      const std::string_view first_label = std::string_view(*name).substr(0, name->find('.'));
      const bool is_known = oci::judge_name(policy_, *name).allowed || oci::judge_name(policy_, first_label).allowed;
      if (is_known) {
        response.pointer = *name;
        co_return dns::build_response(asked.query, response, asked.limit);
      }
    }
    // Tools ask this for every address they print: no line for those the container had from us.
    if (!resolver_.names_of(address).empty() || policy_.mode == oci::PolicyMode::kObserve) {
      co_return respond(asked, dns::Rcode::kNxDomain);
    }
    co_return refuse(asked, oci::refuse(policy_, oci::reason::kDnsTypeNotAllowed), dns::Rcode::kNxDomain);
  }

  // RFC 6761: never asked of a server.
  static std::string answer_localhost(const Asked& asked) {
    std::vector<oci::IpAddress> addresses;
    if (asked.query.type == dns::type::kA) addresses.push_back(*oci::parse_ip("127.0.0.1"));
    if (asked.query.type == dns::type::kAaaa) addresses.push_back(*oci::parse_ip("::1"));
    return respond(asked, dns::Rcode::kNoError, std::move(addresses), 60);
  }

  static std::string respond(const Asked& asked, dns::Rcode rcode, std::vector<oci::IpAddress> addresses = {},
                             uint32_t ttl_seconds = 0, dns::ExtendedError extended = dns::ExtendedError::kNone) {
    dns::Response response;
    response.rcode = rcode;
    response.addresses = std::move(addresses);
    response.ttl_seconds = ttl_seconds;
    response.extended = extended;
    return dns::build_response(asked.query, response, asked.limit);
  }

  // A refusal and its line. In observe mode what cannot be let through at all is answered the same, and
  // logged as observed.
  std::string refuse(const Asked& asked, const oci::Verdict& verdict, dns::Rcode rcode, const std::string& dst_ip = {}) {
    const std::string text = "blocked by leash: " + std::string(verdict.reason);
    dns::Response response;
    response.rcode = rcode;
    response.extended = dns::ExtendedError::kBlocked;
    response.extended_text = text;
    std::string packet = dns::build_response(asked.query, response, asked.limit);
    if (policy_.mode == oci::PolicyMode::kObserve) {
      observe(asked, verdict, {});
      return packet;
    }
    oci::BlockedEvent event;
    event.reason = verdict.reason;
    event.rule = verdict.rule;
    event.host = asked.host.empty() ? asked.query.name : asked.host;
    event.method = dns::type_name(asked.query.type);
    event.dst_ip = dst_ip;
    event.bytes_up = asked.size;
    event.bytes_down = packet.size();
    block(std::move(event));
    return packet;
  }

  void refuse_malformed(const std::string& response, size_t size) {
    if (policy_.mode == oci::PolicyMode::kObserve) return;
    oci::BlockedEvent event;
    event.reason = oci::reason::kDnsMalformed;
    event.bytes_up = size;
    event.bytes_down = response.size();
    block(std::move(event));
  }

  void block(oci::BlockedEvent event) {
    event.time_us = now_us();
    event.layer = oci::layer::kDns;
    event.scheme = "dns";
    event.port = 53;
    if (suppressed_) {
      event.count += suppressed_->count;
      event.bytes_up += suppressed_->bytes_up;
      event.bytes_down += suppressed_->bytes_down;
    }
    if (lines_.take(Clock::now())) {
      suppressed_.reset();
      log_.blocked(std::move(event));
      return;
    }
    const bool is_first = !suppressed_.has_value();
    suppressed_ = std::move(event);
    if (!is_first) return;
    flush_timer_.expires_after(seconds(1));
    flush_timer_.async_wait([self = weak_from_this()](const boost::system::error_code& stopped) {
      const auto alive = self.lock();
      if (!stopped && alive) alive->flush();
    });
  }

  void flush() {
    if (!suppressed_) return;
    log_.blocked(std::move(*suppressed_));
    suppressed_.reset();
  }

  void observe(const Asked& asked, const oci::Verdict& verdict, std::string_view error) {
    if (!lines_.take(Clock::now())) return;
    oci::FlowEvent event;
    event.time_us = now_us();
    event.observed = true;
    event.reason = verdict.reason;
    event.rule = verdict.rule;
    event.scheme = "dns";
    event.host = asked.host.empty() ? asked.query.name : asked.host;
    event.port = 53;
    event.method = dns::type_name(asked.query.type);
    event.bytes_up = asked.size;
    event.error = error;
    log_.observed(std::move(event));
  }

  asio::any_io_executor executor_;
  const oci::Policy& policy_;
  Resolver& resolver_;
  DnsLog log_;
  TokenBucket lines_{kLinesPerSecond, kLineBurst};
  std::optional<oci::BlockedEvent> suppressed_;  // the latest, with the sums of those before it
  asio::steady_timer flush_timer_;
  std::vector<Socket> listeners_;
  std::vector<std::weak_ptr<TimedSocket>> sessions_;
  size_t udp_queries_ = 0;
  size_t tcp_sessions_ = 0;
};

DnsServer::DnsServer(asio::any_io_executor executor, const oci::Policy& policy, Resolver& resolver, DnsLog log)
    : impl_(std::make_shared<Impl>(std::move(executor), policy, resolver, std::move(log))) {}
DnsServer::~DnsServer() { impl_->stop(); }

Result<void> DnsServer::serve(oci::ListenerKind kind, Fd socket) { return impl_->serve(kind, std::move(socket)); }
void DnsServer::stop() { impl_->stop(); }

}  // namespace leash::proxy
