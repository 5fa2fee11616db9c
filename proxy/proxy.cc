#include "proxy/proxy.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "base/log.h"
#include "base/sys.h"
#include "oci-spec/reasons.h"

namespace leash::proxy {

namespace {

constexpr std::chrono::milliseconds kLogRetry{500};
constexpr size_t kMaxConnections = 4096;
static_assert(kMaxConnections < oci::kInFlightSlots);

// A connection needs a descriptor of its own and one to its origin, and some stay with the pool.
size_t connection_limit() {
  struct rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) < 0) return 256;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
  (void)::getrlimit(RLIMIT_NOFILE, &limit);
  return std::clamp<size_t>(limit.rlim_cur / 4, 64, kMaxConnections);
}

Result<std::unique_ptr<ClientTls>> read_client_tls(const Fd& trust_store) {
  constexpr size_t kMaxBundle = size_t{8} << 20;
  // The shim's descriptor, which an earlier proxy may have read.
  if (::lseek(trust_store.get(), 0, SEEK_SET) < 0) return Error::last_errno("lseek");
  TRY(std::string pem, sys::read_all(trust_store.get(), kMaxBundle));
  return ClientTls::create(std::move(pem));
}

}  // namespace

Proxy::Proxy(asio::io_context& context)
    : context_(context), watchdog_(context), writer_(table_), processes_(context), limit_(connection_limit()), log_timer_(context) {}

Result<std::unique_ptr<Proxy>> Proxy::create(asio::io_context& context, oci::ProxyConfig config, ProxyFiles files,
                                             std::function<void(Log)> ask_for_rotation,
                                             ProcessNames::Ask ask_who) {
  std::unique_ptr<Proxy> proxy(new Proxy(context));
  Result<void> built = proxy->build(config, std::move(files));
  wipe(config.ca_key_pem);
  for (oci::ProxySecret& secret : config.secrets) wipe(secret.value);
  TRY_VOID(std::move(built));
  proxy->writer_.on_full(std::move(ask_for_rotation));
  proxy->processes_.on_ask(std::move(ask_who));
  return proxy;
}

Result<void> Proxy::build(oci::ProxyConfig& config, ProxyFiles files) {
  TRY(policy_, oci::parse_policy(config.policy.source, config.policy.text));
  TRY_VOID(table_.map(std::move(files.in_flight)));
  writer_.open(Log::kFlows, std::move(files.flows), config.flows_seq, policy_.log.max_size);
  writer_.open(Log::kBlocked, std::move(files.blocked), config.blocked_seq, policy_.log.max_size);
  writer_.on_trouble([this] { watch_log(); });
  for (oci::ProxySecret& secret : config.secrets) TRY_VOID(secrets_.add(std::move(secret)));
  TRY(sha256_, DigestMethod::create());
  flows_ = std::make_unique<FlowLog>(writer_, table_,
                                     config.container_name.empty() ? config.container_id : config.container_name);
  dialer_ = std::make_unique<DialerClient>(context_, std::move(files.dialer));
  TRY(ResolverConfig resolver_config, ResolverConfig::from(config, policy_));
  DialUpstream dial = [this](oci::IpAddress address, uint16_t port, bool is_udp) {
    return dialer_->dial(is_udp ? Transport::kUdp : Transport::kTcp, to_asio(address), port, std::chrono::seconds(5));
  };
  resolver_ = std::make_unique<Resolver>(context_.get_executor(), policy_, std::move(resolver_config), std::move(dial));
  TRY(mint_, LeafMint::create(config.ca_certificate_pem, config.ca_key_pem));
  TRY(server_tls_, ServerTls::create(*mint_));
  pool_ = std::make_unique<OriginPool>(context_, watchdog_, *resolver_, *dialer_);
  services_ = std::make_unique<Services>(
      Services{context_, watchdog_, blocks_, policy_, *resolver_, *pool_, *server_tls_, secrets_, *flows_, processes_, sha256_});
  DnsLog dns_log;
  dns_log.blocked = [this](oci::BlockedEvent event) { flows_->write(std::move(event)); };
  dns_log.observed = [this](oci::FlowEvent event) { flows_->write(std::move(event)); };
  dns_ = std::make_unique<DnsServer>(context_.get_executor(), policy_, *resolver_, std::move(dns_log));
  // A trust store without a certificate is told, but no reason not to start: plain HTTP and DNS need none.
  Result<std::unique_ptr<ClientTls>> tls = read_client_tls(files.trust_store);
  if (tls) pool_->set_tls(std::move(tls).value());
  else log::error("trust store: " + tls.error().message());
  return {};
}

void Proxy::watch_log() {
  if (is_watching_log_) return;
  is_watching_log_ = true;
  if (!has_log_trouble_) log::error("the log cannot be written: nothing new is served until it can");
  has_log_trouble_ = true;
  log_timer_.expires_after(kLogRetry);
  log_timer_.async_wait([this](const boost::system::error_code& stopped) {
    is_watching_log_ = false;
    if (stopped) return;
    has_log_trouble_ = !writer_.retry();
    if (has_log_trouble_) watch_log();
  });
}

Result<void> Proxy::listen(const oci::ListenerList& list, std::vector<Fd> sockets) {
  if (list.kinds.size() != sockets.size()) return Error(EPROTO, "listen: not one socket for each listener");
  for (size_t i = 0; i < sockets.size(); ++i) {
    if (list.kinds[i] != oci::ListenerKind::kTcp) {
      TRY_VOID(dns_->serve(list.kinds[i], std::move(sockets[i])));
      continue;
    }
    TRY(std::unique_ptr<Listener> listener, Listener::create(*services_, limit_, std::move(sockets[i])));
    listener->start();
    listeners_.push_back(std::move(listener));
  }
  return {};
}

Result<void> Proxy::set_network(const oci::NetworkFacts& facts) {
  TRY(ResolverNetwork network, ResolverNetwork::from(facts));
  resolver_->set_network(std::move(network));
  return {};
}

void Proxy::report(const oci::RefusedPacket& packet) {
  if (policy_.mode == oci::PolicyMode::kObserve) {
    // Nothing but TCP and DNS can leave, whatever the mode: told as a failure, not as a block.
    oci::FlowEvent event;
    event.state = oci::FlowState::kPassed;
    event.observed = true;
    event.reason = oci::reason::kProtocolNotAllowed;
    event.error = oci::reason::kProtocolNotAllowed;
    event.scheme = packet.protocol;
    event.host = packet.destination;
    event.dst_ip = packet.destination;
    event.port = packet.port;
    flows_->write(std::move(event));
    return;
  }
  oci::BlockedEvent event;
  event.reason = oci::reason::kProtocolNotAllowed;
  event.layer = oci::layer::kIp;
  event.scheme = packet.protocol;
  event.host = packet.destination;
  event.dst_ip = packet.destination;
  event.port = packet.port;
  event.bytes_up = packet.bytes;
  flows_->write(std::move(event));
}

}  // namespace leash::proxy
