// Resolver: the only way in which names become addresses, for the DNS listeners and for dialling.
//
// The proxy dials what this resolver answered, never an address that a client claims. Upstream
// answers are checked (id, question, 0x20 case), only A/AAAA/CNAME are read from them, and the class
// of every address is judged by policy. One cache serves both sides, so that what the container was
// told is what the proxy dials. Upstream sockets are made by the dialer in N1.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "oci-spec/ip_class.h"
#include "oci-spec/policy.h"
#include "oci-spec/proxy_protocol.h"
#include "oci-spec/rules.h"
#include "proxy/dns_guard.h"

namespace leash::proxy {

// A non-blocking socket in N1 that is connected to the address, within the dialler's own deadline.
using DialUpstream =
    std::function<boost::asio::awaitable<Result<Fd>>(oci::IpAddress address, uint16_t port, bool is_udp)>;

struct ResolverConfig {
  struct Server {
    oci::IpAddress address;
    uint16_t port = 53;
  };
  std::vector<Server> servers;  // for names that the engine does not know
  bool has_engine_dns = false;  // 127.0.0.11 answers in N1
  bool is_chosen_by_policy = false;  // `servers` are the policy's dns.servers

  // From the shim's document; an error names the bad entry.
  [[nodiscard]] static Result<ResolverConfig> from(const oci::ProxyConfig& config, const oci::Policy& policy);
};

// What is known of N1; nothing is on-link until the shim has said so.
struct ResolverNetwork {
  std::vector<oci::IpNetwork> onlink;  // where peers are
  std::vector<oci::IpAddress> never;   // N1's gateways and own addresses: never destinations
  bool has_engine_dns = false;         // as in ResolverConfig, known by now for certain

  [[nodiscard]] static Result<ResolverNetwork> from(const oci::NetworkFacts& facts);
};

struct Resolution {
  std::vector<oci::IpAddress> addresses;  // those that may be dialled, in the upstream's order
  std::vector<oci::IpAddress> refused;    // the rest, for the log
  uint32_t ttl_seconds = 0;
  // Not allowed: the name has addresses, but each is refused (private, link-local ...).
  oci::Verdict verdict;
};

enum class ResolverView { kEngine, kOther };  // which listener asked; dialling uses the engine's if there is one

class Resolver {
 public:
  // `policy` is borrowed and outlives the resolver.
  Resolver(boost::asio::any_io_executor executor, const oci::Policy& policy, ResolverConfig config,
           DialUpstream dial);
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // At the shim's message `network`.
  void set_network(ResolverNetwork network);

  // Addresses to dial for `host` (normalised; an address literal comes back as itself). IPv4 and IPv6,
  // judged. Errors: ENOENT no such name or no address; ETIMEDOUT no upstream answered; EACCES only
  // addresses that are never destinations. A name that admit() refuses: a verdict that says so.
  [[nodiscard]] boost::asio::awaitable<Result<Resolution>> resolve(std::string host);
  // One family alone, for the DNS listeners. ENOENT: NXDOMAIN; no addresses: NODATA.
  [[nodiscard]] boost::asio::awaitable<Result<Resolution>> query(std::string host, bool is_ipv6,
                                                                 ResolverView view);
  // To be asked before query(): may this name go upstream, by its looks and by how many there were
  // (dns_guard.h)? What the cache answers may always. resolve() asks it itself, since a name in a Host
  // header or a ClientHello reaches the zone's servers as one in a DNS query does.
  [[nodiscard]] DnsGuard::Answer admit(const std::string& host, bool is_ipv6, ResolverView view);
  // The peer's name behind an on-link address, as the engine knows it; empty if none.
  [[nodiscard]] boost::asio::awaitable<Result<std::string>> peer_name(oci::IpAddress address);

  // Names that were answered with `address` lately (plain TCP rules), newest first.
  [[nodiscard]] std::vector<std::string> names_of(const oci::IpAddress& address) const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  // shared with lookups under way, which others may wait for
};

}  // namespace leash::proxy
