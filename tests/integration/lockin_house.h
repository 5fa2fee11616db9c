// A house of three network namespaces for the tests of the lock-in: the street (the world, with a
// capture on it), N1 (as the engine would wire it) and N2 (the container's). Everything goes with the
// descriptors; the machine's own namespace is never touched.
#pragma once

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "hooks/lockin.h"

namespace leash::test {

struct Endpoint {
  std::string address;
  uint16_t port = 0;
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// A wired N1: 172.30.0.2/24 and fd00:30::2/64 on eth0, default routes via .1 and ::1 in the street.
struct House {
  Fd street;
  Fd n1;
  Fd n2;
  Fd capture;  // AF_PACKET on the street's end of the wire

  static House wired();
  static House without_network();  // --network none

  // Frames on the wire since the last call that contain `bytes`.
  [[nodiscard]] int frames_with(const std::vector<uint8_t>& bytes) const;
};

// Runs a program inside the namespace; its exit status. Output goes nowhere.
int run_in(const Fd& netns, const std::vector<std::string>& command);
std::string output_in(const Fd& netns, const std::vector<std::string>& command);

// errno of what happened, 0 for success; never waits longer than a second (ETIMEDOUT).
struct Attempt {
  int error = 0;
  std::chrono::milliseconds took{0};
  Fd socket;
};
// `device`: SO_BINDTODEVICE before.
Attempt connect_tcp(const Fd& netns, const Endpoint& to, const std::string& device = {});
Attempt send_datagram(const Fd& netns, int type, int protocol, const Endpoint& to, const std::string& payload,
                      const std::string& device = {});

// A connection out of the backlog, waiting up to a second, and where its client wanted to go.
struct Accepted {
  Fd socket;
  Endpoint wanted;
};
std::optional<Accepted> accept_from(const Fd& listener);
bool is_readable(int fd, std::chrono::milliseconds timeout);
std::string receive_text(int fd);

const hooks::Listener& listener_of(const hooks::LockIn& lock_in, oci::ListenerKind kind, bool is_ipv6);

}  // namespace leash::test
