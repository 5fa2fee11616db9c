// leash-runtime run: create, start, and in the foreground wait and delete.
#include "base/log.h"
#include "runtime/foreground.h"
#include "runtime/launch.h"
#include "runtime/start.h"
#include "runtime/teardown.h"

namespace leash::runtime {

namespace {

constexpr args::Flag kFlags[] = {
    {"bundle, b", args::Kind::kValue, "path to the root of the bundle directory, defaults to the current directory"},
    {"console-socket", args::Kind::kValue, "path to an AF_UNIX socket which will receive a file descriptor referencing the master end of the console's pseudoterminal"},
    {"detach, d", args::Kind::kBool, "detach from the container's process"},
    {"keep", args::Kind::kBool, "do not delete the container after it exits"},
    {"pid-file", args::Kind::kValue, "specify the file to write the process id to"},
    {"no-subreaper", args::Kind::kBool, "disable the use of the subreaper used to reap reparented processes"},
    {"no-pivot", args::Kind::kBool, "do not use pivot root to jail process inside rootfs.  This should be used whenever the rootfs is on top of a ramdisk"},
    {"no-new-keyring", args::Kind::kBool, "do not create a new session keyring for the container.  This will cause the container to inherit the calling processes session key"},
    {"preserve-fds", args::Kind::kValue, "Pass N additional file descriptors to the container (stdio + $LISTEN_FDS + N in total)", "0"},
};

Result<int> run_in_foreground(const GlobalOptions& options, const LaunchRequest& request, bool is_subreaper, bool keeps) {
  TRY(Foreground foreground, Foreground::begin(is_subreaper));
  TRY(const Launched launched, launch(options, request));
  auto started = start_container(launched.container);
  Result<int> code = started ? foreground.wait(launched.container.record.init_pid, launched.console_master)
                             : Result<int>(std::move(started).error());
  if (code && keeps) return code;
  auto destroyed = destroy_container(options, launched.container);
  if (code && !destroyed) return std::move(destroyed).error();
  return code;
}

Result<int> run_detached(const GlobalOptions& options, const LaunchRequest& request) {
  TRY(const Launched launched, launch(options, request));
  auto started = start_container(launched.container);
  if (started) return 0;
  auto destroyed = destroy_container(options, launched.container);
  if (!destroyed) log::warning(destroyed.error().message());
  return std::move(started).error();
}

Result<int> run(const GlobalOptions& options, const args::Parsed& arguments) {
  LaunchRequest request;
  request.container_id = arguments.positionals()[0];
  request.bundle = arguments.value("bundle");
  request.pid_file = arguments.value("pid-file");
  request.console_socket = arguments.value("console-socket");
  request.no_pivot = arguments.is_set("no-pivot");
  request.no_new_keyring = arguments.is_set("no-new-keyring");
  request.is_detached = arguments.is_set("detach");
  TRY(request.preserved_fds, arguments.integer("preserve-fds", 0));
  auto code = request.is_detached
                  ? run_detached(options, request)
                  : run_in_foreground(options, request, !arguments.is_set("no-subreaper"), arguments.is_set("keep"));
  return std::move(code).context("leash-runtime run failed");
}

}  // namespace

const Command kRunCommand = {
    "run", "create and run a container", "[command options] <container-id>",
    "   The run command creates an instance of a container for a bundle. The bundle\n"
    "is a directory with a specification file named \"config.json\" and a root\n"
    "filesystem.",
    kFlags, 1, 1, false, 1, run};

}  // namespace leash::runtime
