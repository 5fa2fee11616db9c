#include "runtime/teardown.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/log.h"
#include "base/sys.h"
#include "runtime/cgroup.h"
#include "runtime/hooks.h"
#include "runtime/leash/shim_client.h"

namespace leash::runtime {

namespace {

// Init's death is what frees mounts and namespaces; the cgroup may be empty a moment earlier.
Result<void> wait_for_init(const Container& container) {
  if (!container.is_alive()) return {};
  auto pidfd = sys::pidfd_open(container.record.init_pid);
  if (!pidfd || !container.is_alive()) return {};
  auto killed = sys::pidfd_send_signal(pidfd->get(), SIGKILL);
  if (!killed && killed.error().code() != ESRCH) return killed;
  struct pollfd entry = {pidfd->get(), POLLIN, 0};
  constexpr int kDeadlineMs = 10'000;
  int ready = 0;
  do {
    ready = ::poll(&entry, 1, kDeadlineMs);
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) return Error(ETIMEDOUT, "container init still running");
  // A child of ours when `run` deletes its own container; somebody else's otherwise.
  ::waitpid(container.record.init_pid, nullptr, WNOHANG);
  return {};
}

void run_poststop(const Container& container) {
  if (container.record.poststop_hooks.empty()) return;
  oci::State state;
  state.oci_version = container.record.oci_version;
  state.id = container.record.id;
  state.status = oci::Status::kStopped;
  state.bundle = container.record.bundle;
  state.annotations = container.record.annotations;
  run_hooks_logging_errors(container.record.poststop_hooks, oci::print_for_hook(state));
}

}  // namespace

Result<void> kill_everything(const Container& container) {
  if (!container.record.cgroups.empty()) {
    TRY_VOID(Cgroup::from_record(container.record.cgroups).kill_all());
  }
  return wait_for_init(container);
}

Result<void> destroy_container(const GlobalOptions& options, const Container& container) {
  TRY_VOID(kill_everything(container));
  TRY_VOID(end_shim(options, container));
  if (!container.record.cgroups.empty()) {
    TRY_VOID(Cgroup::from_record(container.record.cgroups).destroy());
  }
  TRY_VOID(container.remove());
  run_poststop(container);
  return {};
}

}  // namespace leash::runtime
