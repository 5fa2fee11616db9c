// DnsServer: answers the container's DNS on the listeners that were made in N2.
//
// A denied name is NXDOMAIN with EDE 15 (REFUSED makes musl wait and glibc retry) and a line in
// blocked.jsonl. Answers are built here from checked addresses alone: nothing of an upstream's packet
// is passed on, so HTTPS/SVCB (ECH), TXT, NULL and extra sections have no way through. Names that no
// rule names itself, under an allowed suffix, are bounded in label length, entropy and rate, since a
// name is also a message to whoever runs its zone.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <memory>

#include "base/fd.h"
#include "base/result.h"
#include "oci-spec/event.h"
#include "oci-spec/policy.h"
#include "oci-spec/proxy_protocol.h"
#include "proxy/resolver.h"

namespace leash::proxy {

// The server fills in everything but seq, id and container. Misses in observe mode come as FlowEvent.
struct DnsLog {
  std::function<void(oci::BlockedEvent)> blocked;
  std::function<void(oci::FlowEvent)> observed;
};

class DnsServer {
 public:
  // All borrowed things outlive the server.
  DnsServer(boost::asio::any_io_executor executor, const oci::Policy& policy, Resolver& resolver, DnsLog log);
  ~DnsServer();
  DnsServer(const DnsServer&) = delete;
  DnsServer& operator=(const DnsServer&) = delete;

  // Starts to serve an inherited listener of one of the four DNS kinds.
  [[nodiscard]] Result<void> serve(oci::ListenerKind kind, Fd socket);
  // Closes the listeners and cancels what is under way.
  void stop();

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  // shared with the sessions, which may outlive a stop() by one turn of the loop
};

}  // namespace leash::proxy
