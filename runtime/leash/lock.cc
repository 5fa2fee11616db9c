#include "runtime/leash/lock.h"

#include <sched.h>

#include "base/sys.h"

namespace leash::runtime {

namespace {

constexpr std::chrono::seconds kDeadline{10};

}  // namespace

Result<void> lock_network_in(const Channel& shim) {
  TRY_VOID(sys::unshare(CLONE_NEWNET).context("leash: new network namespace"));
  TRY_VOID(shim.send("n2").context("leash: the shim is gone"));
  auto answer = shim.receive(kDeadline);
  if (!answer) return std::move(answer).error().context("leash: no answer from the shim");
  if (!*answer) return Error("leash: the shim ended before the network was locked in");
  if ((*answer)->kind == "failed") return Error("leash: " + (*answer)->body);
  if ((*answer)->kind != "go") return Error("leash: unexpected answer '" + (*answer)->kind + "' from the shim");
  return {};
}

}  // namespace leash::runtime
