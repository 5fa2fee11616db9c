// The DNS listeners and the resolver behind them, over real sockets on loopback: a resolver of a few
// lines plays the world, a blocking client the container.
#include "proxy/dns_server.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>

#include <atomic>
#include <chrono>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "base/sys.h"
#include "oci-spec/reasons.h"
#include "proxy/asio.h"
#include "proxy/dns_message.h"
#include "tests/unit/catch.h"

namespace leash::proxy {
namespace {

using namespace std::chrono_literals;

struct Bound {
  Fd fd;
  uint16_t port = 0;
};

Bound bind_loopback(int type) {
  Bound bound;
  bound.fd = sys::socket(AF_INET, type, 0).value();
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  REQUIRE(::bind(bound.fd.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  if (type == SOCK_STREAM) REQUIRE(::listen(bound.fd.get(), 16) == 0);
  REQUIRE(::getsockname(bound.fd.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  bound.port = ntohs(address.sin_port);
  return bound;
}

Fd connect_loopback(int type, uint16_t port) {
  Fd fd = sys::socket(AF_INET, type, 0).value();
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return Fd();
  const timeval timeout{10, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  return fd;
}

std::string u16(unsigned value) { return {static_cast<char>(value >> 8), static_cast<char>(value & 0xff)}; }

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// Answers from a table, over UDP and TCP, in a thread of its own.
class World {
 public:
  struct Zone {
    std::map<std::string, std::vector<std::string>> addresses;  // by name
    uint32_t ttl = 60;
    bool truncates = false;
    bool lowers_case = false;
    bool forges_first = false;  // sends two answers with a wrong id and a wrong case before the right one
    bool is_silent = false;
  };

  explicit World(Zone zone) : zone_(std::move(zone)), udp_(bind_loopback(SOCK_DGRAM)), thread_([this] { run(); }) {
    // TCP on the same port number.
    tcp_.fd = sys::socket(AF_INET, SOCK_STREAM, 0).value();
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(udp_.port);
    if (::bind(tcp_.fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) ::listen(tcp_.fd.get(), 16);
    tcp_ready_ = tcp_.fd.get();
  }
  ~World() {
    stopped_ = true;
    thread_.join();
  }

  [[nodiscard]] uint16_t port() const { return udp_.port; }
  std::vector<std::string> asked() {
    const std::lock_guard lock(mutex_);
    return asked_;
  }
  size_t tcp_queries() const { return tcp_queries_; }

 private:
  void run() {
    while (!stopped_) {
      pollfd polls[] = {{udp_.fd.get(), POLLIN, 0}, {tcp_ready_, POLLIN, 0}};
      if (::poll(polls, 2, 20) <= 0) continue;
      if ((polls[0].revents & POLLIN) != 0) answer_udp();
      if ((polls[1].revents & POLLIN) != 0) answer_tcp();
    }
  }

  void answer_udp() {
    char buffer[4096];
    sockaddr_in peer{};
    socklen_t size = sizeof peer;
    const ssize_t got = ::recvfrom(udp_.fd.get(), buffer, sizeof buffer, 0, reinterpret_cast<sockaddr*>(&peer), &size);
    if (got <= 0) return;
    const std::string query(buffer, static_cast<size_t>(got));
    const std::string response = answer(query, zone_.truncates);
    if (zone_.is_silent) return;
    const auto send = [&](const std::string& packet) {
      (void)::sendto(udp_.fd.get(), packet.data(), packet.size(), 0, reinterpret_cast<sockaddr*>(&peer), size);
    };
    if (zone_.forges_first) {
      std::string forged = response;
      forged[0] = static_cast<char>(forged[0] ^ 1);
      forged[forged.size() - 1] = 66;
      send(forged);
      send("x");
    }
    send(response);
  }

  void answer_tcp() {
    const Fd client(::accept(tcp_ready_, nullptr, nullptr));
    if (!client.valid()) return;
    char buffer[4096];
    const ssize_t got = ::recv(client.get(), buffer, sizeof buffer, 0);
    if (got <= 2) return;
    ++tcp_queries_;
    const std::string response = answer(std::string(buffer + 2, static_cast<size_t>(got - 2)), false);
    const std::string framed = u16(static_cast<unsigned>(response.size())) + response;
    (void)::send(client.get(), framed.data(), framed.size(), MSG_NOSIGNAL);
  }

  std::string answer(const std::string& packet, bool truncated) {
    auto query = dns::parse_query(packet);
    if (!query) return packet;
    const std::string name = lower(query->name);
    {
      const std::lock_guard lock(mutex_);
      asked_.push_back(name + "/" + dns::type_name(query->type));
    }
    if (zone_.lowers_case) query->question = lower(query->question);
    dns::Response response;
    response.ttl_seconds = zone_.ttl;
    const auto found = zone_.addresses.find(name);
    if (found == zone_.addresses.end()) {
      response.rcode = dns::Rcode::kNxDomain;
    } else {
      for (const std::string& text : found->second) response.addresses.push_back(*oci::parse_ip(text));
    }
    if (truncated) return dns::build_response(*query, response, 0);
    return dns::build_response(*query, response, dns::kMaxMessage);
  }

  Zone zone_;
  std::atomic<bool> stopped_ = false;
  std::mutex mutex_;
  std::vector<std::string> asked_;
  std::atomic<size_t> tcp_queries_ = 0;
  Bound udp_;
  Bound tcp_;
  std::atomic<int> tcp_ready_ = -1;
  std::thread thread_;
};

std::string query_packet(std::string_view name, uint16_t qtype) { return dns::build_query(0x4242, name, qtype).value(); }

struct Reply {
  dns::Answer answer;
  std::string packet;
  [[nodiscard]] std::vector<std::string> addresses() const {
    std::vector<std::string> texts;
    for (const auto& address : answer.addresses) texts.push_back(oci::print(address));
    return texts;
  }
  [[nodiscard]] bool is_blocked() const { return packet.find(std::string("\0\x0f", 2) + "blocked by leash") != std::string::npos; }
};

// Everything that the proxy has for DNS, with its loop in a thread.
class Container {
 public:
  Container(std::string_view policy_text, World& world, World* engine = nullptr, const std::vector<std::string>& onlink = {})
      : policy_(oci::parse_policy("p.yaml", policy_text).value()) {
    ResolverConfig config;
    config.servers.push_back({*oci::parse_ip("192.0.2.53"), 53});
    const uint16_t world_port = world.port();
    const uint16_t engine_port = engine != nullptr ? engine->port() : uint16_t{0};
    // The two servers' addresses, wherever they are here.
    DialUpstream dial = [world_port, engine_port](oci::IpAddress address, uint16_t, bool is_udp) -> asio::awaitable<Result<Fd>> {
      const uint16_t port = oci::print(address) == "127.0.0.11" ? engine_port : world_port;
      Fd fd = connect_loopback(is_udp ? SOCK_DGRAM : SOCK_STREAM, port);
      if (!fd.valid()) co_return Error::last_errno("connect");
      CO_TRY_VOID(sys::set_nonblocking(fd.get(), true));
      co_return std::move(fd);
    };
    resolver_ = std::make_unique<Resolver>(context_.get_executor(), policy_, config, dial);
    oci::NetworkFacts facts;
    facts.onlink_networks = onlink;
    facts.never_destinations = {"172.18.0.1"};
    // Not in the configuration: Docker sets its resolver up after the proxy was configured.
    facts.has_engine_dns = engine != nullptr;
    resolver_->set_network(ResolverNetwork::from(facts).value());
    DnsLog log;
    log.blocked = [this](oci::BlockedEvent event) {
      const std::lock_guard lock(mutex_);
      blocked_.push_back(std::move(event));
    };
    log.observed = [this](oci::FlowEvent event) {
      const std::lock_guard lock(mutex_);
      observed_.push_back(std::move(event));
    };
    server_ = std::make_unique<DnsServer>(context_.get_executor(), policy_, *resolver_, std::move(log));
    listen(oci::ListenerKind::kDnsEngineUdp, SOCK_DGRAM, engine_udp_);
    listen(oci::ListenerKind::kDnsOtherUdp, SOCK_DGRAM, other_udp_);
    listen(oci::ListenerKind::kDnsOtherTcp, SOCK_STREAM, other_tcp_);
    thread_ = std::thread([this] { context_.run(); });
  }
  ~Container() {
    asio::post(context_, [this] { server_->stop(); });
    thread_.join();
  }

  Reply ask(std::string_view name, uint16_t qtype = dns::type::kA, ResolverView view = ResolverView::kEngine) {
    const Fd socket = connect_loopback(SOCK_DGRAM, view == ResolverView::kEngine ? engine_udp_ : other_udp_);
    const std::string packet = query_packet(name, qtype);
    REQUIRE(::send(socket.get(), packet.data(), packet.size(), 0) == static_cast<ssize_t>(packet.size()));
    char buffer[4096];
    const ssize_t got = ::recv(socket.get(), buffer, sizeof buffer, 0);
    REQUIRE(got > 0);
    Reply reply;
    reply.packet.assign(buffer, static_cast<size_t>(got));
    reply.answer = dns::parse_answer(reply.packet, 0x4242, name, qtype, true).value();
    return reply;
  }

  std::string raw(const std::string& packet) {
    const Fd socket = connect_loopback(SOCK_DGRAM, other_udp_);
    (void)::send(socket.get(), packet.data(), packet.size(), 0);
    char buffer[4096];
    const ssize_t got = ::recv(socket.get(), buffer, sizeof buffer, 0);
    return got > 0 ? std::string(buffer, static_cast<size_t>(got)) : std::string();
  }

  [[nodiscard]] uint16_t tcp_port() const { return other_tcp_; }

  Result<Resolution> resolve(const std::string& host) {
    std::promise<Result<Resolution>> promise;
    asio::co_spawn(
        context_, [](Resolver& resolver, std::string name, std::promise<Result<Resolution>>& done) -> asio::awaitable<void> {
          done.set_value(co_await resolver.resolve(name));
        }(*resolver_, host, promise),
        [](const std::exception_ptr& failure) { REQUIRE(!failure); });
    return promise.get_future().get();
  }
  std::vector<std::string> names_of(const std::string& address) {
    return asio::co_spawn(
               context_, [](Resolver& resolver, std::string text) -> asio::awaitable<std::vector<std::string>> {
                 co_return resolver.names_of(*oci::parse_ip(text));
               }(*resolver_, address),
               asio::use_future)
        .get();
  }

  std::vector<oci::BlockedEvent> blocked() {
    const std::lock_guard lock(mutex_);
    return blocked_;
  }
  std::vector<oci::FlowEvent> observed() {
    const std::lock_guard lock(mutex_);
    return observed_;
  }

 private:
  void listen(oci::ListenerKind kind, int type, uint16_t& port) {
    Bound bound = bind_loopback(type);
    port = bound.port;
    REQUIRE(sys::set_nonblocking(bound.fd.get(), true));
    REQUIRE(server_->serve(kind, std::move(bound.fd)));
  }

  asio::io_context context_{1};
  oci::Policy policy_;
  std::unique_ptr<Resolver> resolver_;
  std::unique_ptr<DnsServer> server_;
  uint16_t engine_udp_ = 0;
  uint16_t other_udp_ = 0;
  uint16_t other_tcp_ = 0;
  std::mutex mutex_;
  std::vector<oci::BlockedEvent> blocked_;
  std::vector<oci::FlowEvent> observed_;
  std::thread thread_;
};

using Texts = std::vector<std::string>;

World::Zone zone_of(std::map<std::string, std::vector<std::string>> addresses) {
  World::Zone zone;
  zone.addresses = std::move(addresses);
  return zone;
}

TEST_CASE("dns_server: an allowed name is answered with our own lookup, once") {
  World world(zone_of({{"ok.test", {"203.0.113.9", "203.0.113.10"}}}));
  Container container("allow: [ok.test]\n", world);
  CHECK(container.ask("ok.test").addresses() == Texts{"203.0.113.9", "203.0.113.10"});
  CHECK(container.ask("OK.test").addresses() == Texts{"203.0.113.9", "203.0.113.10"});
  CHECK(world.asked() == Texts{"ok.test/A"});
  const Reply none = container.ask("ok.test", dns::type::kAaaa);
  CHECK(none.answer.rcode == dns::Rcode::kNoError);
  CHECK(none.addresses().empty());
  CHECK(container.ask("absent.ok.test").answer.rcode == dns::Rcode::kNxDomain);
  CHECK(container.blocked().empty());
  CHECK(container.names_of("203.0.113.10") == Texts{"ok.test"});
  CHECK(container.names_of("203.0.113.11").empty());
}

TEST_CASE("dns_server: a denied name never leaves, is NXDOMAIN with EDE 15, and has its line") {
  World world(zone_of({{"evil.test", {"203.0.113.66"}}, {"secret.ok.test", {"203.0.113.67"}}}));
  Container container("allow: [ok.test]\ndeny: [secret.ok.test]\n", world);
  for (const char* name : {"evil.test", "726f6f743a783a30.evil.test", "secret.ok.test", "0x7f.1"}) {
    INFO(name);
    for (const uint16_t qtype : {dns::type::kA, dns::type::kAaaa, dns::type::kTxt, dns::type::kHttps}) {
      const Reply reply = container.ask(name, qtype);
      CHECK(reply.answer.rcode == dns::Rcode::kNxDomain);
      CHECK(reply.is_blocked());
    }
  }
  CHECK(world.asked().empty());
  const auto blocked = container.blocked();
  REQUIRE(blocked.size() == 16);
  CHECK(blocked[0].layer == "dns");
  CHECK(blocked[0].reason == oci::reason::kHostNotAllowed);
  CHECK(blocked[0].host == "evil.test");
  CHECK(blocked[0].method == "A");
  CHECK(blocked[0].bytes_up > 20);
  CHECK(blocked[8].reason == oci::reason::kHostDenied);
  CHECK(blocked[8].rule == "deny[0] secret.ok.test (p.yaml:2)");
  CHECK(blocked[12].reason == oci::reason::kAmbiguousHost);
}

TEST_CASE("dns_server: for an allowed name only addresses are answered") {
  World world(zone_of({{"ok.test", {"203.0.113.9"}}}));
  Container container("allow: [ok.test]\n", world);
  for (const uint16_t qtype : {dns::type::kTxt, dns::type::kNull, dns::type::kAny, dns::type::kAxfr}) {
    CHECK(container.ask("ok.test", qtype).answer.rcode == dns::Rcode::kRefused);
  }
  for (const uint16_t qtype : {dns::type::kHttps, dns::type::kSvcb, dns::type::kCname, dns::type::kMx, dns::type::kSrv}) {
    const Reply reply = container.ask("ok.test", qtype);
    CHECK(reply.answer.rcode == dns::Rcode::kNoError);
    CHECK(reply.packet.size() < 60);
  }
  CHECK(world.asked().empty());
  CHECK(container.blocked().size() == 4);
}

TEST_CASE("dns_server: names under an allowed suffix carry no data out") {
  World world(zone_of({{"www.ok.test", {"203.0.113.9"}}}));
  Container container("allow: [ok.test]\n", world);
  CHECK(container.ask("www.ok.test").addresses() == Texts{"203.0.113.9"});
  CHECK(container.ask("726f6f743a783a303a303a726f6f743a2f726f6f.ok.test").answer.rcode == dns::Rcode::kNxDomain);
  CHECK(container.ask("a4jb2kbthzevix3kowaixfvbvs34ftoy4pxps.ok.test").is_blocked());
  CHECK(world.asked().size() == 1);
  for (int i = 0; i < 500; ++i) (void)container.ask("x" + std::to_string(i * 7919) + ".ok.test");
  CHECK(world.asked().size() < 80);
  const auto blocked = container.blocked();
  CHECK(blocked.at(0).reason == oci::reason::kDnsNameSuspicious);
  CHECK(blocked.back().reason == oci::reason::kDnsRateExceeded);
  // The suffix itself still works.
  CHECK(container.ask("www.ok.test").addresses() == Texts{"203.0.113.9"});
}

TEST_CASE("dns_server: a flood of refusals is counted, not written line by line") {
  World world(zone_of({}));
  uint64_t lines = 0;
  uint64_t sum = 0;
  {
    Container container("allow: [ok.test]\n", world);
    for (int i = 0; i < 600; ++i) (void)container.ask("x" + std::to_string(i) + ".evil.test");
    std::this_thread::sleep_for(1200ms);  // the throttle's own clock, not synchronisation
    for (const auto& event : container.blocked()) {
      ++lines;
      sum += event.count;
    }
  }
  CHECK(sum == 600);
  CHECK(lines < 600);
}

TEST_CASE("dns_server: an answer that leads into a private network needs a rule that says so") {
  World world(zone_of({{"ok.test", {"203.0.113.9", "10.0.0.1", "169.254.169.254"}},
                       {"a.ok.test", {"10.0.0.2"}},
                       {"meta.test", {"169.254.169.254"}},
                       {"loop.test", {"127.0.0.1"}},
                       {"gateway.test", {"172.18.0.1"}},
                       {"net.ok.test", {"10.9.0.1"}},
                       {"mapped.test", {"::ffff:169.254.169.254"}}}));
  Container container("allow: [ok.test, meta.test, loop.test, gateway.test, mapped.test, 10.9.0.0/16]\n", world);
  CHECK(container.ask("ok.test").addresses() == Texts{"203.0.113.9", "10.0.0.1"});
  CHECK(container.ask("net.ok.test").addresses() == Texts{"10.9.0.1"});
  for (const char* name : {"a.ok.test", "meta.test", "loop.test", "gateway.test"}) {
    INFO(name);
    const Reply reply = container.ask(name);
    CHECK(reply.answer.rcode == dns::Rcode::kNxDomain);
    CHECK(reply.is_blocked());
    CHECK(container.blocked().back().reason == oci::reason::kPrivateAddress);
    CHECK(container.blocked().back().host == name);
  }
  CHECK(container.ask("mapped.test", dns::type::kAaaa).answer.rcode == dns::Rcode::kNxDomain);
  // Dialling is judged the same.
  const auto dialled = container.resolve("a.ok.test");
  REQUIRE(dialled);
  CHECK(!dialled->verdict.allowed);
  CHECK(dialled->verdict.reason == oci::reason::kPrivateAddress);
  const auto loop = container.resolve("loop.test");
  REQUIRE(!loop);
  CHECK(loop.error().code() == EACCES);
  CHECK(container.resolve("203.0.113.1").value().addresses.size() == 1);
  CHECK(!container.resolve("10.0.0.1").value().verdict.allowed);
  CHECK(container.resolve("10.9.3.3").value().verdict.allowed);
  CHECK(container.resolve("127.0.0.1").error().code() == EACCES);
  CHECK(container.resolve("absent.test").error().code() == ENOENT);
}

TEST_CASE("dns_server: a neighbour is only reached by what the engine's resolver says") {
  World world(zone_of({{"db", {"172.18.0.9"}}, {"spoof.test", {"172.18.0.3"}}, {"corp.test", {"10.1.1.1"}}}));
  World engine(zone_of({{"db", {"172.18.0.3"}}, {"cache", {"172.18.0.4"}}, {"spoof.test", {"203.0.113.5"}}}));
  Container container("allow: [spoof.test, corp.test, {host: db, ports: [5432], inspect: false}]\n", world, &engine, {"172.18.0.0/16"});
  CHECK(container.ask("db").addresses() == Texts{"172.18.0.3"});
  CHECK(container.names_of("172.18.0.3") == Texts{"db"});
  CHECK(container.ask("cache").answer.rcode == dns::Rcode::kNxDomain);  // no rule names it
  CHECK(container.ask("spoof.test", dns::type::kA, ResolverView::kOther).answer.rcode == dns::Rcode::kNxDomain);
  CHECK(container.ask("spoof.test").addresses() == Texts{"203.0.113.5"});
  CHECK(container.ask("corp.test", dns::type::kA, ResolverView::kOther).addresses() == Texts{"10.1.1.1"});
  CHECK(container.resolve("db").value().addresses.size() == 1);
}

TEST_CASE("dns_server: forged and truncated answers lead to the right one") {
  SECTION("forged") {
    World::Zone zone = zone_of({{"ok.test", {"203.0.113.9"}}});
    zone.forges_first = true;
    World world(zone);
    Container container("allow: [ok.test]\n", world);
    CHECK(container.ask("ok.test").addresses() == Texts{"203.0.113.9"});
  }
  SECTION("truncated: asked again over TCP") {
    World::Zone zone = zone_of({{"ok.test", {"203.0.113.9"}}});
    zone.truncates = true;
    World world(zone);
    Container container("allow: [ok.test]\n", world);
    CHECK(container.ask("ok.test").addresses() == Texts{"203.0.113.9"});
    CHECK(world.tcp_queries() == 1);
  }
  SECTION("a server that does not keep the case: TCP settles it") {
    World::Zone zone = zone_of({{"averylongname.ok.test", {"203.0.113.9"}}});
    zone.lowers_case = true;
    World world(zone);
    Container container("allow: [ok.test]\n", world);
    CHECK(container.ask("averylongname.ok.test").addresses() == Texts{"203.0.113.9"});
    CHECK(world.tcp_queries() == 1);
  }
}

TEST_CASE("dns_server: a server that is silent costs the client no more than its patience") {
  World::Zone zone = zone_of({});
  zone.is_silent = true;
  World world(zone);
  Container container("allow: [ok.test]\n", world);
  const auto begin = std::chrono::steady_clock::now();
  CHECK(container.ask("ok.test").answer.rcode == dns::Rcode::kServFail);
  CHECK(std::chrono::steady_clock::now() - begin < 5s);
  CHECK(world.asked().size() == 2);
}

TEST_CASE("dns_server: TTLs are bounded, and nothing stale is dialled") {
  World::Zone zone = zone_of({{"ok.test", {"203.0.113.9"}}});
  zone.ttl = 1000000;
  World world(zone);
  Container container("allow: [ok.test]\n", world);
  CHECK(container.ask("ok.test").answer.ttl_seconds <= 300);
}

TEST_CASE("dns_server: several queries on one TCP connection are answered in order") {
  World world(zone_of({{"ok.test", {"203.0.113.9"}}}));
  Container container("allow: [ok.test]\n", world);
  const Fd socket = connect_loopback(SOCK_STREAM, container.tcp_port());
  REQUIRE(socket.valid());
  std::string sent;
  for (const char* name : {"ok.test", "evil.test"}) {
    const std::string packet = query_packet(name, dns::type::kA);
    sent += u16(static_cast<unsigned>(packet.size())) + packet;
  }
  // Byte by byte: a message is not a segment.
  for (const char c : sent) REQUIRE(::send(socket.get(), &c, 1, MSG_NOSIGNAL) == 1);
  const auto receive = [&](size_t size) {
    std::string data(size, '\0');
    REQUIRE(::recv(socket.get(), data.data(), size, MSG_WAITALL) == static_cast<ssize_t>(size));
    return data;
  };
  for (const bool is_allowed : {true, false}) {
    const std::string prefix = receive(2);
    const size_t size = static_cast<size_t>(static_cast<unsigned char>(prefix[0])) << 8 | static_cast<unsigned char>(prefix[1]);
    const auto answer = dns::parse_answer(receive(size), 0x4242, is_allowed ? "ok.test" : "evil.test", 1, true);
    REQUIRE(answer);
    CHECK(answer->addresses.size() == (is_allowed ? 1 : 0));
  }
}

TEST_CASE("dns_server: what is no query is FORMERR and has its line, a response is never answered") {
  World world(zone_of({}));
  Container container("allow: [ok.test]\n", world);
  std::string packet = query_packet("ok.test", 1);
  packet[5] = 2;  // two questions
  CHECK((container.raw(packet).at(3) & 15) == 1);
  CHECK(container.blocked().at(0).reason == oci::reason::kDnsMalformed);
  std::string chaos = query_packet("ok.test", 16);
  chaos[chaos.size() - 12] = 3;  // class CH: version.bind and its like
  CHECK((container.raw(chaos).at(3) & 15) == 5);
  CHECK(world.asked().empty());
}

TEST_CASE("dns_server: localhost and reverse names are not asked of anybody") {
  World world(zone_of({}));
  Container container("allow: [ok.test, 203.0.113.0/24]\n", world, nullptr, {"172.18.0.0/16"});
  CHECK(container.ask("203.0.113.9").answer.rcode == dns::Rcode::kNxDomain);
  CHECK(container.ask("localhost").addresses() == Texts{"127.0.0.1"});
  CHECK(container.ask("a.localhost", dns::type::kAaaa).addresses() == Texts{"::1"});
  CHECK(container.ask("1.0.0.127.in-addr.arpa", dns::type::kPtr).answer.pointer == "localhost");
  CHECK(container.ask("9.113.0.203.in-addr.arpa", dns::type::kPtr).answer.rcode == dns::Rcode::kNxDomain);
  CHECK(container.ask("726f6f74.in-addr.arpa", dns::type::kPtr).answer.rcode == dns::Rcode::kNxDomain);
  CHECK(world.asked().empty());
}

TEST_CASE("dns_server: observe mode resolves every name and blocks nothing") {
  World world(zone_of({{"evil.test", {"203.0.113.66"}}, {"private.test", {"10.0.0.1"}}, {"ok.test", {"203.0.113.9"}}}));
  Container container("mode: observe\nallow: [ok.test]\n", world);
  CHECK(container.ask("evil.test").addresses() == Texts{"203.0.113.66"});
  CHECK(container.ask("private.test").addresses() == Texts{"10.0.0.1"});
  CHECK(container.ask("ok.test").addresses() == Texts{"203.0.113.9"});
  (void)container.ask("evil.test", dns::type::kTxt);
  CHECK(container.blocked().empty());
  const auto observed = container.observed();
  REQUIRE(observed.size() == 3);
  CHECK(observed[0].observed);
  CHECK(observed[0].host == "evil.test");
  CHECK(observed[0].reason == oci::reason::kHostNotAllowed);
}

TEST_CASE("resolver: servers are read from the shim's document, and a bad one is named") {
  const oci::Policy policy = oci::parse_policy("p", "allow: []\n").value();
  oci::ProxyConfig config;
  config.dns_servers = {"9.9.9.9", "9.9.9.9:5353", "2620:fe::fe", "[2620:fe::fe]:54", "127.0.0.11", "127.0.0.53"};
  const auto parsed = ResolverConfig::from(config, policy);
  REQUIRE(parsed);
  REQUIRE(parsed->servers.size() == 4);
  CHECK(parsed->servers[1].port == 5353);
  CHECK(parsed->servers[3].port == 54);
  CHECK(parsed->has_engine_dns);
  for (const char* text : {"", "x", "9.9.9.9:", "9.9.9.9:0x", "9.9.9.9:70000", "[::1", "fe80::1%eth0"}) {
    INFO(text);
    config.dns_servers = {text};
    const auto bad = ResolverConfig::from(config, policy);
    REQUIRE(!bad);
    CHECK(bad.error().message().find("'" + std::string(text) + "'") != std::string::npos);
  }
  const oci::Policy chosen = oci::parse_policy("p", "dns: {servers: [1.1.1.1]}\n").value();
  CHECK(ResolverConfig::from(config, chosen)->servers.size() == 1);
}

}  // namespace
}  // namespace leash::proxy
