// Keeps the interfaces, addresses and routes of N2 like those of N1 (`docker network connect` adds an
// eth1 there while the container runs). It does not follow single events: any event makes it read
// the whole state of N1 and apply the difference to what it applied before, so that a lost event or
// an overrun cannot leave the two apart.
#pragma once

#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "hooks/net_state.h"

namespace leash::hooks {

class AddressMirror {
 public:
  // Listens in N1 from now on; sync() then makes N2 alike. The other ends of N2's interfaces are in a
  // namespace that lives by the mirror alone: when the mirror goes, the interfaces vanish from N2.
  [[nodiscard]] static Result<AddressMirror> create(int n1_fd, int n2_fd);

  // Non-blocking; readable when something changed in N1: then call sync().
  [[nodiscard]] int fd() const { return events_.get(); }

  // Drains the events and makes N2 like N1. Interfaces and addresses that cannot be made are errors.
  // Routes are for the programs' eyes only (no packet ever takes them): those that the kernel refuses
  // come back as notes.
  [[nodiscard]] Result<std::vector<std::string>> sync();

  [[nodiscard]] const NetState& applied() const { return applied_; }

 private:
  AddressMirror() = default;
  Fd events_;    // rtnetlink in N1, multicast groups
  Fd n1_;        // rtnetlink in N1, dumps
  Fd n2_;        // rtnetlink in N2
  Fd dead_end_;  // rtnetlink in the dead end, and what keeps it alive
  Fd n2_namespace_;
  NetState applied_;
};

}  // namespace leash::hooks
