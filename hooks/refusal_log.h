// What the ruleset of N2 refused, as the kernel reports it (NFLOG). The log rule is rate limited so
// that a flood cannot cost more than the flood itself; the counters of the rules miss nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "oci-spec/proxy_protocol.h"

namespace leash::hooks {

inline constexpr uint16_t kRefusalGroup = 7;

class RefusalLog {
 public:
  // Binds the group in the namespace. One socket per group and namespace: whoever comes second gets
  // EBUSY, and cannot take it over.
  [[nodiscard]] static Result<RefusalLog> open(int netns_fd);

  // Non-blocking; readable when something was refused.
  [[nodiscard]] int fd() const { return socket_.get(); }
  // All reports that are waiting; empty when there are none. Reports that the kernel dropped because
  // nobody read in time are only missing here: the counters have them.
  [[nodiscard]] Result<std::vector<oci::RefusedPacket>> read() const;

 private:
  explicit RefusalLog(Fd socket) : socket_(std::move(socket)) {}
  Fd socket_;
};

// The head of an IPv4 or IPv6 packet (its first bytes; may be cut anywhere; written by the container).
// nullopt: not even an address in it. `destination` is the address, without brackets.
[[nodiscard]] std::optional<oci::RefusedPacket> parse_refused_packet(std::span<const uint8_t> packet);

}  // namespace leash::hooks
