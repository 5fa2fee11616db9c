// leash-runtime resume: what pause stopped goes on.
#include "runtime/cgroup.h"
#include "runtime/command.h"
#include "runtime/state_store.h"

namespace leash::runtime {

namespace {

Result<int> resume(const GlobalOptions& options, const args::Parsed& arguments) {
  TRY(const Container container, StateStore(options.root).load(arguments.positionals()[0]));
  TRY(const oci::Status status, container.status());
  if (status != oci::Status::kPaused) return Error("container not paused");
  TRY_VOID(Cgroup::from_record(container.record.cgroups).thaw());
  return 0;
}

}  // namespace

const Command kResumeCommand = {
    "resume", "resumes all processes that have been previously paused", "<container-id>",
    "The resume command resumes all processes in the instance of the container.", {}, 1, 1, false, 1, resume};

}  // namespace leash::runtime
