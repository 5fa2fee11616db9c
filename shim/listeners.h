// The listening sockets of N2, which the shim keeps while proxies come and go.
//
// While no proxy lives, nobody may hang: the shim itself accepts TCP connections and resets them, and
// answers DNS queries with SERVFAIL, which resolvers take as "ask again" at once. (Shutting the listeners
// down would be plainer, but listen(2) then fails with EADDRINUSE as long as a connection of the dead proxy
// is in TIME_WAIT, and SO_REUSEADDR, which would help, lets the container take the port meanwhile.)
#pragma once

#include <vector>

#include "base/result.h"
#include "hooks/lockin.h"
#include "shim/loop.h"

namespace leash::shim {

class Listeners {
 public:
  Listeners(Loop& loop, std::vector<hooks::Listener> sockets) : loop_(loop), sockets_(std::move(sockets)) {}
  ~Listeners();
  Listeners(const Listeners&) = delete;
  Listeners& operator=(const Listeners&) = delete;

  void refuse();
  // Leaves them to a proxy again.
  void leave();
  [[nodiscard]] const std::vector<hooks::Listener>& sockets() const { return sockets_; }

 private:
  Loop& loop_;
  std::vector<hooks::Listener> sockets_;
  bool is_refusing_ = false;
};

// Turns a DNS query into its SERVFAIL answer, by the header alone (RFC 1035, section 4.1.1). False: not a
// query.
[[nodiscard]] bool make_servfail(std::vector<char>& packet);

}  // namespace leash::shim
