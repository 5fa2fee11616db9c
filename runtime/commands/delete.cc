// leash-runtime delete: what a container holds on the host goes.
#include "runtime/teardown.h"

namespace leash::runtime {

namespace {

constexpr args::Flag kFlags[] = {
    {"force, f", args::Kind::kBool, "Forcibly deletes the container if it is still running (uses SIGKILL)"},
};

Result<int> destroy(const GlobalOptions& options, const args::Parsed& arguments) {
  const bool is_forced = arguments.is_set("force");
  const std::string& id = arguments.positionals()[0];
  auto container = StateStore(options.root).load(id);
  if (!container) {
    // Engines clean up with --force after failures of any kind: nothing to delete is what they want.
    if (is_forced && container.error().code() == ENOENT) return 0;
    return std::move(container).error();
  }
  if (!is_forced) {
    TRY(const oci::Status status, container->status());
    // runc, too, deletes a created container: nothing of the user's runs in it.
    if (status == oci::Status::kRunning || status == oci::Status::kPaused) {
      return Error("cannot delete container " + id + " that is not stopped: " + std::string(oci::to_string(status)));
    }
  }
  TRY_VOID(destroy_container(options, *container));
  return 0;
}

}  // namespace

const Command kDeleteCommand = {
    "delete", "delete any resources held by the container often used with detached container",
    "[command options] <container-id>", {}, kFlags, 1, 1, false, 1, destroy};

}  // namespace leash::runtime
