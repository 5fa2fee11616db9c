#include "proxy/client_connection.h"

#include <linux/netfilter_ipv4.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "oci-spec/host_pattern.h"
#include "oci-spec/reasons.h"
#include "oci-spec/rules.h"
#include "proxy/tunnel.h"

namespace leash::proxy {

namespace {

// A client of an inspected port speaks first; a server-first protocol would wait here for ever.
constexpr std::chrono::seconds kFirstByteTimeout{20};
// Where no rule could allow a server that speaks first: the wait is for a head that can be answered in words.
constexpr std::chrono::seconds kUnruledPortTimeout{1};
constexpr std::chrono::seconds kHelloTimeout{5};
constexpr std::chrono::seconds kHandshakeTimeout{15};
constexpr std::chrono::seconds kHeadTimeout{20};      // from its first byte: slowloris
constexpr std::chrono::minutes kKeepAliveTimeout{5};  // between requests, or before the first
// A line waits this long for the client's close, so that its bytes are in it too.
constexpr std::chrono::milliseconds kLineDelay{400};
constexpr std::chrono::seconds kLingerTimeout{2};
constexpr size_t kMaxLinger = size_t{64} << 20;  // of an upload that was refused

// A process that is refused may be gone at once, and so may its line be written: this long it may take to find it.
constexpr std::chrono::milliseconds kProcessTime{5};

constexpr int kIp6OriginalDestination = 80;  // IP6T_SO_ORIGINAL_DST; its header does not stand alone

// Where the client meant to go, before the lock-in's redirect.
bool original_destination(int fd, oci::IpAddress& address, uint16_t& port) {
  struct sockaddr_storage storage = {};
  socklen_t length = sizeof storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &length) < 0) return false;
  if (storage.ss_family == AF_INET) {
    struct sockaddr_in v4 = {};
    length = sizeof v4;
    if (::getsockopt(fd, SOL_IP, SO_ORIGINAL_DST, &v4, &length) < 0) return false;
    address.is_ipv6 = false;
    std::memcpy(address.bytes.data(), &v4.sin_addr, 4);
    port = ntohs(v4.sin_port);
    return true;
  }
  struct sockaddr_in6 v6 = {};
  length = sizeof v6;
  if (::getsockopt(fd, SOL_IPV6, kIp6OriginalDestination, &v6, &length) < 0) return false;
  address.is_ipv6 = true;
  std::memcpy(address.bytes.data(), &v6.sin6_addr, 16);
  port = ntohs(v6.sin6_port);
  return true;
}

bool peer_of(int fd, oci::IpAddress& address, uint16_t& port) {
  struct sockaddr_storage storage = {};
  socklen_t length = sizeof storage;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &length) < 0) return false;
  address.is_ipv6 = storage.ss_family == AF_INET6;
  if (address.is_ipv6) {
    struct sockaddr_in6 v6 = {};
    std::memcpy(&v6, &storage, sizeof v6);
    std::memcpy(address.bytes.data(), &v6.sin6_addr, 16);
    port = ntohs(v6.sin6_port);
  } else {
    struct sockaddr_in v4 = {};
    std::memcpy(&v4, &storage, sizeof v4);
    std::memcpy(address.bytes.data(), &v4.sin_addr, 4);
    port = ntohs(v4.sin_port);
  }
  return true;
}

enum class Guess { kMore, kHttp, kOther };

// "METHOD " in letters: enough to tell HTTP from SSH, SMTP replies or a file. Lower case too, so that
// "get /" gets a 400 that says so.
Guess guess_http(std::string_view bytes) {
  constexpr size_t kLongestMethod = 20;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const char c = bytes[i];
    if (c == ' ') return i > 0 ? Guess::kHttp : Guess::kOther;
    const bool letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' || c == '_';
    if (!letter || i >= kLongestMethod) return Guess::kOther;
  }
  return Guess::kMore;
}

}  // namespace

ClientConnection::ClientConnection(Services& services, Fd socket)
    : services_(services), client_(services.context, services.watchdog, std::move(socket)), in_(services.blocks), process_(services.processes) {}

void ClientConnection::ask_for_process() {
  oci::WhoRequest request;
  oci::IpAddress source;
  if (!peer_of(client_.fd(), source, request.source_port)) return;
  request.source = oci::print(oci::unmapped(source));
  request.destination = oci::print(destination_);
  request.destination_port = facts_.port;
  process_.ask(std::move(request));
}

bool ClientConnection::begin_flow() {
  // The first flow has all bytes of the connection so far, each later one what came since.
  const uint64_t up = flow_.first_up + flow_.event.bytes_up;
  const uint64_t down = flow_.first_down + flow_.event.bytes_down;
  if (!services_.flows.begin(flow_, up, down)) return false;
  flow_.event.host = facts_.name;
  flow_.event.sni = facts_.sni;
  flow_.event.port = facts_.port;
  flow_.event.scheme = facts_.is_tls ? "https" : "http";
  return true;
}

void ClientConnection::end_flow() {
  if (flow_.slot == nullptr) return;
  flow_.event.process = process_.text();
  services_.flows.end(flow_, client_.bytes_received(), client_.bytes_sent());
}

asio::awaitable<void> ClientConnection::run() {
  if (!client_.is_open() || !begin_flow()) {
    client_.close(true);
    co_return;
  }
  const int on = 1;
  (void)::setsockopt(client_.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  (void)::setsockopt(client_.fd(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  oci::FlowEvent& event = flow_.event;
  if (!original_destination(client_.fd(), destination_, facts_.port)) {
    // Somebody talks to the listener itself: there is nowhere to go.
    event.scheme = "tcp";
    flow_.refuse(services_.policy, oci::reason::kUnknownProtocol, oci::layer::kTcp);
    client_.close(true);
    end_flow();
    co_return;
  }
  destination_ = oci::unmapped(destination_);
  ask_for_process();
  event.port = facts_.port;
  event.scheme = "tcp";
  const std::vector<std::string> names = services_.resolver.names_of(destination_);
  event.host = names.empty() ? oci::print(destination_) : names.front();
  event.dst_ip = oci::print(destination_);
  FlowLog::publish(flow_);

  std::string plain_name;
  const oci::Verdict plain = oci::judge_plain(services_.policy, names, destination_, facts_.port, &plain_name);
  const bool may_tunnel = plain.allowed && !plain.inspect && !plain.observed;
  if (plain_name.empty()) plain_name = oci::print(destination_);
  // On 443 several names may share the address, and the ClientHello says which is meant. Elsewhere the
  // server may be the one that speaks first.
  if (may_tunnel && facts_.port != 443) {
    event.rule = plain.rule;
    co_await tunnel(plain_name, plain.pass_reason);
  } else {
    const Protocol protocol = co_await sniff();
    if (protocol == Protocol::kClosed) {
      // A port probe: nothing was asked, so the line says what would have been answered.
      flow_.judge(oci::judge_connect(services_.policy, event.host, facts_.port), oci::layer::kTcp);
      event.error = oci::reason::kClientClosed;
    } else if (protocol == Protocol::kTls && !(may_tunnel && hello_.server_name.empty())) {
      co_await serve_tls();
    } else if (protocol == Protocol::kHttp && !may_tunnel) {
      facts_.is_tls = false;
      event.scheme = "http";
      event.dst_ip.clear();
      co_await serve_requests();
    } else if (may_tunnel) {
      event.rule = plain.rule;
      co_await tunnel(plain_name, plain.pass_reason);
    } else {
      co_await refuse_unknown(oci::reason::kUnknownProtocol, oci::layer::kTcp);
    }
  }
  // While its socket is there it can be found.
  if (flow_.is_blocked) co_await process_.wait(kProcessTime);
  if (reset_) client_.close(true);
  co_await linger();
  client_.close();
  // Bytes after the last line (a late close_notify) get one of their own.
  if (flow_.slot == nullptr && client_.bytes_received() + client_.bytes_sent() >
                                   flow_.first_up + flow_.event.bytes_up + flow_.first_down + flow_.event.bytes_down) {
    const bool has_slot = begin_flow();
    if (!has_slot) co_return;
  }
  if (flow_.slot != nullptr) co_await process_.wait(kProcessTime);
  end_flow();
}

asio::awaitable<ClientConnection::Protocol> ClientConnection::sniff() {
  Clock::time_point deadline = Clock::now();
  if (oci::is_ruled_port(services_.policy, facts_.port)) {
    deadline += kFirstByteTimeout;
  } else {
    deadline += kUnruledPortTimeout;
  }
  for (;;) {
    const Result<void> ready = co_await client_.wait_readable(deadline);
    if (!ready || in_.is_stuck()) co_return Protocol::kUnknown;
    const std::span<char> room = in_.room();
    const Result<size_t> got = co_await client_.read_some(room, deadline);
    if (!got || *got == 0) co_return in_.empty() ? Protocol::kClosed : Protocol::kUnknown;
    if (in_.empty()) deadline = Clock::now() + kHelloTimeout;
    in_.filled(*got);
    FlowLog::count(flow_, client_.bytes_received(), client_.bytes_sent());
    if (in_.view().front() == 22) {
      const HelloStatus status = parse_client_hello(in_.view(), hello_);
      if (status == HelloStatus::kComplete) co_return Protocol::kTls;
      if (status == HelloStatus::kMalformed) co_return Protocol::kUnknown;
      continue;
    }
    const Guess guess = guess_http(in_.view());
    if (guess == Guess::kHttp) co_return Protocol::kHttp;
    if (guess == Guess::kOther) co_return Protocol::kUnknown;
  }
}

asio::awaitable<void> ClientConnection::refuse_unknown(std::string_view reason, std::string_view layer) {
  const oci::Verdict verdict = oci::refuse(services_.policy, reason);
  flow_.judge(verdict, layer);
  if (!verdict.allowed) {
    reset_ = true;
    co_return;
  }
  // Observe mode: passed on to where it would have gone, by name if DNS gave one.
  co_await tunnel(flow_.event.host, reason);
}

asio::awaitable<void> ClientConnection::tunnel(std::string host, std::string_view pass_reason) {
  flow_.event.state = oci::FlowState::kPassed;
  if (flow_.event.reason.empty()) flow_.event.reason = pass_reason;
  flow_.event.host = host;
  FlowLog::publish(flow_);
  Tunnel passing(services_, client_, flow_, std::move(host), facts_.port);
  std::string first(in_.view());
  in_.consume(in_.size());
  in_.release();
  co_await passing.run(std::move(first));
}

asio::awaitable<void> ClientConnection::serve_tls() {
  facts_.is_tls = true;
  facts_.sni = hello_.server_name;
  oci::FlowEvent& event = flow_.event;
  event.scheme = "https";
  event.sni = facts_.sni;
  oci::Verdict verdict;
  if (facts_.sni.empty()) {
    // The name is then the address, if a rule names it.
    facts_.name = oci::print(destination_);
    verdict = oci::judge_connect(services_.policy, facts_.name, facts_.port);
    if (!verdict.allowed || verdict.observed) facts_.refusal = oci::reason::kNoName;
  } else {
    const Result<std::string> name = oci::normalise_host(facts_.sni);
    // An address is no server name (RFC 6066 section 3).
    if (!name || oci::parse_ip(*name)) {
      event.host = facts_.sni;
      co_await refuse_unknown(oci::reason::kAmbiguousHost, oci::layer::kTls);
      co_return;
    }
    facts_.name = *name;
    verdict = oci::judge_connect(services_.policy, facts_.name, facts_.port);
  }
  event.host = facts_.name;
  // Of an allowed flow the line says what was dialled; of a refused one, what the client wanted.
  if (verdict.allowed) event.dst_ip.clear();
  FlowLog::publish(flow_);
  if (!facts_.refusal.empty() && verdict.observed) {
    // Without a name there is nothing that the origin's certificate could be checked against.
    flow_.judge(oci::refuse(services_.policy, facts_.refusal), oci::layer::kTls);
    co_await tunnel(facts_.name, facts_.refusal);
    co_return;
  }
  if (verdict.allowed && !verdict.inspect) {
    event.scheme = "tls";
    event.rule = verdict.rule;
    co_await tunnel(facts_.name, verdict.pass_reason);
    co_return;
  }
  if (verdict.allowed) {
    // Before our leaf vouches for the name, the origin has.
    Origin origin{facts_.name, facts_.port, true};
    facts_.failure = co_await services_.pool.probe(std::move(origin));
  } else {
    event.rule = verdict.rule;
  }
  std::string replay(in_.view());
  in_.consume(in_.size());
  in_.release();
  Result<void> done = client_.start_tls(services_.server_tls.context(), std::move(replay));
  if (done) {
    services_.server_tls.set_name(client_.ssl(), facts_.name);
    done = co_await client_.accept_tls(Clock::now() + kHandshakeTimeout);
  }
  if (!done) {
    if (!verdict.allowed) flow_.judge(verdict, oci::layer::kTls);
    handshake_failed(done.error());
    co_return;
  }
  co_await serve_requests();
  // Nothing was asked: the line still says what policy thinks of the name.
  if (flow_.slot != nullptr && flow_.event.method.empty() && !verdict.allowed && !flow_.is_blocked) {
    flow_.judge(facts_.refusal.empty() ? verdict : oci::refuse(services_.policy, facts_.refusal), oci::layer::kTls);
  }
}

void ClientConnection::handshake_failed(const Error& error) {
  if (flow_.is_blocked) return;
  const bool speaks_http1 = hello_.alpn.empty() || std::find(hello_.alpn.begin(), hello_.alpn.end(), "http/1.1") != hello_.alpn.end();
  if (!speaks_http1) {
    flow_.refuse(services_.policy, oci::reason::kUnknownProtocol, oci::layer::kTls);
    return;
  }
  // An alert, or a close in the middle, after it has seen our certificate.
  const bool is_close = error.code() == Stream::kTruncated || error.code() == ECONNRESET || error.code() == EPIPE;
  const bool is_alert = error.code() == Stream::kTlsError && error.message().find("alert") != std::string::npos;
  if ((is_close || is_alert) && client_.bytes_sent() > 0) {
    flow_.refuse(services_.policy, oci::reason::kClientRefusedCa, oci::layer::kTls);
    return;
  }
  if (error.code() == ETIMEDOUT) {
    flow_.event.error = oci::reason::kTimeout;
  } else if (is_close) {
    flow_.event.error = oci::reason::kClientClosed;
  } else {
    flow_.refuse(services_.policy, oci::reason::kUnknownProtocol, oci::layer::kTls);
  }
}

// True when bytes of a request are there.
asio::awaitable<bool> ClientConnection::wait_for_request() {
  if (!in_.empty()) co_return true;
  in_.release();
  if (flow_.slot != nullptr && !flow_.event.method.empty()) {
    // The last line waits a little: what the client sends next, or its close, comes mostly at once.
    const Result<void> ready = co_await client_.wait_readable(Clock::now() + kLineDelay);
    if (ready) co_return true;
    if (ready.error().code() != ETIMEDOUT) co_return false;
    end_flow();
  }
  const Result<void> ready = co_await client_.wait_readable(Clock::now() + kKeepAliveTimeout);
  co_return ready.has_value();
}

// The first head of a connection has been begun by sniff() if it is plain HTTP. False: no request came.
asio::awaitable<bool> ClientConnection::read_head(size_t& length, HeadProblem& problem) {
  HeadScanner scanner;
  length = 0;
  const Clock::time_point deadline = Clock::now() + kHeadTimeout;
  for (;;) {
    const HeadStatus status = in_.empty() ? HeadStatus::kIncomplete : scanner.scan(in_.view(), length, problem);
    if (status == HeadStatus::kComplete) co_return true;
    if (status == HeadStatus::kBad) {
      length = 0;
      co_return true;
    }
    if (!in_.empty() && guess_http(in_.view()) == Guess::kOther) {
      // Another protocol within TLS (DNS, say) may be waiting for our answer: not for the deadline.
      problem = {400, "bad request line"};
      length = 0;
      co_return true;
    }
    if (in_.is_stuck()) {
      problem = {431, "too many large heads at the same time"};
      length = 0;
      co_return true;
    }
    const std::span<char> room = in_.room();
    const Result<size_t> got = co_await client_.read_some(room, deadline);
    if (!got || *got == 0) co_return false;
    in_.filled(*got);
  }
}

asio::awaitable<void> ClientConnection::serve_requests() {
  for (;;) {
    const bool is_there = co_await wait_for_request();
    if (!is_there) break;
    size_t length = 0;
    HeadProblem problem;
    const bool has_head = co_await read_head(length, problem);
    // Nothing but the client's close: it belongs to the line before.
    if (!has_head && in_.empty()) break;
    if (flow_.slot == nullptr || !flow_.event.method.empty()) {
      end_flow();
      if (!begin_flow()) break;
    }
    if (!has_head) {
      flow_.event.error = oci::reason::kClientClosed;
      break;
    }
    if (!services_.flows.is_healthy()) {
      // Its line could not be written: nothing is forwarded that would leave no trace.
      flow_.event.error = oci::reason::kLogUnavailable;
      reset_ = true;
      break;
    }
    Exchange exchange(services_, client_, in_, facts_, flow_);
    if (length == 0) {
      co_await exchange.refuse_malformed(problem);
      break;
    }
    const bool keep = co_await exchange.run(length);
    reset_ = exchange.must_reset();
    if (!keep) break;
  }
}

// Closing with unread bytes makes the kernel send a reset, which may destroy the answer that is on its
// way: so say goodbye, and read on for a moment.
asio::awaitable<void> ClientConnection::linger() {
  if (!client_.is_open()) co_return;
  client_.finish();
  const Clock::time_point deadline = Clock::now() + kLingerTimeout;
  size_t total = 0;
  while (total < kMaxLinger) {
    Result<void> ready = co_await client_.wait_readable(deadline);
    if (!ready) break;
    in_.consume(in_.size());
    const std::span<char> room = in_.room();
    const Result<size_t> got = co_await client_.read_some(room, deadline);
    if (!got || *got == 0) break;
    total += *got;
  }
}

}  // namespace leash::proxy
