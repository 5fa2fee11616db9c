// leash-runtime spec: a config.json to start from.
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys.h"
#include "oci-spec/config.h"
#include "runtime/cgroup.h"
#include "runtime/command.h"

namespace leash::runtime {

namespace {

constexpr args::Flag kFlags[] = {
    {"bundle, b", args::Kind::kValue, "path to the root of the bundle directory"},
    {"rootless", args::Kind::kBool, "generate a configuration for a rootless container"},
};

Result<int> spec(const GlobalOptions&, const args::Parsed& arguments) {
  TRY(const CgroupHost host, CgroupHost::discover());
  const std::string bundle = arguments.value("bundle");
  const std::string path = bundle.empty() ? "config.json" : bundle + "/config.json";
  Result<Fd> file = sys::open(path, O_WRONLY | O_CREAT | O_EXCL, 0666);
  if (!file) {
    if (file.error().code() == EEXIST) return Error(EEXIST, "File config.json exists. Remove it first");
    return std::move(file).error();
  }
  TRY_VOID(sys::write_all(file->get(), oci::default_config(arguments.is_set("rootless"), host.mode == CgroupMode::kV2, geteuid(), getegid())));
  return 0;
}

}  // namespace

const Command kSpecCommand = {
    "spec", "create a new specification file", "[command options]",
    "The spec command creates the new specification file named \"config.json\" for the bundle: a container that "
    "runs \"sh\" on a terminal. Edit it to your needs.",
    kFlags, 0, 0, false, 1, spec};

}  // namespace leash::runtime
