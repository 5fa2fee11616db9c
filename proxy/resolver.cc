#include "proxy/resolver.h"

#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <deque>
#include <exception>
#include <list>
#include <optional>
#include <unordered_map>

#include "proxy/asio.h"
#include "proxy/dns_message.h"
#include "proxy/timed_socket.h"

namespace leash::proxy {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kMaxCache = 4096;
constexpr size_t kMaxReverse = 4096;
constexpr size_t kMaxNamesPerAddress = 8;
constexpr size_t kMaxServers = 4;
constexpr size_t kMaxLookups = 256;  // at the same time
constexpr int kMaxAliasQueries = 4;
// glibc and musl give up on a server after 5 s: we answer before that, be it with SERVFAIL.
constexpr milliseconds kDeadline{4500};
constexpr milliseconds kAttempt{1200};
constexpr uint32_t kMinTtl = 1;
constexpr uint32_t kMaxTtl = 300;
constexpr uint32_t kNegativeTtl = 5;
// A peer's address goes to another container when it is restarted.
constexpr uint32_t kPeerTtl = 2;

constexpr std::array<uint8_t, 4> kEngineAddress = {127, 0, 0, 11};

uint64_t random_bits() {
  uint64_t bits = 0;
  // Never fails for so few bytes once the pool is up (getrandom(2)); a shim cannot start before that.
  if (getrandom(&bits, sizeof bits, 0) != static_cast<ssize_t>(sizeof bits)) std::terminate();
  return bits;
}

// DNS 0x20: letters in random case are 20 or so bits more that a forger has to guess.
std::string random_case(std::string name) {
  uint64_t bits = 0;
  int left = 0;
  for (char& c : name) {
    if (c < 'a' || c > 'z') continue;
    if (left == 0) {
      bits = random_bits();
      left = 64;
    }
    if ((bits & 1) != 0) c = static_cast<char>(c - 'a' + 'A');
    bits >>= 1;
    --left;
  }
  return name;
}

Result<ResolverConfig::Server> parse_server(std::string_view text) {
  ResolverConfig::Server server;
  std::string_view address = text;
  std::optional<std::string_view> port;
  if (text.starts_with('[')) {
    const size_t close = text.find(']');
    if (close == std::string_view::npos) return Error("DNS server '" + std::string(text) + "': unclosed bracket");
    address = text.substr(1, close - 1);
    if (close + 1 < text.size() && text[close + 1] == ':') port = text.substr(close + 2);
  } else if (std::count(text.begin(), text.end(), ':') == 1) {
    address = text.substr(0, text.find(':'));
    port = text.substr(text.find(':') + 1);
  }
  // A zone only means something in N1, where the dialer would have to know it.
  const auto parsed = oci::parse_ip(address);
  if (!parsed) return Error("DNS server '" + std::string(text) + "': expected ADDRESS or ADDRESS:PORT");
  server.address = *parsed;
  if (port) {
    const auto [end, error] = std::from_chars(port->data(), port->data() + port->size(), server.port);
    if (error != std::errc() || end != port->data() + port->size() || server.port == 0) {
      return Error("DNS server '" + std::string(text) + "': bad port");
    }
  }
  return server;
}

ResolverConfig::Server engine_server() {
  ResolverConfig::Server server;
  std::copy(kEngineAddress.begin(), kEngineAddress.end(), server.address.bytes.begin());
  return server;
}

bool is_engine(const ResolverConfig::Server& server) { return server.address == engine_server().address; }

// What an upstream said, before policy has its say.
struct Found {
  dns::Rcode rcode = dns::Rcode::kNoError;
  std::vector<oci::IpAddress> addresses;
  std::string pointer;
  bool from_peer_server = false;  // the engine's resolver, or one that is on-link itself (Podman's)
  uint32_t ttl_seconds = 0;
};

}  // namespace

Result<ResolverConfig> ResolverConfig::from(const oci::ProxyConfig& config, const oci::Policy& policy) {
  ResolverConfig result;
  result.has_engine_dns = config.has_engine_dns;
  for (const oci::IpAddress& address : policy.dns.servers) result.servers.push_back({address, 53});
  result.is_chosen_by_policy = !result.servers.empty();
  if (result.is_chosen_by_policy) return result;
  for (const std::string& text : config.dns_servers) {
    TRY(Server server, parse_server(text));
    // Loopback in N1 is not the host's: but for the engine's resolver nothing answers there.
    if (is_engine(server)) result.has_engine_dns = true;
    else if (!oci::is_never_destination(server.address)) result.servers.push_back(server);
  }
  if (result.servers.size() > kMaxServers) result.servers.resize(kMaxServers);
  return result;
}

Result<ResolverNetwork> ResolverNetwork::from(const oci::NetworkFacts& facts) {
  ResolverNetwork network;
  for (const std::string& text : facts.onlink_networks) {
    const auto parsed = oci::parse_network(text);
    if (!parsed) return Error("on-link network '" + text + "': expected ADDRESS/PREFIX");
    network.onlink.push_back(*parsed);
  }
  for (const std::string& text : facts.never_destinations) {
    const auto parsed = oci::parse_ip(text);
    if (!parsed) return Error("never destination '" + text + "': expected an address");
    network.never.push_back(oci::unmapped(*parsed));
  }
  network.has_engine_dns = facts.has_engine_dns;
  return network;
}

class Resolver::Impl : public std::enable_shared_from_this<Resolver::Impl> {
 public:
  Impl(asio::any_io_executor executor, const oci::Policy& policy, ResolverConfig config, DialUpstream dial)
      : executor_(std::move(executor)),
        policy_(policy),
        config_(std::move(config)),
        dial_(std::move(dial)),
        guard_(policy.dns.rate_per_second) {}

  void set_network(ResolverNetwork network) { network_ = std::move(network); }

  Task<Resolution> resolve(std::string host) {
    if (const auto address = oci::parse_ip(host)) {
      Found literal;
      literal.addresses = {oci::unmapped(*address)};
      literal.from_peer_server = true;  // its address was written by the rule's author
      literal.ttl_seconds = kMaxTtl;
      co_return judge(host, literal);
    }
    // The family that N1 has comes first; the other one is only asked for where it could be dialled.
    const bool has_ipv6 = std::any_of(network_.onlink.begin(), network_.onlink.end(), [](const oci::IpNetwork& network) {
      return network.address.is_ipv6 && oci::classify(network.address) != oci::IpClass::kLinkLocal;
    });
    const bool has_ipv4 = !has_ipv6 || std::any_of(network_.onlink.begin(), network_.onlink.end(),
                                                   [](const oci::IpNetwork& network) { return !network.address.is_ipv6; });
    const bool first_family = !has_ipv4;
    const DnsGuard::Answer admitted = admit(host, first_family, ResolverView::kEngine);
    if (admitted != DnsGuard::Answer::kYes) {
      Resolution refused;
      refused.verdict = oci::refuse(policy_, admitted == DnsGuard::Answer::kTooFast ? oci::reason::kDnsRateExceeded
                                                                                    : oci::reason::kDnsNameSuspicious);
      co_return refused;
    }
    Result<Resolution> first = co_await query(host, first_family, ResolverView::kEngine);
    const bool is_enough = first.has_value() && first->verdict.allowed && !first->addresses.empty() && !has_ipv6;
    // NXDOMAIN holds for all types, a server that does not answer does so for all types, too.
    if (is_enough || !first.has_value()) co_return first;
    Result<Resolution> second = co_await query(host, !first_family, ResolverView::kEngine);
    if (!second.has_value()) co_return first->addresses.empty() && first->verdict.allowed ? std::move(second) : std::move(first);
    if (first->addresses.empty()) {
      if (second->addresses.empty() && first->verdict.allowed && second->verdict.allowed) {
        co_return Error(ENOENT, "'" + host + "' has no address");
      }
      co_return second->addresses.empty() && !first->verdict.allowed ? std::move(first) : std::move(second);
    }
    first->addresses.insert(first->addresses.end(), second->addresses.begin(), second->addresses.end());
    co_return first;
  }

  Task<Resolution> query(std::string host, bool is_ipv6, ResolverView view) {
    const bool by_engine = asks_engine(host, view);
    const Result<Found> found = co_await look_up(host, is_ipv6 ? dns::type::kAaaa : dns::type::kA, by_engine);
    if (!found) co_return Error(found.error());
    if (found->rcode == dns::Rcode::kNxDomain) co_return Error(ENOENT, "'" + host + "' does not exist");
    co_return judge(host, *found);
  }

  Task<std::string> peer_name(oci::IpAddress address) {
    const bool is_peer = is_onlink(address) && !is_never(address);
    if (!is_peer) co_return std::string();
    const Result<Found> found = co_await look_up(dns::reverse_name(address), dns::type::kPtr, has_engine_dns());
    if (!found) co_return Error(found.error());
    co_return found->from_peer_server ? found->pointer : std::string();
  }

  [[nodiscard]] DnsGuard::Answer admit(const std::string& host, bool is_ipv6, ResolverView view) {
    // Observe mode refuses nothing that could pass.
    if (policy_.mode == oci::PolicyMode::kObserve) return DnsGuard::Answer::kYes;
    const auto entry = cache_.find(key(host, is_ipv6 ? dns::type::kAaaa : dns::type::kA, asks_engine(host, view)));
    if (entry != cache_.end() && entry->second.expires > Clock::now()) return DnsGuard::Answer::kYes;
    return guard_.may_look_up(host, oci::free_labels(policy_, host), Clock::now());
  }

  void remember(const std::string& host, const std::vector<oci::IpAddress>& addresses) {
    for (const oci::IpAddress& address : addresses) {
      auto [entry, is_new] = reverse_.try_emplace(oci::print(address));
      if (is_new) {
        reverse_order_.push_back(entry->first);
        if (reverse_order_.size() > kMaxReverse) {
          reverse_.erase(reverse_order_.front());
          reverse_order_.pop_front();
        }
      }
      std::vector<std::string>& names = entry->second;
      std::erase(names, host);
      names.insert(names.begin(), host);
      if (names.size() > kMaxNamesPerAddress) names.pop_back();
    }
  }

  [[nodiscard]] std::vector<std::string> names_of(const oci::IpAddress& address) const {
    const auto entry = reverse_.find(oci::print(oci::unmapped(address)));
    return entry == reverse_.end() ? std::vector<std::string>() : entry->second;
  }

 private:
  struct CacheEntry {
    Found found;
    Clock::time_point expires;
    std::list<std::string>::iterator place;  // in order_
  };
  // A lookup under way and those who wait for it.
  struct Pending {
    explicit Pending(const asio::any_io_executor& executor) : done(executor) { done.expires_at(Clock::time_point::max()); }
    asio::steady_timer done;
    std::optional<Result<Found>> result;
  };

  static std::string key(const std::string& host, uint16_t qtype, bool by_engine) {
    return host + (by_engine ? "/e" : "/o") + std::to_string(qtype);
  }

  [[nodiscard]] bool has_engine_dns() const { return config_.has_engine_dns || network_.has_engine_dns; }

  [[nodiscard]] bool asks_engine(const std::string& host, ResolverView view) const {
    if (!has_engine_dns()) return false;
    if (config_.servers.empty()) return true;
    if (view == ResolverView::kOther) return false;
    // With servers of the policy's choice the engine is only asked for what they cannot know: peers.
    return !config_.is_chosen_by_policy || host.find('.') == std::string::npos;
  }

  [[nodiscard]] bool is_onlink(const oci::IpAddress& address) const {
    return std::any_of(network_.onlink.begin(), network_.onlink.end(),
                       [&](const oci::IpNetwork& network) { return network.contains(address); });
  }
  [[nodiscard]] bool is_never(const oci::IpAddress& address) const {
    const oci::IpAddress plain = oci::unmapped(address);
    return oci::is_never_destination(address) ||
           std::find(network_.never.begin(), network_.never.end(), plain) != network_.never.end();
  }

  // Keeps the addresses that may be dialled. Nothing of what is refused is told to anybody but the log.
  Result<Resolution> judge(const std::string& host, const Found& found) {
    Resolution resolution;
    resolution.ttl_seconds = found.ttl_seconds;
    resolution.verdict.allowed = true;
    std::optional<oci::Verdict> refusal;
    bool has_never = false;
    for (const oci::IpAddress& address : found.addresses) {
      if (is_never(address)) {
        has_never = true;
        resolution.refused.push_back(address);
        continue;
      }
      oci::Verdict verdict = oci::judge_address(policy_, host, address);
      // A peer is only reached by what the engine's own resolver says: whoever runs a public zone must
      // not be able to point a name at a neighbour.
      const bool is_private = oci::classify(address) != oci::IpClass::kPublic;
      if (verdict.allowed && !verdict.observed && is_private && is_onlink(address) && !found.from_peer_server &&
          !policy_.allow_private) {
        verdict = oci::refuse(policy_, oci::reason::kPrivateAddress);
      }
      if (!verdict.allowed) {
        refusal = verdict;
        resolution.refused.push_back(address);
        continue;
      }
      if (verdict.observed) resolution.verdict = verdict;
      resolution.addresses.push_back(address);
    }
    if (resolution.addresses.empty()) {
      if (refusal) resolution.verdict = *refusal;
      else if (has_never) return Error(EACCES, "'" + host + "' leads to an address that is never a destination");
    }
    if (refusal || has_never) resolution.ttl_seconds = std::min(resolution.ttl_seconds, kNegativeTtl);
    return resolution;
  }

  Task<Found> look_up(std::string host, uint16_t qtype, bool by_engine) {
    const std::string cache_key = key(host, qtype, by_engine);
    if (const auto entry = cache_.find(cache_key); entry != cache_.end()) {
      const auto left = std::chrono::duration_cast<seconds>(entry->second.expires - Clock::now()).count();
      if (entry->second.expires > Clock::now()) {
        order_.splice(order_.end(), order_, entry->second.place);
        Found found = entry->second.found;
        found.ttl_seconds = static_cast<uint32_t>(std::max<int64_t>(left, kMinTtl));
        co_return found;
      }
      forget(entry);
    }
    if (const auto other = pending_.find(cache_key); other != pending_.end()) {
      const std::shared_ptr<Pending> pending = other->second;
      boost::system::error_code ignored;
      co_await pending->done.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
      if (!pending->result) co_return Error(ECANCELED, "DNS lookup of '" + host + "' was given up");
      co_return *pending->result;
    }
    if (pending_.size() >= kMaxLookups) co_return Error(EAGAIN, "too many DNS lookups at the same time");

    const auto pending = std::make_shared<Pending>(executor_);
    pending_.emplace(cache_key, pending);
    // Whatever way this frame ends, those who wait are woken.
    struct Wake {
      Impl& self;
      const std::string& name;
      Pending& pending;
      ~Wake() {
        self.pending_.erase(name);
        pending.done.cancel();
      }
    } wake{*this, cache_key, *pending};

    Result<Found> found = co_await ask_all(host, qtype, by_engine);
    if (found) store(cache_key, *found);
    pending->result = found;
    co_return found;
  }

  void forget(std::unordered_map<std::string, CacheEntry>::iterator entry) {
    order_.erase(entry->second.place);
    cache_.erase(entry);
  }

  void store(const std::string& cache_key, const Found& found) {
    if (const auto entry = cache_.find(cache_key); entry != cache_.end()) forget(entry);
    while (cache_.size() >= kMaxCache) forget(cache_.find(order_.front()));
    order_.push_back(cache_key);
    cache_.emplace(cache_key, CacheEntry{found, Clock::now() + seconds(found.ttl_seconds), std::prev(order_.end())});
  }

  // Two rounds over the servers, within one deadline.
  Task<Found> ask_all(std::string host, uint16_t qtype, bool by_engine) {
    std::vector<ResolverConfig::Server> servers = config_.servers;
    if (by_engine) servers = {engine_server()};
    if (servers.empty()) co_return Error(ENETUNREACH, "there is no DNS server");
    const Clock::time_point deadline = Clock::now() + kDeadline;
    Error last(ETIMEDOUT, "no DNS server answered for '" + host + "'");
    for (int round = 0; round < 2; ++round) {
      for (const ResolverConfig::Server& server : servers) {
        if (Clock::now() >= deadline) co_return last;
        Result<Found> found = co_await ask_with_aliases(server, host, qtype, deadline);
        if (!found) {
          last = found.error();
          continue;
        }
        if (found->rcode == dns::Rcode::kNoError || found->rcode == dns::Rcode::kNxDomain) co_return found;
        last = Error(EIO, "DNS server " + oci::print(server.address) + " failed for '" + host + "'");
      }
    }
    co_return last;
  }

  // Follows a CNAME whose target the server left to us.
  Task<Found> ask_with_aliases(ResolverConfig::Server server, std::string host, uint16_t qtype, Clock::time_point deadline) {
    Found found;
    found.from_peer_server = is_engine(server) || is_onlink(server.address);
    uint32_t ttl = kMaxTtl;
    std::string name = host;
    for (int step = 0; step < kMaxAliasQueries; ++step) {
      const Result<dns::Answer> answer = co_await ask(server, name, qtype, deadline);
      if (!answer) co_return Error(answer.error());
      found.rcode = answer->rcode;
      found.addresses = answer->addresses;
      found.pointer = answer->pointer;
      if (answer->ttl_seconds != 0 || !answer->addresses.empty()) ttl = std::min(ttl, answer->ttl_seconds);
      const bool is_done = !answer->addresses.empty() || answer->canonical == name || answer->rcode != dns::Rcode::kNoError;
      if (is_done) break;
      // A target that is no host's name is not asked for.
      auto target = oci::normalise_host(answer->canonical);
      if (!target || oci::parse_ip(*target)) break;
      name = std::move(target).value();
    }
    const bool has_answer = !found.addresses.empty() || !found.pointer.empty();
    const bool has_peer = std::any_of(found.addresses.begin(), found.addresses.end(), [this](const oci::IpAddress& a) { return is_onlink(a); });
    found.ttl_seconds = !has_answer ? kNegativeTtl : std::clamp(ttl, kMinTtl, has_peer ? kPeerTtl : kMaxTtl);
    co_return found;
  }

  Task<dns::Answer> ask(ResolverConfig::Server server, std::string name, uint16_t qtype, Clock::time_point deadline) {
    // The engine's resolver is in the same kernel: nobody can forge its answers, and it compares names
    // letter by letter in some versions.
    const bool mixes_case = !is_engine(server);
    const std::string asked = mixes_case ? random_case(name) : name;
    const auto id = static_cast<uint16_t>(random_bits());
    CO_TRY(const std::string packet, dns::build_query(id, asked, qtype));
    const Clock::time_point attempt = std::min(deadline, Clock::now() + kAttempt);

    Result<Fd> socket = co_await dial_(server.address, server.port, true);
    if (!socket) co_return Error(std::move(socket).error());
    const auto exchange = std::make_shared<TimedSocket>(executor_);
    CO_TRY_VOID(exchange->open(std::move(socket).value()));
    exchange->set_deadline(attempt);
    const CloseAtEnd close_at_end{exchange};
    const Result<void> sent = co_await send_all(exchange, packet);
    CO_TRY_VOID(sent);

    bool wants_tcp = false;
    std::string buffer(dns::kMaxMessage, '\0');
    while (!wants_tcp) {
      const ssize_t got = ::recv(exchange->fd(), buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (got < 0) {
        if (errno != EAGAIN && errno != EINTR) co_return Error::last_errno("receive from the DNS server");
        const Result<void> ready = co_await exchange->wait_readable();
        CO_TRY_VOID(ready);
        continue;
      }
      const std::string_view received(buffer.data(), static_cast<size_t>(got));
      Result<dns::Answer> answer = dns::parse_answer(received, id, asked, qtype, mixes_case);
      if (answer && !answer->is_truncated) co_return answer;
      // A server that does not keep the case may be an honest one: TCP settles it. Anything else is not
      // for us, and we go on waiting.
      const Result<dns::Answer> relaxed = dns::parse_answer(received, id, asked, qtype, false);
      wants_tcp = relaxed.has_value();
    }
    exchange->close();
    co_return co_await ask_by_tcp(server, id, packet, name, qtype, deadline);
  }

  Task<dns::Answer> ask_by_tcp(ResolverConfig::Server server, uint16_t id, std::string packet, std::string name, uint16_t qtype,
                               Clock::time_point deadline) {
    Result<Fd> socket = co_await dial_(server.address, server.port, false);
    if (!socket) co_return Error(std::move(socket).error());
    const auto exchange = std::make_shared<TimedSocket>(executor_);
    CO_TRY_VOID(exchange->open(std::move(socket).value()));
    exchange->set_deadline(deadline);
    const CloseAtEnd close_at_end{exchange};
    std::string framed;
    framed += static_cast<char>(packet.size() >> 8);
    framed += static_cast<char>(packet.size() & 0xff);
    framed += packet;
    const Result<void> sent = co_await send_all(exchange, std::move(framed));
    CO_TRY_VOID(sent);
    const Result<std::string> prefix = co_await receive_exactly(exchange, 2);
    if (!prefix) co_return Error(prefix.error());
    const size_t size = static_cast<size_t>(static_cast<unsigned char>((*prefix)[0])) << 8 | static_cast<unsigned char>((*prefix)[1]);
    const Result<std::string> message = co_await receive_exactly(exchange, size);
    if (!message) co_return Error(message.error());
    Result<dns::Answer> answer = dns::parse_answer(*message, id, name, qtype, false);
    if (answer && answer->is_truncated) co_return Error(EBADMSG, "DNS server truncates over TCP");
    co_return answer;
  }

  asio::any_io_executor executor_;
  const oci::Policy& policy_;
  ResolverConfig config_;
  ResolverNetwork network_;
  DialUpstream dial_;
  DnsGuard guard_;
  std::unordered_map<std::string, CacheEntry> cache_;
  std::list<std::string> order_;  // keys of cache_, least recently used first
  std::unordered_map<std::string, std::shared_ptr<Pending>> pending_;
  std::unordered_map<std::string, std::vector<std::string>> reverse_;
  std::deque<std::string> reverse_order_;
};

Resolver::Resolver(asio::any_io_executor executor, const oci::Policy& policy, ResolverConfig config, DialUpstream dial)
    : impl_(std::make_shared<Impl>(std::move(executor), policy, std::move(config), std::move(dial))) {}
Resolver::~Resolver() = default;

void Resolver::set_network(ResolverNetwork network) { impl_->set_network(std::move(network)); }

// The wrappers are coroutines of their own so that the Impl lives as long as the lookup.
asio::awaitable<Result<Resolution>> Resolver::resolve(std::string host) {
  const std::shared_ptr<Impl> impl = impl_;
  co_return co_await impl->resolve(std::move(host));
}

asio::awaitable<Result<Resolution>> Resolver::query(std::string host, bool is_ipv6, ResolverView view) {
  const std::shared_ptr<Impl> impl = impl_;
  Result<Resolution> resolution = co_await impl->query(host, is_ipv6, view);
  if (resolution) impl->remember(host, resolution->addresses);
  co_return resolution;
}

asio::awaitable<Result<std::string>> Resolver::peer_name(oci::IpAddress address) {
  const std::shared_ptr<Impl> impl = impl_;
  co_return co_await impl->peer_name(address);
}

DnsGuard::Answer Resolver::admit(const std::string& host, bool is_ipv6, ResolverView view) {
  return impl_->admit(host, is_ipv6, view);
}

std::vector<std::string> Resolver::names_of(const oci::IpAddress& address) const { return impl_->names_of(address); }

}  // namespace leash::proxy
