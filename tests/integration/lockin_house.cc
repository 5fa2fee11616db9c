#include "tests/integration/lockin_house.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "base/sys.h"
#include "hooks/netns.h"

namespace leash::test {
namespace {

constexpr int kOriginalDestination = 80;  // SO_ORIGINAL_DST, IP6T_SO_ORIGINAL_DST
constexpr std::chrono::milliseconds kPatience{1000};

template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message());
  return std::move(result).value();
}

void must_run(const Fd& netns, const std::vector<std::string>& command) {
  if (run_in(netns, command) == 0) return;
  std::string text;
  for (const std::string& word : command) text += word + " ";
  throw std::runtime_error("failed: " + text);
}

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  [[nodiscard]] int family() const { return storage.ss_family; }
};

Address make_address(const Endpoint& endpoint) {
  Address result;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&result.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&result.storage);
  const size_t percent = endpoint.address.find('%');
  if (inet_pton(AF_INET, endpoint.address.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(endpoint.port);
    result.length = sizeof(*v4);
  } else if (inet_pton(AF_INET6, endpoint.address.substr(0, percent).c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(endpoint.port);
    if (percent != std::string::npos) v6->sin6_scope_id = if_nametoindex(endpoint.address.c_str() + percent + 1);
    result.length = sizeof(*v6);
  } else {
    throw std::runtime_error("not an address: " + endpoint.address);
  }
  return result;
}

Endpoint make_endpoint(const sockaddr_storage& storage) {
  char text[INET6_ADDRSTRLEN] = {};
  if (storage.ss_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&storage);
    return {inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text)), ntohs(v4->sin_port)};
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&storage);
  return {inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text)), ntohs(v6->sin6_port)};
}

int bind_to_device(const Fd& socket, const std::string& device) {
  if (device.empty()) return 0;
  return ::setsockopt(socket.get(), SOL_SOCKET, SO_BINDTODEVICE, device.c_str(), static_cast<socklen_t>(device.size()));
}

class Watch {
 public:
  [[nodiscard]] std::chrono::milliseconds elapsed() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start_);
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

int spawn_in(const Fd& netns, const std::vector<std::string>& command, int output) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    const int null = ::open("/dev/null", O_RDWR);
    ::dup2(null, 0);
    ::dup2(output >= 0 ? output : null, 1);
    ::dup2(null, 2);
    if (::setns(netns.get(), CLONE_NEWNET) < 0) ::_exit(126);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

}  // namespace

int run_in(const Fd& netns, const std::vector<std::string>& command) { return spawn_in(netns, command, -1); }

std::string output_in(const Fd& netns, const std::vector<std::string>& command) {
  const Fd memory = must(sys::memfd_create("output", 0));
  if (spawn_in(netns, command, memory.get()) != 0) return {};
  ::lseek(memory.get(), 0, SEEK_SET);
  return must(sys::read_all(memory.get()));
}

House House::without_network() {
  House house;
  house.n1 = must(hooks::make_network_namespace());
  house.n2 = must(hooks::make_network_namespace());
  must_run(house.n1, {"ip", "link", "set", "lo", "up"});
  return house;
}

House House::wired() {
  House house = without_network();
  house.street = must(hooks::make_network_namespace());
  const std::string n1 = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(house.n1.get());
  must_run(house.street, {"ip", "link", "add", "wire", "type", "veth", "peer", "name", "eth0", "netns", n1});
  for (const char* address : {"172.30.0.1/24", "fd00:30::1/64"})
    must_run(house.street, {"ip", "address", "add", address, "dev", "wire", "nodad"});
  for (const char* address : {"172.30.0.2/24", "fd00:30::2/64"})
    must_run(house.n1, {"ip", "address", "add", address, "dev", "eth0", "nodad"});
  must_run(house.street, {"ip", "link", "set", "wire", "address", "02:42:ac:1e:00:01", "up"});
  must_run(house.n1, {"ip", "link", "set", "eth0", "address", "02:42:ac:1e:00:02", "mtu", "1400"});
  must_run(house.n1, {"ip", "link", "set", "eth0", "up"});
  must_run(house.n1, {"ip", "route", "add", "default", "via", "172.30.0.1"});
  must_run(house.n1, {"ip", "-6", "route", "add", "default", "via", "fd00:30::1"});

  // Fresh interfaces lose their first neighbour solicitation, which costs a second.
  must_run(house.street, {"ip", "neighbour", "add", "fd00:30::2", "lladdr", "02:42:ac:1e:00:02", "dev", "wire"});
  must_run(house.n1, {"ip", "neighbour", "add", "fd00:30::1", "lladdr", "02:42:ac:1e:00:01", "dev", "eth0"});
  // An IPv6 address works a moment after it was added.
  for (int i = 0; i < 200 && output_in(house.n1, {"ip", "-6", "route", "get", "fd00:30::2"}).find("local") != 0; ++i)
    ::usleep(5000);
  for (int i = 0; i < 200 && output_in(house.street, {"ip", "-6", "route", "get", "fd00:30::1"}).find("local") != 0; ++i)
    ::usleep(5000);

  const hooks::NamespaceScope scope = must(hooks::NamespaceScope::enter(house.street.get()));
  house.capture = must(sys::socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, htons(ETH_P_ALL)));
  sockaddr_ll wire{};
  wire.sll_family = AF_PACKET;
  wire.sll_protocol = htons(ETH_P_ALL);
  wire.sll_ifindex = static_cast<int>(if_nametoindex("wire"));
  if (::bind(house.capture.get(), reinterpret_cast<sockaddr*>(&wire), sizeof(wire)) < 0)
    throw std::runtime_error("bind the capture");
  return house;
}

int House::frames_with(const std::vector<uint8_t>& bytes) const {
  int count = 0;
  std::vector<uint8_t> frame(1 << 16);
  for (;;) {
    const ssize_t size = ::recv(capture.get(), frame.data(), frame.size(), 0);
    if (size < 0) return count;
    const auto end = frame.begin() + size;
    if (std::search(frame.begin(), end, bytes.begin(), bytes.end()) != end) ++count;
  }
}

Attempt connect_tcp(const Fd& netns, const Endpoint& to, const std::string& device) {
  const auto scope = must(hooks::NamespaceScope::enter(netns.get()));
  Address address = make_address(to);
  Attempt attempt;
  attempt.socket = must(sys::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK, 0));
  if (bind_to_device(attempt.socket, device) < 0) throw std::runtime_error("SO_BINDTODEVICE");
  const Watch watch;
  if (::connect(attempt.socket.get(), address.get(), address.length) < 0) {
    attempt.error = errno;
    if (errno == EINPROGRESS) {
      pollfd wait{attempt.socket.get(), POLLOUT, 0};
      attempt.error = ETIMEDOUT;
      socklen_t length = sizeof(attempt.error);
      if (::poll(&wait, 1, static_cast<int>(kPatience.count())) == 1)
        ::getsockopt(attempt.socket.get(), SOL_SOCKET, SO_ERROR, &attempt.error, &length);
    }
  }
  attempt.took = watch.elapsed();
  return attempt;
}

Attempt send_datagram(const Fd& netns, int type, int protocol, const Endpoint& to, const std::string& payload,
                      const std::string& device) {
  const auto scope = must(hooks::NamespaceScope::enter(netns.get()));
  Address address = make_address(to);
  if (type == SOCK_RAW) {  // IPv6 raw sockets take the protocol for a port
    if (address.family() == AF_INET6) reinterpret_cast<sockaddr_in6*>(&address.storage)->sin6_port = 0;
  }
  Attempt attempt;
  attempt.socket = must(sys::socket(address.family(), type | SOCK_NONBLOCK, protocol));
  const int on = 1;
  ::setsockopt(attempt.socket.get(), SOL_SOCKET, SO_BROADCAST, &on, sizeof(on));
  if (bind_to_device(attempt.socket, device) < 0) throw std::runtime_error("SO_BINDTODEVICE");
  const Watch watch;
  if (::sendto(attempt.socket.get(), payload.data(), payload.size(), 0, address.get(), address.length) < 0)
    attempt.error = errno;
  attempt.took = watch.elapsed();
  return attempt;
}

bool is_readable(int fd, std::chrono::milliseconds timeout) {
  pollfd wait{fd, POLLIN, 0};
  return ::poll(&wait, 1, static_cast<int>(timeout.count())) == 1;
}

std::optional<Accepted> accept_from(const Fd& listener) {
  if (!is_readable(listener.get(), std::chrono::seconds(1))) return std::nullopt;
  Accepted accepted;
  accepted.socket.reset(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!accepted.socket) return std::nullopt;
  sockaddr_storage self{};
  socklen_t length = sizeof(self);
  ::getsockname(accepted.socket.get(), reinterpret_cast<sockaddr*>(&self), &length);
  sockaddr_storage wanted{};
  length = sizeof(wanted);
  const int level = self.ss_family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6;
  if (::getsockopt(accepted.socket.get(), level, kOriginalDestination, &wanted, &length) == 0)
    accepted.wanted = make_endpoint(wanted);
  return accepted;
}

std::string receive_text(int fd) {
  if (!is_readable(fd, std::chrono::seconds(1))) return "(nothing)";
  char buffer[2048];
  const ssize_t size = ::recv(fd, buffer, sizeof(buffer), 0);
  return size < 0 ? "(error)" : std::string(buffer, static_cast<size_t>(size));
}

const hooks::Listener& listener_of(const hooks::LockIn& lock_in, oci::ListenerKind kind, bool is_ipv6) {
  for (const hooks::Listener& listener : lock_in.listeners)
    if (listener.kind == kind && listener.is_ipv6 == is_ipv6) return listener;
  throw std::runtime_error("no such listener");
}

}  // namespace leash::test
