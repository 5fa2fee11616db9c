// Stands in for leash-proxy in the shim's tests: speaks its side of oci-spec/proxy_protocol.h and does on
// request what a proxy does only when things go wrong. A connection to its TCP listener carries one
// command line and gets one answer. The policy text of a container may hold "# double: WORD" for
// what shall happen before there is a listener.
#include <arpa/inet.h>
#include <dirent.h>
#include <linux/netfilter_ipv4.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/channel.h"
#include "base/file.h"
#include "base/sys.h"
#include "oci-spec/event.h"
#include "oci-spec/proxy_protocol.h"

using namespace leash;

extern char** environ;

namespace {

struct Double {
  Channel control{Fd(3)};
  oci::ProxyConfig config;
  Fd flows;
  Fd blocked;
  Fd dialer;
  Fd in_flight;
  std::vector<Fd> listeners;
  std::vector<oci::ListenerKind> kinds;
  std::vector<oci::ProxySecret> secrets;
  std::vector<oci::RefusedPacket> refused;
  oci::NetworkFacts network;
  std::string fds_at_start;
};

std::string open_descriptors() {
  std::vector<int> numbers;
  DIR* directory = ::opendir("/proc/self/fd");
  while (const dirent* entry = ::readdir(directory)) {
    const int number = std::atoi(entry->d_name);
    if (entry->d_name[0] != '.' && number != ::dirfd(directory)) numbers.push_back(number);
  }
  ::closedir(directory);
  std::sort(numbers.begin(), numbers.end());
  std::string text;
  for (const int number : numbers) text += (text.empty() ? "" : ",") + std::to_string(number);
  return text;
}

std::string status_line(const char* name) {
  const std::string text = file::read("/proc/self/status").value();
  const size_t start = text.find(std::string("\n") + name + ":");
  const size_t value = text.find_first_not_of(" \t", start + std::strlen(name) + 2);
  return text.substr(value, text.find('\n', value) - value);
}

std::string identity(const Double& self) {
  int death_signal = 0;
  (void)::prctl(PR_GET_PDEATHSIG, &death_signal);
  struct rlimit core = {};
  (void)::getrlimit(RLIMIT_CORE, &core);
  char cwd[256] = "?";
  (void)!::getcwd(cwd, sizeof cwd);
  std::ostringstream text;
  text << "uid=" << ::getuid() << " euid=" << ::geteuid() << " gid=" << ::getgid() << " groups=" << ::getgroups(0, nullptr)
       << " eff=" << status_line("CapEff") << " prm=" << status_line("CapPrm") << " bnd=" << status_line("CapBnd")
       << " nnp=" << status_line("NoNewPrivs") << " death=" << death_signal << " core=" << core.rlim_max << " cwd=" << cwd
       << " env=" << (environ[0] == nullptr ? "empty" : environ[0]) << " fds=" << self.fds_at_start;
  return text.str();
}

void write_flow(Double& self, const std::string& host) {
  oci::FlowEvent event;
  event.time_us = 1700000000000000;
  event.seq = ++self.config.flows_seq;
  event.id = "double";
  event.container = self.config.container_id;
  event.scheme = "https";
  event.host = host;
  std::string line;
  oci::print(event, line);
  (void)sys::write_all(self.flows.get(), line);
}

std::string dial(const Double& self, const std::string& address, uint16_t port, bool is_udp) {
  oci::DialRequest request;
  request.tag = 7;
  request.is_udp = is_udp ? 1 : 0;
  request.port = port;
  request.is_ipv6 = address.find(':') != std::string::npos ? 1 : 0;
  (void)::inet_pton(request.is_ipv6 != 0 ? AF_INET6 : AF_INET, address.c_str(), request.address);
  (void)::send(self.dialer.get(), &request, sizeof request, MSG_NOSIGNAL);
  oci::DialReply reply;
  struct iovec part = {&reply, sizeof reply};
  alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  struct msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  if (::recvmsg(self.dialer.get(), &header, MSG_CMSG_CLOEXEC) != static_cast<ssize_t>(sizeof reply)) return "dialer is gone";
  if (reply.tag != 7) return "wrong tag";
  if (reply.error != 0) return ::strerrorname_np(reply.error);
  Fd socket;
  if (const struct cmsghdr* item = CMSG_FIRSTHDR(&header)) {
    int number = -1;
    std::memcpy(&number, CMSG_DATA(item), sizeof number);
    socket.reset(number);
  }
  struct pollfd entry = {socket.get(), POLLOUT, 0};
  (void)::poll(&entry, 1, 3000);
  int error = 0;
  socklen_t size = sizeof error;
  (void)::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return ::strerrorname_np(error);
  (void)::send(socket.get(), "ping\n", 5, MSG_NOSIGNAL);
  entry.events = POLLIN;
  (void)::poll(&entry, 1, 3000);
  char buffer[256] = {};
  const ssize_t length = ::recv(socket.get(), buffer, sizeof buffer - 1, 0);
  return length < 0 ? ::strerrorname_np(errno) : std::string(buffer, static_cast<size_t>(length));
}

void handle(Double& self, Message message);

std::string answer(Double& self, const std::string& line) {
  std::istringstream words(line);
  std::string command;
  words >> command;
  if (command == "hello") return "hi";
  if (command == "pid") return std::to_string(::getpid());
  if (command == "ids") return identity(self);
  if (command == "seq") return std::to_string(self.config.flows_seq);
  if (command == "die") (void)::raise(SIGKILL);
  if (command == "dial" || command == "dialudp") {
    std::string address;
    uint16_t port = 0;
    words >> address >> port;
    return dial(self, address, port, command == "dialudp");
  }
  if (command == "flow") {
    std::string host;
    words >> host;
    write_flow(self, host);
    return "written";
  }
  if (command == "crash") {  // in the middle of a line, with two exchanges under way
    constexpr size_t kSize = sizeof(oci::InFlightSlot) * oci::kInFlightSlots;
    auto* slots = static_cast<oci::InFlightSlot*>(
        ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, self.in_flight.get(), 0));
    for (size_t i = 0; i < 2; ++i) {
      std::strcpy(slots[i].scheme, "https");
      std::strcpy(slots[i].host, i == 0 ? "first.example" : "second.example");
      slots[i].started_us = 1700000000000000 + static_cast<int64_t>(i);
      slots[i].state = 1;
    }
    (void)sys::write_all(self.flows.get(), "{\"ts\":1700000000,\"seq\":");
    (void)::raise(SIGKILL);
  }
  if (command == "secrets") {
    std::string text;
    for (const oci::ProxySecret& secret : self.secrets) text += secret.name + "=" + secret.placeholder + "=" + secret.value + ";";
    return text;
  }
  if (command == "refused") {
    std::string text;
    for (const oci::RefusedPacket& packet : self.refused) text += packet.protocol + ">" + packet.destination + ":" + std::to_string(packet.port) + ";";
    return text;
  }
  if (command == "network") {
    std::string text;
    for (const std::string& network : self.network.onlink_networks) text += network + ";";
    for (const std::string& address : self.network.never_destinations) text += "!" + address + ";";
    return text;
  }
  if (command == "rotate") {
    (void)self.control.send("rotate", oci::print(oci::RotateRequest{"flows"}));
    for (;;) {
      auto message = self.control.receive().value().value();
      const bool is_rotated = message.kind == "rotated";
      handle(self, std::move(message));
      if (is_rotated) return "rotated";
    }
  }
  return "what?";
}

void handle(Double& self, Message message) {
  if (message.kind == "configure") {
    self.config = oci::parse_proxy_config(message.body).value();
    self.flows = std::move(message.fds.at(0));
    self.blocked = std::move(message.fds.at(1));
    self.dialer = std::move(message.fds.at(2));
    self.in_flight = std::move(message.fds.at(3));
    self.secrets = self.config.secrets;
    const std::string& policy = self.config.policy.text;
    if (policy.find("# double: fail-configure") != std::string::npos) {
      (void)self.control.send("failed", "no such file or directory: the double was told to fail");
    } else if (policy.find("# double: die-configure") != std::string::npos) {
      (void)::raise(SIGKILL);
    } else {
      (void)self.control.send("configured");
    }
  } else if (message.kind == "network") {
    self.network = oci::parse_network_facts(message.body).value();
  } else if (message.kind == "listen") {
    const std::string& policy = self.config.policy.text;
    if (policy.find("# double: fail-listen") != std::string::npos) {
      (void)self.control.send("failed", "permission denied: the double was told to fail");
      return;
    }
    if (policy.find("# double: die-listen") != std::string::npos) (void)::raise(SIGKILL);
    self.kinds = oci::parse_listener_list(message.body).value().kinds;
    self.listeners = std::move(message.fds);
    (void)self.control.send("listening");
  } else if (message.kind == "secret") {
    self.secrets.push_back(oci::parse_proxy_secret(message.body).value());
    (void)self.control.send("stored");
  } else if (message.kind == "rotated") {
    const bool is_flows = oci::parse_rotate_request(message.body).value().log == "flows";
    (is_flows ? self.flows : self.blocked) = std::move(message.fds.at(0));
  } else if (message.kind == "refused") {
    self.refused.push_back(oci::parse_refused_packet(message.body).value());
  }
}

// Who is at the other end of `client`, as leash-proxy asks.
std::string who(Double& self, int client) {
  struct sockaddr_in peer = {};
  struct sockaddr_in meant = {};
  socklen_t size = sizeof peer;
  (void)::getpeername(client, reinterpret_cast<struct sockaddr*>(&peer), &size);
  size = sizeof meant;
  if (::getsockopt(client, SOL_IP, SO_ORIGINAL_DST, &meant, &size) < 0) return "no original destination";
  char text[INET_ADDRSTRLEN] = {};
  oci::WhoRequest request;
  request.tag = 9;
  request.source = ::inet_ntop(AF_INET, &peer.sin_addr, text, sizeof text);
  request.source_port = ntohs(peer.sin_port);
  request.destination = ::inet_ntop(AF_INET, &meant.sin_addr, text, sizeof text);
  request.destination_port = ntohs(meant.sin_port);
  (void)self.control.send("who", oci::print(request));
  for (;;) {
    Message message = self.control.receive().value().value();
    if (message.kind != "who") {
      handle(self, std::move(message));
      continue;
    }
    const oci::WhoReply reply = oci::parse_who_reply(message.body).value();
    return reply.tag == 9 ? oci::process_text(reply) : "wrong tag";
  }
}

void serve(Double& self, int listener) {
  const Fd client(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  if (!client) return;
  std::string line;
  char byte = 0;
  while (::recv(client.get(), &byte, 1, 0) == 1 && byte != '\n') line += byte;
  const std::string text = (line == "who" ? who(self, client.get()) : answer(self, line)) + "\n";
  (void)::send(client.get(), text.data(), text.size(), MSG_NOSIGNAL);
}

}  // namespace

int main() {
  Double self;
  self.fds_at_start = open_descriptors();
  for (;;) {
    std::vector<struct pollfd> entries = {{3, POLLIN, 0}};
    for (size_t i = 0; i < self.listeners.size(); ++i) {
      if (self.kinds[i] == oci::ListenerKind::kTcp) entries.push_back({self.listeners[i].get(), POLLIN, 0});
    }
    if (::poll(entries.data(), entries.size(), -1) < 0) continue;
    if (entries[0].revents != 0) {
      auto received = self.control.receive();
      if (!received || !received->has_value()) return 0;
      handle(self, std::move(**received));
      continue;
    }
    for (const struct pollfd& entry : entries) {
      if (entry.fd != 3 && entry.revents != 0) serve(self, entry.fd);
    }
  }
}
