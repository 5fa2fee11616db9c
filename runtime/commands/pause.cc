// leash-runtime pause: all processes of the container stop where they are.
#include "runtime/cgroup.h"
#include "runtime/command.h"
#include "runtime/state_store.h"

namespace leash::runtime {

namespace {

Result<int> pause(const GlobalOptions& options, const args::Parsed& arguments) {
  TRY(const Container container, StateStore(options.root).load(arguments.positionals()[0]));
  TRY(const oci::Status status, container.status());
  if (status != oci::Status::kRunning && status != oci::Status::kCreated) return Error("container not running");
  TRY_VOID(Cgroup::from_record(container.record.cgroups).freeze());
  return 0;
}

}  // namespace

const Command kPauseCommand = {
    "pause", "pause suspends all processes inside the container", "<container-id>",
    "The pause command suspends all processes in the instance of the container.", {}, 1, 1, false, 1, pause};

}  // namespace leash::runtime
