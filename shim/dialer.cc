#include "shim/dialer.h"

#include <arpa/inet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>

#include "base/channel.h"
#include "base/sys.h"
#include "oci-spec/proxy_protocol.h"
#include "shim/unprivileged.h"

namespace leash::shim {

namespace {

using oci::DialReply;
using oci::DialRequest;

size_t address_size(bool is_ipv6) { return is_ipv6 ? 16 : 4; }

// IPv4 inside IPv6 (mapped, compatible, NAT64, 6to4) would pass a check of the outer form only.
bool is_embedded_ipv4(const uint8_t* address) {
  static constexpr uint8_t kZero[10] = {};
  static constexpr uint8_t kNat64[12] = {0x00, 0x64, 0xff, 0x9b};
  const bool is_mapped = std::memcmp(address, kZero, 10) == 0 && (address[10] == 0xff || address[10] == 0);
  return is_mapped || std::memcmp(address, kNat64, 12) == 0 || (address[0] == 0x20 && address[1] == 0x02);
}

// Asks the routing table of this namespace what kind of destination the address is: 0 when packets to it
// leave the machine by a unicast route, else an errno.
int route_problem(int netlink, const DialRequest& request) {
  struct {
    struct nlmsghdr header;
    struct rtmsg route;
    struct rtattr attribute;
    uint8_t address[16];
  } query = {};
  const size_t size = address_size(request.is_ipv6 != 0);
  query.header.nlmsg_len = static_cast<uint32_t>(NLMSG_LENGTH(sizeof query.route) + RTA_SPACE(size));
  query.header.nlmsg_type = RTM_GETROUTE;
  query.header.nlmsg_flags = NLM_F_REQUEST;
  query.header.nlmsg_seq = request.tag;
  query.route.rtm_family = request.is_ipv6 != 0 ? AF_INET6 : AF_INET;
  query.route.rtm_dst_len = static_cast<uint8_t>(size * 8);
  query.attribute.rta_type = RTA_DST;
  query.attribute.rta_len = static_cast<uint16_t>(RTA_LENGTH(size));
  std::memcpy(query.address, request.address, size);
  if (::send(netlink, &query, query.header.nlmsg_len, 0) < 0) return errno;

  alignas(struct nlmsghdr) std::array<char, 4096> answer;
  for (;;) {
    const ssize_t length = ::recv(netlink, answer.data(), answer.size(), 0);
    if (length < 0 && errno == EINTR) continue;
    if (length < 0) return errno;
    const auto* header = reinterpret_cast<const struct nlmsghdr*>(answer.data());
    if (!NLMSG_OK(header, static_cast<size_t>(length))) return EPROTO;
    if (header->nlmsg_seq != request.tag) continue;
    if (header->nlmsg_type == NLMSG_ERROR) {
      const auto* error = static_cast<const struct nlmsgerr*>(NLMSG_DATA(header));
      return error->error != 0 ? -error->error : EPROTO;
    }
    if (header->nlmsg_type != RTM_NEWROUTE) return EPROTO;
    const auto* route = static_cast<const struct rtmsg*>(NLMSG_DATA(header));
    switch (route->rtm_type) {
      case RTN_UNICAST: return 0;
      case RTN_UNREACHABLE:
      case RTN_BLACKHOLE: return ENETUNREACH;
      default: return EACCES;
    }
  }
}

bool is_resolver(const DialRequest& request, const std::vector<ResolverAddress>& resolvers) {
  for (const ResolverAddress& resolver : resolvers) {
    if (resolver.port == request.port && resolver.is_ipv6 == (request.is_ipv6 != 0) &&
        std::memcmp(resolver.address, request.address, address_size(resolver.is_ipv6)) == 0) {
      return true;
    }
  }
  return false;
}

int destination_problem(int netlink, const DialRequest& request, const std::vector<ResolverAddress>& resolvers) {
  if (request.port == 0) return EACCES;
  if (is_resolver(request, resolvers)) return 0;
  if (request.is_ipv6 != 0) {
    // Link-local needs a scope, which a request cannot carry; ::, ::1 and multicast are the route's to tell.
    if (is_embedded_ipv4(request.address)) return EACCES;
    if (request.address[0] == 0xff || (request.address[0] == 0xfe && (request.address[1] & 0xc0) == 0x80)) return EACCES;
  } else {
    // 127.0.0.0/8 is local by the table too; 0.0.0.0 means this host to connect(2), a route to none.
    if (request.address[0] == 0 || request.address[0] == 127 || request.address[0] >= 224) return EACCES;
  }
  return route_problem(netlink, request);
}

// A non-blocking socket whose connect is under way; or an errno.
int dial(const DialRequest& request, Fd& result) {
  const int family = request.is_ipv6 != 0 ? AF_INET6 : AF_INET;
  const int type = (request.is_udp != 0 ? SOCK_DGRAM : SOCK_STREAM) | SOCK_NONBLOCK | SOCK_CLOEXEC;
  Fd made(::socket(family, type, 0));
  if (!made) return errno;
  struct sockaddr_in v4 = {};
  struct sockaddr_in6 v6 = {};
  const struct sockaddr* address = nullptr;
  socklen_t size = 0;
  if (family == AF_INET6) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(request.port);
    std::memcpy(&v6.sin6_addr, request.address, 16);
    address = reinterpret_cast<const struct sockaddr*>(&v6);
    size = sizeof v6;
  } else {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(request.port);
    std::memcpy(&v4.sin_addr, request.address, 4);
    address = reinterpret_cast<const struct sockaddr*>(&v4);
    size = sizeof v4;
  }
  if (::connect(made.get(), address, size) < 0 && errno != EINPROGRESS) return errno;
  result = std::move(made);
  return 0;
}

bool reply(int socket, const DialReply& answer, const Fd& fd) {
  DialReply body = answer;
  struct iovec part = {&body, sizeof body};
  alignas(struct cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  struct msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    struct cmsghdr* item = CMSG_FIRSTHDR(&message);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN(sizeof(int));
    const int number = fd.get();
    std::memcpy(CMSG_DATA(item), &number, sizeof number);
  }
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  // ETOOMANYREFS: too many descriptors of ours are in flight to a proxy that does not read. It must not
  // wait for an answer that never comes.
  if (sent < 0 && errno == ETOOMANYREFS && fd) return reply(socket, DialReply{answer.tag, EAGAIN}, Fd());
  return sent >= 0;
}

[[noreturn]] void serve(int socket, int netlink, const std::vector<ResolverAddress>& resolvers) {
  for (;;) {
    DialRequest request = {};
    const ssize_t length = ::recv(socket, &request, sizeof request, MSG_TRUNC);
    if (length < 0 && errno == EINTR) continue;
    if (length <= 0) ::_exit(0);  // the proxy has gone
    DialReply answer = {request.tag, 0};
    Fd made;
    answer.error = length == static_cast<ssize_t>(sizeof request) ? destination_problem(netlink, request, resolvers)
                                                                  : EPROTO;
    if (answer.error == 0) answer.error = dial(request, made);
    if (!reply(socket, answer, made)) ::_exit(0);
  }
}

// In the child. Comes back only with an error.
Error run_dialer(int n1_fd, Fd shim_end, pid_t parent, const std::vector<ResolverAddress>& resolvers) {
  (void)::prctl(PR_SET_NAME, "leash-dialer", 0, 0, 0);
  auto in_n1 = sys::setns(n1_fd, CLONE_NEWNET).context("enter the engine's network namespace");
  if (!in_n1) return std::move(in_n1).error();
  auto netlink = sys::socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
  if (!netlink) return std::move(netlink).error();
  // The kernel answers a route query at once; a deadline keeps a surprise from becoming a hang.
  const struct timeval deadline = {2, 0};
  (void)::setsockopt(netlink->get(), SOL_SOCKET, SO_RCVTIMEO, &deadline, sizeof deadline);
  auto closed = close_all_but({shim_end.get(), netlink->get()});
  if (!closed) return std::move(closed).error();
  auto dropped = give_up_privileges(child_uid(ChildKind::kDialer, ::getpid()), parent);
  if (!dropped) return std::move(dropped).error();
  if (!reply(shim_end.get(), DialReply{0, 0}, Fd())) ::_exit(0);
  serve(shim_end.get(), netlink->get(), resolvers);
}

}  // namespace

Result<ResolverAddress> parse_resolver(std::string_view text) {
  ResolverAddress result;
  std::string host(text);
  std::string_view port;
  if (!host.empty() && host.front() == '[') {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) return Error(EINVAL, "resolver '" + std::string(text) + "': no ']'");
    host = text.substr(1, end - 1);
    const std::string_view rest = text.substr(end + 1);
    if (!rest.empty()) port = rest.front() == ':' ? rest.substr(1) : rest;
  } else if (const size_t colon = text.find(':'); colon != std::string_view::npos && colon == text.rfind(':')) {
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  if (!port.empty()) {
    const auto parsed = std::from_chars(port.data(), port.data() + port.size(), result.port);
    if (parsed.ec != std::errc() || parsed.ptr != port.data() + port.size() || result.port == 0) {
      return Error(EINVAL, "resolver '" + std::string(text) + "': no port number");
    }
  }
  // resolv.conf may name an interface after '%'; the link-local address itself is of no use without it.
  if (const size_t zone = host.find('%'); zone != std::string::npos) host.resize(zone);
  if (::inet_pton(AF_INET, host.c_str(), result.address) == 1) return result;
  result.is_ipv6 = true;
  if (::inet_pton(AF_INET6, host.c_str(), result.address) == 1) return result;
  return Error(EINVAL, "resolver '" + std::string(text) + "': no address");
}

Result<Dialer> start_dialer(int n1_fd, const std::vector<std::string>& resolvers) {
  std::vector<ResolverAddress> exempt;
  exempt.push_back(parse_resolver("127.0.0.11").value());
  for (const std::string& text : resolvers) {
    TRY(ResolverAddress address, parse_resolver(text));
    exempt.push_back(address);
  }
  TRY(auto ends, sys::socketpair(SOCK_SEQPACKET));
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return Error::last_errno("fork the dialer");
  if (pid == 0) {
    ends.second.reset();
    const int socket = ends.first.get();
    const Error error = run_dialer(n1_fd, std::move(ends.first), parent, exempt);
    (void)reply(socket, DialReply{0, error.code() != 0 ? error.code() : EPROTO}, Fd());
    ::_exit(1);
  }
  ends.first.reset();
  Dialer dialer;
  dialer.pid = pid;
  dialer.proxy_end = std::move(ends.second);
  auto pidfd = sys::pidfd_open(pid);
  if (pidfd) dialer.pidfd = std::move(pidfd).value();
  const auto started = [&]() -> Result<void> {
    if (!dialer.pidfd) return std::move(pidfd).error();
    struct pollfd entry = {dialer.proxy_end.get(), POLLIN, 0};
    if (::poll(&entry, 1, 5000) <= 0) return Error(ETIMEDOUT, "no answer");
    DialReply ready = {};
    const ssize_t length = ::recv(dialer.proxy_end.get(), &ready, sizeof ready, 0);
    if (length != static_cast<ssize_t>(sizeof ready)) return Error(EPROTO, "ended early");
    if (ready.error != 0) return Error::from_errno(ready.error, "enter the network namespace and drop privileges");
    return {};
  }();
  if (!started) {
    (void)::kill(pid, SIGKILL);
    (void)::waitpid(pid, nullptr, 0);
    return Error(started.error()).context("dialer");
  }
  return dialer;
}

}  // namespace leash::shim
