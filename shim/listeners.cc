#include "shim/listeners.h"

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <utility>

#include "shim/journal.h"

namespace leash::shim {

namespace {

bool is_udp(oci::ListenerKind kind) {
  return kind == oci::ListenerKind::kDnsEngineUdp || kind == oci::ListenerKind::kDnsOtherUdp;
}

void answer_servfail(int socket) {
  // A few at a time: the loop has other things to do, and what remains makes it readable again.
  for (int i = 0; i < 16; ++i) {
    std::vector<char> packet(4096);
    struct sockaddr_storage from = {};
    socklen_t size = sizeof from;
    const ssize_t length = ::recvfrom(socket, packet.data(), packet.size(), MSG_DONTWAIT,
                                      reinterpret_cast<struct sockaddr*>(&from), &size);
    if (length < 0) return;
    packet.resize(static_cast<size_t>(length));
    if (!make_servfail(packet)) continue;
    (void)::sendto(socket, packet.data(), packet.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
                   reinterpret_cast<const struct sockaddr*>(&from), size);
  }
}

void accept_and_reset(int socket) {
  for (int i = 0; i < 16; ++i) {
    const Fd client(::accept4(socket, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!client) return;
    const struct linger now = {1, 0};
    (void)::setsockopt(client.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  }
}

}  // namespace

bool make_servfail(std::vector<char>& packet) {
  constexpr size_t kHeader = 12;
  if (packet.size() < kHeader || (packet[2] & 0x80) != 0) return false;
  packet[2] = static_cast<char>((packet[2] & 0x79) | 0x80);  // QR; opcode and RD are kept
  packet[3] = 2;                                             // RCODE SERVFAIL
  // The question stays: glibc takes an answer without it for one to an older query, and waits on.
  return true;
}

Listeners::~Listeners() { leave(); }

void Listeners::refuse() {
  if (std::exchange(is_refusing_, true)) return;
  for (const hooks::Listener& listener : sockets_) {
    const int socket = listener.socket.get();
    auto watched = is_udp(listener.kind)
                       ? loop_.watch(socket, EPOLLIN, [socket](uint32_t) { answer_servfail(socket); })
                       : loop_.watch(socket, EPOLLIN, [socket](uint32_t) { accept_and_reset(socket); });
    if (!watched) note("refuse while the proxy is away: " + watched.error().message());
  }
}

void Listeners::leave() {
  if (!std::exchange(is_refusing_, false)) return;
  for (const hooks::Listener& listener : sockets_) loop_.unwatch(listener.socket.get());
}

}  // namespace leash::shim
