// The lock-in against the real kernel, in namespaces of its own: what the library promises to leash-shim.
// Needs root; says so and counts as skipped otherwise.
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/sys.h"
#include "hooks/netns.h"
#include "tests/integration/lockin_house.h"
#include "tests/unit/catch.h"

using namespace leash;
using namespace leash::hooks;
using namespace leash::test;
using oci::ListenerKind;
using std::chrono::milliseconds;

namespace {

constexpr int kSkipped = 77;  // SKIP_RETURN_CODE
constexpr milliseconds kAtOnce{100};

// Before main, so that Catch's own main serves.
const bool kCanRun = [] {
  if (::geteuid() != 0) {
    std::puts("skipped: making network namespaces needs root");
    std::exit(kSkipped);
  }
  if (auto probe = make_network_namespace(); !probe) {
    std::printf("skipped: %s\n", probe.error().message().c_str());
    std::exit(kSkipped);
  }
  return true;
}();

template <class T>
T must(Result<T> result) {
  if (!result) FAIL(result.error().message());
  return std::move(result).value();
}
void must(const Result<void>& result) {
  if (!result) FAIL(result.error().message());
}

LockInPlan plan_of(const House& house) {
  LockInPlan plan;
  plan.n1_fd = house.n1.get();
  plan.n2_fd = house.n2.get();
  return plan;
}

LockIn locked(const House& house) { return must(build(plan_of(house))); }

std::string failure_of(const LockInPlan& plan) {
  auto lock_in = build(plan);
  return lock_in ? "(it succeeded)" : lock_in.error().message();
}

// Bytes that no frame of the kernel's own contains.
const std::string kSecret = "leash-attack-payload-0123456789";
std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

std::vector<std::string> reports_of(const LockIn& lock_in) {
  std::vector<std::string> reports;
  if (!is_readable(lock_in.refusals.fd(), milliseconds(1000))) return reports;
  for (const auto& packet : must(lock_in.refusals.read()))
    reports.push_back(packet.protocol + " " + packet.destination + " " + std::to_string(packet.port) + " " +
                      std::to_string(packet.bytes));
  return reports;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("lockin: TCP to any address and port ends at the proxy, which learns where it wanted to go") {
  const House house = House::wired();
  const LockIn lock_in = locked(house);
  for (const Endpoint& wanted :
       {Endpoint{"203.0.113.9", 443}, Endpoint{"172.30.0.1", 22}, Endpoint{"169.254.169.254", 80},
        Endpoint{"10.1.2.3", 8888}, Endpoint{"2001:db8::9", 443}, Endpoint{"fd00:30::1", 22}}) {
    INFO(wanted.address);
    const bool is_ipv6 = contains(wanted.address, ":");
    const Attempt attempt = connect_tcp(house.n2, wanted);
    REQUIRE(attempt.error == 0);
    const auto accepted = accept_from(listener_of(lock_in, ListenerKind::kTcp, is_ipv6).socket);
    REQUIRE(accepted);
    CHECK(accepted->wanted == wanted);
    must(sys::write_all(accepted->socket.get(), "hello"));
    CHECK(receive_text(attempt.socket.get()) == "hello");
  }
}

TEST_CASE("lockin: without a network in N1 TCP still ends at the proxy and UDP is refused") {
  const House house = House::without_network();
  const LockIn lock_in = locked(house);
  CHECK(lock_in.notes == std::vector<std::string>{});
  for (const Endpoint& wanted : {Endpoint{"203.0.113.9", 443}, Endpoint{"2001:db8::9", 443}}) {
    INFO(wanted.address);
    const Attempt attempt = connect_tcp(house.n2, wanted);
    REQUIRE(attempt.error == 0);
    const auto accepted = accept_from(listener_of(lock_in, ListenerKind::kTcp, contains(wanted.address, ":")).socket);
    REQUIRE(accepted);
    CHECK(accepted->wanted == wanted);
  }
  CHECK(send_datagram(house.n2, SOCK_DGRAM, 0, {"203.0.113.9", 443}, kSecret).error == EPERM);
  CHECK(output_in(house.n2, {"ip", "-o", "link"}).find("eth0") == std::string::npos);
}

TEST_CASE("lockin: what is neither TCP nor DNS is refused at once and reported") {
  const House house = House::wired();
  const LockIn lock_in = locked(house);
  struct Case {
    const char* what;
    int type;
    int protocol;
    Endpoint to;
    std::string report;
  };
  const std::string echo(8, '\x08');  // the type of an ICMP echo request is 8
  const std::string size4 = std::to_string(20 + kSecret.size());
  const auto refused = {
      Case{"UDP", SOCK_DGRAM, 0, {"203.0.113.9", 443}, "udp 203.0.113.9 443 " + std::to_string(28 + kSecret.size())},
      Case{"UDP over IPv6", SOCK_DGRAM, 0, {"2001:db8::9", 443},
           "udp 2001:db8::9 443 " + std::to_string(48 + kSecret.size())},
      Case{"UDP to the gateway", SOCK_DGRAM, 0, {"172.30.0.1", 123}, "udp 172.30.0.1 123"},
      Case{"UDP to a group", SOCK_DGRAM, 0, {"224.0.0.251", 5353}, "udp 224.0.0.251 5353"},
      Case{"UDP to everybody", SOCK_DGRAM, 0, {"255.255.255.255", 67}, "udp 255.255.255.255 67"},
      Case{"UDP to the subnet", SOCK_DGRAM, 0, {"172.30.0.255", 67}, "udp 172.30.0.255 67"},
      Case{"UDP to an IPv6 group", SOCK_DGRAM, 0, {"ff05::1:3", 5355}, "udp ff05::1:3 5355"},
      Case{"raw ICMP", SOCK_RAW, IPPROTO_ICMP, {"203.0.113.9", 0}, "icmp 203.0.113.9 0 " + size4},
      Case{"raw ICMPv6", SOCK_RAW, IPPROTO_ICMPV6, {"2001:db8::9", 0}, "icmpv6 2001:db8::9 0"},
      Case{"SCTP", SOCK_RAW, IPPROTO_SCTP, {"203.0.113.9", 0}, "sctp 203.0.113.9"},
      Case{"GRE", SOCK_RAW, 47, {"203.0.113.9", 0}, "47 203.0.113.9 0 " + size4},
      Case{"UDP to 127.0.0.11 beside DNS", SOCK_DGRAM, 0, {"127.0.0.11", 41814}, "udp 127.0.0.11 41814"},
  };
  for (const Case& one : refused) {
    INFO(one.what);
    const Attempt attempt = send_datagram(house.n2, one.type, one.protocol, one.to,
                                          one.protocol == IPPROTO_ICMPV6 ? '\x80' + kSecret : kSecret);
    CHECK(attempt.error == EPERM);
    CHECK(attempt.took < kAtOnce);
    const auto reports = reports_of(lock_in);
    CAPTURE(reports);
    REQUIRE(reports.size() == 1);
    CHECK_THAT(reports[0], Catch::Matchers::StartsWith(one.report));
  }
  CHECK(house.frames_with(bytes_of(kSecret)) == 0);

  uint64_t packets = 0;
  for (const RefusalCounter& counter : must(read_refusal_counters(house.n2.get()))) packets += counter.packets;
  CHECK(packets == refused.size());
}

TEST_CASE("lockin: refusals beyond the rate of the log are counted, not lost") {
  const House house = House::wired();
  const LockIn lock_in = locked(house);
  constexpr uint64_t kPackets = 500;
  for (uint64_t i = 0; i < kPackets; ++i)
    REQUIRE(send_datagram(house.n2, SOCK_DGRAM, 0, {"203.0.113.9", 443}, kSecret).error == EPERM);
  CHECK(reports_of(lock_in).size() < 100);
  uint64_t packets = 0;
  uint64_t bytes = 0;
  for (const RefusalCounter& counter : must(read_refusal_counters(house.n2.get()))) {
    packets += counter.packets;
    bytes += counter.bytes;
  }
  CHECK(packets == kPackets);
  CHECK(bytes == kPackets * (28 + kSecret.size()));
}

TEST_CASE("lockin: a datagram that would be fragmented is refused whole") {
  const House house = House::wired();
  const LockIn lock_in = locked(house);
  const Attempt attempt = send_datagram(house.n2, SOCK_DGRAM, 0, {"203.0.113.9", 443}, std::string(60000, 'x'));
  CHECK(attempt.error == EPERM);
  CHECK(attempt.took < kAtOnce);
}

TEST_CASE("lockin: DNS to 127.0.0.11 and DNS to any other server reach different listeners, and answers come back") {
  const House house = House::wired();
  const LockIn lock_in = locked(house);
  struct Case {
    Endpoint to;
    ListenerKind udp;
    ListenerKind tcp;
  };
  for (const Case& one : {Case{{"127.0.0.11", 53}, ListenerKind::kDnsEngineUdp, ListenerKind::kDnsEngineTcp},
                          Case{{"8.8.8.8", 53}, ListenerKind::kDnsOtherUdp, ListenerKind::kDnsOtherTcp},
                          Case{{"127.0.0.53", 53}, ListenerKind::kDnsOtherUdp, ListenerKind::kDnsOtherTcp},
                          Case{{"172.30.0.1", 53}, ListenerKind::kDnsOtherUdp, ListenerKind::kDnsOtherTcp},
                          Case{{"2001:db8::53", 53}, ListenerKind::kDnsOtherUdp, ListenerKind::kDnsOtherTcp}}) {
    INFO(one.to.address);
    const bool is_ipv6 = contains(one.to.address, ":");
    const Attempt query = send_datagram(house.n2, SOCK_DGRAM, 0, one.to, "query");
    REQUIRE(query.error == 0);
    const auto& listener = listener_of(lock_in, one.udp, is_ipv6);
    REQUIRE(is_readable(listener.socket.get(), milliseconds(1000)));
    char buffer[64];
    sockaddr_storage client{};
    socklen_t length = sizeof(client);
    REQUIRE(::recvfrom(listener.socket.get(), buffer, sizeof(buffer), 0, reinterpret_cast<sockaddr*>(&client),
                       &length) == 5);
    REQUIRE(::sendto(listener.socket.get(), "answer", 6, 0, reinterpret_cast<sockaddr*>(&client), length) == 6);
    sockaddr_storage from{};
    length = sizeof(from);
    REQUIRE(is_readable(query.socket.get(), milliseconds(1000)));
    REQUIRE(::recvfrom(query.socket.get(), buffer, sizeof(buffer), 0, reinterpret_cast<sockaddr*>(&from), &length) == 6);
    char text[INET6_ADDRSTRLEN] = {};
    if (is_ipv6)
      inet_ntop(AF_INET6, &reinterpret_cast<sockaddr_in6*>(&from)->sin6_addr, text, sizeof(text));
    else
      inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in*>(&from)->sin_addr, text, sizeof(text));
    CHECK(std::string(text) == one.to.address);

    const Attempt connection = connect_tcp(house.n2, one.to);
    REQUIRE(connection.error == 0);
    const auto accepted = accept_from(listener_of(lock_in, one.tcp, is_ipv6).socket);
    REQUIRE(accepted);
    CHECK(accepted->wanted == one.to);
  }
}

TEST_CASE("lockin: nobody talks to a listener directly, nor to the raw port of the engine's resolver") {
  const House house = House::wired();
  const LockIn lock_in = locked(house);
  for (const Listener& listener : lock_in.listeners) {
    const Endpoint direct{listener.is_ipv6 ? "::1" : "127.0.0.1", listener.port};
    INFO(direct.address << " " << direct.port);
    const Attempt attempt = connect_tcp(house.n2, direct);
    CHECK(attempt.error == ECONNREFUSED);
    CHECK(attempt.took < kAtOnce);
    const Attempt datagram = send_datagram(house.n2, SOCK_DGRAM, 0, direct, kSecret);
    CHECK(datagram.error == 0);  // the refusal comes as an ICMP error
    CHECK_FALSE(is_readable(listener.socket.get(), milliseconds(0)));
  }
  const Attempt raw = connect_tcp(house.n2, {"127.0.0.11", 41814});
  CHECK(raw.error == ECONNREFUSED);
  CHECK(raw.took < kAtOnce);
}

TEST_CASE("lockin: the ports of the listeners cannot be shared or taken") {
  const House house = House::wired();
  const LockIn lock_in = locked(house);
  const NamespaceScope scope = must(NamespaceScope::enter(house.n2.get()));
  for (const int option : {SO_REUSEADDR, SO_REUSEPORT}) {
    for (const int type : {SOCK_STREAM, SOCK_DGRAM}) {
      const Fd thief = must(sys::socket(AF_INET, type, 0));
      const int on = 1;
      REQUIRE(::setsockopt(thief.get(), SOL_SOCKET, option, &on, sizeof(on)) == 0);
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_port = htons(type == SOCK_STREAM ? lock_in.ports.proxy : lock_in.ports.dns_other);
      CHECK(::bind(thief.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) < 0);
      CHECK(errno == EADDRINUSE);
    }
  }
}

TEST_CASE("lockin: the container's own servers are its own, on loopback and on its addresses") {
  const House house = House::wired();
  const LockIn lock_in = locked(house);
  Fd server;
  {
    const NamespaceScope scope = must(NamespaceScope::enter(house.n2.get()));
    server = must(sys::socket(AF_INET6, SOCK_STREAM, 0));
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(8080);
    REQUIRE(::bind(server.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
    REQUIRE(::listen(server.get(), 8) == 0);
  }
  for (const char* address : {"127.0.0.1", "127.1.2.3", "::1", "172.30.0.2", "fd00:30::2"}) {
    INFO(address);
    CHECK(connect_tcp(house.n2, {address, 8080}).error == 0);
    CHECK(accept_from(server));
    CHECK(connect_tcp(house.n2, {address, 8081}).error == ECONNREFUSED);
  }
}

TEST_CASE("lockin: a socket bound to an interface is refused at once instead of hanging") {
  const House house = House::wired();
  const LockIn lock_in = locked(house);
  for (const Endpoint& to :
       {Endpoint{"203.0.113.9", 443}, Endpoint{"2001:db8::9", 443}, Endpoint{"172.30.0.1", 53},
        Endpoint{"fd00:30::1", 443}, Endpoint{"fe80::1%eth0", 443}, Endpoint{"127.0.0.1", 443},
        Endpoint{"127.0.0.11", 53}}) {
    INFO(to.address);
    const Attempt connection = connect_tcp(house.n2, to, "eth0");
    CHECK(connection.error == ECONNREFUSED);
    CHECK(connection.took < kAtOnce);
    CHECK_FALSE(reports_of(lock_in).empty());
    const Attempt datagram = send_datagram(house.n2, SOCK_DGRAM, 0, to, kSecret, "eth0");
    CHECK(datagram.error == EPERM);
    CHECK_FALSE(reports_of(lock_in).empty());
  }
  CHECK(house.frames_with(bytes_of(kSecret)) == 0);
}

TEST_CASE("lockin: N2 looks like N1: names, addresses, MAC, MTU, routes") {
  const House house = House::wired();
  const LockIn lock_in = locked(house);
  CHECK(lock_in.notes == std::vector<std::string>{});
  const std::string links = output_in(house.n2, {"ip", "-o", "link", "show", "eth0"});
  CHECK_THAT(links, Catch::Matchers::Contains("02:42:ac:1e:00:02") && Catch::Matchers::Contains("mtu 1400") &&
                        Catch::Matchers::Contains("LOWER_UP"));
  const std::string addresses = output_in(house.n2, {"ip", "-o", "address"});
  CHECK_THAT(addresses, Catch::Matchers::Contains("172.30.0.2/24") && Catch::Matchers::Contains("fd00:30::2/64"));
  CHECK_THAT(addresses, !Catch::Matchers::Contains("tentative"));
  CHECK_THAT(output_in(house.n2, {"ip", "route"}), Catch::Matchers::Contains("default via 172.30.0.1 dev eth0") &&
                                                       Catch::Matchers::Contains("172.30.0.0/24 dev eth0"));
  CHECK_THAT(output_in(house.n2, {"ip", "-6", "route"}), Catch::Matchers::Contains("default via fd00:30::1 dev eth0"));
  // No other interface than N1's, in particular not the other end of the pair.
  CHECK_THAT(output_in(house.n2, {"ip", "-o", "link"}), !Catch::Matchers::Contains("veth"));
}

TEST_CASE("lockin: root of N2 who flushes the rules and makes routes puts nothing on the wire") {
  const House house = House::wired();
  const LockIn lock_in = locked(house);
  const std::vector<uint8_t> secret = bytes_of(kSecret);
  const std::vector<uint8_t> target = {203, 0, 113, 9};
  REQUIRE(house.frames_with(target) == 0);

  REQUIRE(run_in(house.n2, {"nft", "flush", "ruleset"}) == 0);
  REQUIRE(run_in(house.n2, {"ip", "rule", "flush"}) == 0);
  run_in(house.n2, {"ip", "rule", "add", "lookup", "main"});
  run_in(house.n2, {"ip", "route", "add", "203.0.113.0/24", "via", "172.30.0.1", "dev", "eth0"});
  run_in(house.n2, {"ip", "neighbour", "add", "172.30.0.1", "lladdr", "02:42:ac:1e:00:01", "dev", "eth0"});
  run_in(house.n2, {"ip", "link", "set", "eth0", "promisc", "on"});
  (void)send_datagram(house.n2, SOCK_DGRAM, 0, {"203.0.113.9", 443}, kSecret);
  (void)send_datagram(house.n2, SOCK_DGRAM, 0, {"203.0.113.9", 443}, kSecret, "eth0");
  (void)send_datagram(house.n2, SOCK_DGRAM, 0, {"172.30.0.1", 53}, kSecret);
  (void)send_datagram(house.n2, SOCK_RAW, IPPROTO_ICMP, {"203.0.113.9", 0}, kSecret);
  (void)send_datagram(house.n2, SOCK_DGRAM, 0, {"2001:db8::9", 443}, kSecret);
  {
    const NamespaceScope scope = must(NamespaceScope::enter(house.n2.get()));
    const Fd packet = must(sys::socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL)));
    sockaddr_ll to{};
    to.sll_family = AF_PACKET;
    to.sll_ifindex = static_cast<int>(if_nametoindex("eth0"));
    to.sll_halen = ETH_ALEN;
    std::memset(to.sll_addr, 0xff, ETH_ALEN);
    const std::string frame = std::string(12, '\xff') + std::string("\x08\x06", 2) + kSecret;
    CHECK(::sendto(packet.get(), frame.data(), frame.size(), 0, reinterpret_cast<sockaddr*>(&to), sizeof(to)) ==
          static_cast<ssize_t>(frame.size()));
  }
  // veth delivers within a softirq of the sender; the control below is behind everything above.
  REQUIRE(send_datagram(house.n1, SOCK_DGRAM, 0, {"172.30.0.1", 9999}, "control-datagram").error == 0);
  REQUIRE(is_readable(house.capture.get(), milliseconds(1000)));
  CHECK(house.frames_with(secret) == 0);
  REQUIRE(send_datagram(house.n1, SOCK_DGRAM, 0, {"172.30.0.1", 9999}, "control-datagram").error == 0);
  REQUIRE(is_readable(house.capture.get(), milliseconds(1000)));
  CHECK(house.frames_with(bytes_of("control-datagram")) > 0);  // the capture does see

  const auto difference = verify(house.n2.get(), plan_of(house), lock_in.ports);
  REQUIRE_FALSE(difference);
  CHECK(contains(difference.error().message(), "table 'leash' is not there"));
}

TEST_CASE("lockin: reading back finds each kind of tampering and names it") {
  const House house = House::wired();
  const LockIn lock_in = locked(house);
  must(verify(house.n2.get(), plan_of(house), lock_in.ports));
  struct Case {
    std::vector<std::string> command;
    const char* error;
  };
  for (const Case& one : {
           Case{{"nft", "insert", "rule", "inet", "leash", "l_out", "accept"}, "chain 'l_out'"},
           Case{{"nft", "add", "rule", "inet", "leash", "l_in", "accept"}, "unexpected rule"},
           Case{{"nft", "flush", "chain", "inet", "leash", "refuse"}, "rule 'report' of chain 'refuse' is not there"},
           Case{{"nft", "chain", "inet", "leash", "l_out", "{ policy accept; }"}, "chain 'l_out' is"},
           Case{{"nft", "add", "chain", "inet", "leash", "extra"}, "unexpected chain 'extra'"},
           Case{{"nft", "add", "table", "ip", "other"}, "unexpected table 'other'"},
           Case{{"nft", "add", "table", "inet", "leash", "{ flags dormant; }"}, "table 'leash' is dormant"},
       }) {
    const House other = House::without_network();
    const LockIn lock_in_other = locked(other);
    INFO(one.error);
    REQUIRE(run_in(other.n2, one.command) == 0);
    const auto difference = verify(other.n2.get(), plan_of(other), lock_in_other.ports);
    REQUIRE_FALSE(difference);
    CHECK(contains(difference.error().message(), one.error));
  }
  // Another port than the one that was sent is a difference in the rule itself.
  ListenerPorts wrong = lock_in.ports;
  wrong.proxy = 1;
  const auto difference = verify(house.n2.get(), plan_of(house), wrong);
  REQUIRE_FALSE(difference);
  CHECK(contains(difference.error().message(), "rule 'TCP to the proxy' of chain 'nat_out' has"));
}

TEST_CASE("lockin: what changes in N1 shows in N2") {
  const House house = House::wired();
  LockIn lock_in = locked(house);
  const auto addresses = [&] { return output_in(house.n2, {"ip", "-o", "address"}); };
  REQUIRE(run_in(house.n1, {"ip", "address", "add", "172.30.0.7/24", "dev", "eth0"}) == 0);
  REQUIRE(is_readable(lock_in.mirror.fd(), milliseconds(1000)));
  CHECK(must(lock_in.mirror.sync()).empty());
  CHECK(contains(addresses(), "172.30.0.7/24"));

  // As `docker network connect` does it.
  REQUIRE(run_in(house.n1, {"ip", "link", "add", "veth123", "type", "veth", "peer", "name", "far"}) == 0);
  REQUIRE(run_in(house.n1, {"ip", "link", "set", "veth123", "name", "eth1"}) == 0);
  REQUIRE(run_in(house.n1, {"ip", "address", "add", "172.31.0.2/24", "dev", "eth1"}) == 0);
  REQUIRE(run_in(house.n1, {"ip", "link", "set", "eth1", "up"}) == 0);
  CHECK(must(lock_in.mirror.sync()).empty());
  CHECK(contains(addresses(), "eth1"));
  CHECK(contains(addresses(), "172.31.0.2/24"));
  const Attempt attempt = connect_tcp(house.n2, {"172.31.0.9", 80});
  CHECK(attempt.error == 0);
  CHECK(accept_from(listener_of(lock_in, ListenerKind::kTcp, false).socket));
  CHECK(connect_tcp(house.n2, {"172.31.0.9", 80}, "eth1").took < kAtOnce);

  REQUIRE(run_in(house.n1, {"ip", "link", "delete", "eth1"}) == 0);
  REQUIRE(run_in(house.n1, {"ip", "address", "del", "172.30.0.7/24", "dev", "eth0"}) == 0);
  CHECK(must(lock_in.mirror.sync()).empty());
  CHECK_FALSE(contains(addresses(), "eth1"));
  CHECK_FALSE(contains(addresses(), "172.30.0.7"));
  CHECK(contains(addresses(), "172.30.0.2/24"));
  CHECK_FALSE(contains(output_in(house.n2, {"ip", "rule"}), "eth1"));
  CHECK(contains(output_in(house.n2, {"ip", "route"}), "default via 172.30.0.1"));
}

TEST_CASE("lockin: the interfaces vanish with the dead end, and nothing remains to hold it") {
  const House house = House::wired();
  {
    const LockIn lock_in = locked(house);
    CHECK(contains(output_in(house.n2, {"ip", "-o", "link"}), "eth0"));
  }
  // The namespace is taken down by a kernel thread.
  for (int i = 0; i < 200 && contains(output_in(house.n2, {"ip", "-o", "link"}), "eth0"); ++i) ::usleep(10000);
  CHECK_FALSE(contains(output_in(house.n2, {"ip", "-o", "link"}), "eth0"));
  CHECK(connect_tcp(house.n2, {"203.0.113.9", 443}).error == ECONNREFUSED);
}

TEST_CASE("lockin: sysctls of the container are set in N2, and one that cannot be is an error with its name") {
  const House house = House::wired();
  LockInPlan plan = plan_of(house);
  plan.net_sysctls = {{"net.ipv4.ip_unprivileged_port_start", "7"}, {"net/ipv4/conf/eth0/forwarding", "1"}};
  const LockIn lock_in = must(build(plan));
  CHECK(output_in(house.n2, {"cat", "/proc/sys/net/ipv4/ip_unprivileged_port_start"}) == "7\n");
  CHECK(output_in(house.n2, {"cat", "/proc/sys/net/ipv4/conf/eth0/forwarding"}) == "1\n");

  for (const char* name : {"net.ipv4.no_such_thing", "kernel.hostname", "net/../kernel/hostname", "net.ipv4..x"}) {
    const House other = House::without_network();
    LockInPlan bad = plan_of(other);
    bad.net_sysctls = {{name, "1"}};
    CHECK(contains(failure_of(bad), name));
  }
}

TEST_CASE("lockin: a container that switches IPv6 off gets no IPv6 listeners' routes and still no way out") {
  const House house = House::wired();
  LockInPlan plan = plan_of(house);
  plan.net_sysctls = {{"net.ipv6.conf.all.disable_ipv6", "1"}};
  const LockIn lock_in = must(build(plan));
  const Attempt attempt = connect_tcp(house.n2, {"2001:db8::9", 443});
  CHECK(attempt.error != 0);
  CHECK(attempt.took < kAtOnce);
  CHECK(connect_tcp(house.n2, {"203.0.113.9", 443}).error == 0);
}

TEST_CASE("lockin: an N2 that belongs to a user namespace is locked in the same way") {
  House house = House::wired();
  auto [read_end, write_end] = must(sys::pipe());
  auto [hold_read, hold_write] = must(sys::pipe());
  const pid_t child = ::fork();
  if (child == 0) {
    hold_write.reset();
    const bool done = ::unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0;
    (void)!::write(write_end.get(), done ? "y" : "n", 1);
    char byte = 0;
    (void)!::read(hold_read.get(), &byte, 1);
    ::_exit(0);
  }
  char answer = 0;
  REQUIRE(::read(read_end.get(), &answer, 1) == 1);
  if (answer == 'y') {
    house.n2 = must(sys::open("/proc/" + std::to_string(child) + "/ns/net", O_RDONLY));
    LockInPlan plan = plan_of(house);
    plan.net_sysctls = {{"net.ipv4.ip_unprivileged_port_start", "7"}};
    const LockIn lock_in = must(build(plan));
    CHECK(connect_tcp(house.n2, {"203.0.113.9", 443}).error == 0);
    CHECK(accept_from(listener_of(lock_in, ListenerKind::kTcp, false).socket));
    CHECK(send_datagram(house.n2, SOCK_DGRAM, 0, {"203.0.113.9", 443}, kSecret).error == EPERM);
    CHECK(reports_of(lock_in).size() == 1);
  } else {
    WARN("not tried: no user namespaces here");
  }
  hold_write.reset();
  int status = 0;
  ::waitpid(child, &status, 0);
}

TEST_CASE("lockin: segments without a connection, from a raw socket, are answered or refused but go nowhere") {
  const House house = House::wired();
  const LockIn lock_in = locked(house);
  for (const uint8_t flags : {uint8_t{0x02}, uint8_t{0x10}, uint8_t{0x04}, uint8_t{0x11}, uint8_t{0x00}}) {
    tcphdr segment{};
    segment.source = htons(5555);
    segment.dest = htons(443);
    segment.doff = 5;
    reinterpret_cast<uint8_t*>(&segment)[13] = flags;
    const std::string bytes(reinterpret_cast<const char*>(&segment), sizeof(segment));
    const Attempt attempt = send_datagram(house.n2, SOCK_RAW, IPPROTO_TCP, {"203.0.113.9", 0}, bytes + kSecret);
    CHECK(attempt.took < kAtOnce);
  }
  CHECK(house.frames_with(bytes_of(kSecret)) == 0);
}

TEST_CASE("lockin: every step that fails is an error that says which") {
  {
    const House house = House::without_network();
    LockInPlan plan = plan_of(house);
    plan.n2_fd = plan.n1_fd;
    CHECK(contains(failure_of(plan), "did not leave"));
    plan.n2_fd = house.capture.get();  // -1
    CHECK(contains(failure_of(plan), "bad file descriptor"));
  }
  {
    const House house = House::without_network();
    LockInPlan plan = plan_of(house);
    const Fd file = must(sys::open("/dev/null", O_RDONLY));
    plan.n2_fd = file.get();
    CHECK(contains(failure_of(plan), "enter the network namespace"));
  }
  {
    const House house = House::without_network();
    LockInPlan plan = plan_of(house);
    plan.loopback_resolvers = {"8.8.8.8"};
    CHECK(contains(failure_of(plan), "resolver '8.8.8.8'"));
  }
  {
    const House house = House::without_network();
    const RefusalLog first = must(RefusalLog::open(house.n2.get()));
    CHECK(contains(failure_of(plan_of(house)), "group of the refusal log"));
  }
  {
    const House house = House::wired();
    REQUIRE(run_in(house.n2, {"ip", "link", "add", "eth0", "type", "veth", "peer", "name", "x"}) == 0);
    CHECK(contains(failure_of(plan_of(house)), "add interface 'eth0'"));
  }
  {
    const House house = House::without_network();
    REQUIRE(run_in(house.n2, {"nft", "add", "table", "ip", "nat"}) == 0);
    CHECK(contains(failure_of(plan_of(house)), "unexpected table 'nat'"));
  }
}

TEST_CASE("lockin: a taken port makes the listeners move on, all together") {
  const House usual = House::without_network();
  const ListenerPorts wanted = locked(usual).ports;
  const House house = House::without_network();
  Fd taken;
  {
    const NamespaceScope scope = must(NamespaceScope::enter(house.n2.get()));
    taken = must(sys::socket(AF_INET, SOCK_DGRAM, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(wanted.dns_other);
    REQUIRE(::bind(taken.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  }
  const LockIn lock_in = locked(house);
  CHECK(lock_in.ports.proxy > wanted.dns_other);
  CHECK(lock_in.ports.dns_other == lock_in.ports.proxy + 2);
  CHECK(send_datagram(house.n2, SOCK_DGRAM, 0, {"8.8.8.8", 53}, "query").error == 0);
  CHECK(is_readable(listener_of(lock_in, ListenerKind::kDnsOtherUdp, false).socket.get(), milliseconds(1000)));
}

TEST_CASE("lockin: with the host's namespace as N1 the container sees its addresses and is locked in all the same") {
  const House house = House::without_network();
  const Fd host = must(current_network_namespace());
  LockInPlan plan = plan_of(house);
  plan.n1_fd = host.get();
  const LockIn lock_in = must(build(plan));
  for (const Address& address : lock_in.mirror.applied().addresses)
    CHECK(contains(output_in(house.n2, {"ip", "-o", "address"}), address.local.text()));
  CHECK(connect_tcp(house.n2, {"203.0.113.9", 443}).error == 0);
  CHECK(accept_from(listener_of(lock_in, ListenerKind::kTcp, false).socket));
  CHECK(send_datagram(house.n2, SOCK_DGRAM, 0, {"203.0.113.9", 443}, kSecret).error == EPERM);
}

TEST_CASE("lockin: only allowed ports come into N1, redirected to the relay") {
  const House house = House::wired();
  InboundPlan plan;
  plan.n1_fd = house.n1.get();
  plan.tcp_ports = {{8080, 8080}, {9000, 9010}};
  Fd relay;
  Fd other;
  {
    const NamespaceScope scope = must(NamespaceScope::enter(house.n1.get()));
    for (Fd* socket : {&relay, &other}) {
      *socket = must(sys::socket(AF_INET6, SOCK_STREAM, 0));
      sockaddr_in6 address{};
      address.sin6_family = AF_INET6;
      REQUIRE(::bind(socket->get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
      REQUIRE(::listen(socket->get(), 8) == 0);
      socklen_t length = sizeof(address);
      REQUIRE(::getsockname(socket->get(), reinterpret_cast<sockaddr*>(&address), &length) == 0);
      if (socket == &relay) plan.relay_port = ntohs(address.sin6_port);
    }
  }
  must(guard_inbound(plan));
  must(guard_inbound(plan));  // replaces, does not add

  for (const uint16_t port : {uint16_t{8080}, uint16_t{9005}}) {
    const Attempt attempt = connect_tcp(house.street, {"172.30.0.2", port});
    REQUIRE(attempt.error == 0);
    const auto accepted = accept_from(relay);
    REQUIRE(accepted);
    must(sys::write_all(accepted->socket.get(), "hello"));
    CHECK(receive_text(attempt.socket.get()) == "hello");
  }
  REQUIRE(connect_tcp(house.street, {"fd00:30::2", 8080}).error == 0);
  REQUIRE(accept_from(relay));

  // Neither the relay itself nor any other port, listened on or not, gives an answer.
  for (const uint16_t port : {plan.relay_port, uint16_t{22}})
    CHECK(connect_tcp(house.street, {"172.30.0.2", port}).error == ETIMEDOUT);

  // What the dialer does from inside still works: connections out, and loopback.
  Fd server;
  {
    const NamespaceScope scope = must(NamespaceScope::enter(house.street.get()));
    server = must(sys::socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(443);
    REQUIRE(::bind(server.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
    REQUIRE(::listen(server.get(), 8) == 0);
  }
  CHECK(connect_tcp(house.n1, {"172.30.0.1", 443}).error == 0);
  CHECK(connect_tcp(house.n1, {"127.0.0.1", plan.relay_port}).error == 0);

  must(remove_guard(house.n1.get()));
  must(remove_guard(house.n1.get()));
  CHECK(connect_tcp(house.street, {"172.30.0.2", 22}).error == ECONNREFUSED);
}

TEST_CASE("lockin: a stray segment is no new connection into N1") {
  const House house = House::wired();
  InboundPlan plan;
  plan.n1_fd = house.n1.get();
  plan.tcp_ports = {{8080, 8080}};
  plan.relay_port = 40000;
  must(guard_inbound(plan));
  tcphdr segment{};
  segment.source = htons(5555);
  segment.dest = htons(8080);
  segment.doff = 5;
  segment.ack = 1;
  const std::string bytes(reinterpret_cast<const char*>(&segment), sizeof(segment));
  (void)house.frames_with({0});
  REQUIRE(send_datagram(house.street, SOCK_RAW, IPPROTO_TCP, {"172.30.0.2", 0}, bytes).error == 0);
  // A reset would come back from port 8080 to port 5555.
  CHECK_FALSE([&] {
    for (int i = 0; i < 10; ++i) {
      if (!is_readable(house.capture.get(), milliseconds(20))) return false;
      if (house.frames_with({0x1f, 0x90, 0x15, 0xb3}) > 0) return true;
    }
    return false;
  }());
}

TEST_CASE("lockin: the host's own namespace gets no inbound rules, and bad plans are named") {
  const Fd home = must(current_network_namespace());
  InboundPlan plan;
  plan.n1_fd = home.get();
  auto result = guard_inbound(plan);
  REQUIRE_FALSE(result);
  CHECK(contains(result.error().message(), "host's network namespace"));

  const House house = House::without_network();
  plan.n1_fd = house.n1.get();
  plan.tcp_ports = {{9, 8}};
  plan.relay_port = 1;
  result = guard_inbound(plan);
  REQUIRE_FALSE(result);
  CHECK(contains(result.error().message(), "port range 9-8"));
  plan.relay_port = 0;
  CHECK_FALSE(guard_inbound(plan));
}
