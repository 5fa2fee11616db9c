// leash-runtime create: a container up to the point where only its program is missing.
#include "runtime/launch.h"

namespace leash::runtime {

namespace {

constexpr args::Flag kFlags[] = {
    {"bundle, b", args::Kind::kValue, "path to the root of the bundle directory, defaults to the current directory"},
    {"console-socket", args::Kind::kValue, "path to an AF_UNIX socket which will receive a file descriptor referencing the master end of the console's pseudoterminal"},
    {"pid-file", args::Kind::kValue, "specify the file to write the process id to"},
    {"no-pivot", args::Kind::kBool, "do not use pivot root to jail process inside rootfs.  This should be used whenever the rootfs is on top of a ramdisk"},
    {"no-new-keyring", args::Kind::kBool, "do not create a new session keyring for the container.  This will cause the container to inherit the calling processes session key"},
    {"preserve-fds", args::Kind::kValue, "Pass N additional file descriptors to the container (stdio + $LISTEN_FDS + N in total)", "0"},
};

Result<int> create(const GlobalOptions& options, const args::Parsed& arguments) {
  LaunchRequest request;
  request.container_id = arguments.positionals()[0];
  request.bundle = arguments.value("bundle");
  request.pid_file = arguments.value("pid-file");
  request.console_socket = arguments.value("console-socket");
  request.no_pivot = arguments.is_set("no-pivot");
  request.no_new_keyring = arguments.is_set("no-new-keyring");
  TRY(request.preserved_fds, arguments.integer("preserve-fds", 0));
  TRY_VOID(launch(options, request).context("leash-runtime create failed"));
  return 0;
}

}  // namespace

const Command kCreateCommand = {
    "create", "create a container", "[command options] <container-id>",
    "   The create command creates an instance of a container for a bundle. The bundle\n"
    "is a directory with a specification file named \"config.json\" and a root\n"
    "filesystem.",
    kFlags, 1, 1, false, 1, create};

}  // namespace leash::runtime
