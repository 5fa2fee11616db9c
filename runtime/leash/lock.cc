#include "runtime/leash/lock.h"

#include <sched.h>

#include "base/sys.h"
#include "runtime/leash/error_text.h"

namespace leash::runtime {

namespace {

constexpr std::chrono::seconds kDeadline{10};

}  // namespace

Result<void> lock_network_in(const Channel& shim) {
  return lock_in_step([&]() -> Result<void> {
    TRY_VOID(sys::unshare(CLONE_NEWNET).context("new network namespace"));
    TRY_VOID(shim.send("n2").context("the shim is gone"));
    auto answer = shim.receive(kDeadline);
    if (!answer) return std::move(answer).error().context("no answer from the shim");
    if (!*answer) return Error("the shim ended before the network was locked in");
    if ((*answer)->kind == "failed") return Error((*answer)->body);
    if ((*answer)->kind != "go") return Error(EPROTO, "unexpected answer '" + (*answer)->kind + "' from the shim");
    return {};
  }());
}

}  // namespace leash::runtime
