// leash-runtime kill: a signal to the container's init, or to all of its processes.
#include <signal.h>

#include "base/sys.h"
#include "runtime/cgroup.h"
#include "runtime/command.h"
#include "runtime/signals.h"
#include "runtime/state_store.h"

namespace leash::runtime {

namespace {

constexpr args::Flag kFlags[] = {
    {"all, a", args::Kind::kBool, "send the specified signal to all processes inside the container"},
};

Result<void> signal_init(const Container& container, int signal) {
  TRY(const oci::Status status, container.status());
  if (status == oci::Status::kStopped) return Error("container not running");
  auto pidfd = sys::pidfd_open(container.record.init_pid);
  if (!pidfd || !container.is_alive()) return Error("container not running");
  auto sent = sys::pidfd_send_signal(pidfd->get(), signal);
  if (!sent) return Error::from_errno(sent.error().code(), "unable to signal init");
  // What the freezer of v1 holds does not even die.
  if (signal == SIGKILL && status == oci::Status::kPaused) return Cgroup::from_record(container.record.cgroups).thaw();
  return {};
}

Result<int> kill(const GlobalOptions& options, const args::Parsed& arguments) {
  const std::vector<std::string>& words = arguments.positionals();
  TRY(const Container container, StateStore(options.root).load(words[0]));
  TRY(const int signal, parse_signal(words.size() > 1 ? words[1] : "SIGTERM"));
  if (arguments.is_set("all")) {
    // Also of a stopped container: processes outlive init where they have no pid namespace of their own.
    TRY_VOID(Cgroup::from_record(container.record.cgroups).signal_all(signal));
    return 0;
  }
  TRY_VOID(signal_init(container, signal));
  return 0;
}

}  // namespace

const Command kKillCommand = {
    "kill", "kill sends the specified signal (default: SIGTERM) to the container's init process",
    "[command options] <container-id> [signal]", {}, kFlags, 1, 2, false, 1, kill};

}  // namespace leash::runtime
