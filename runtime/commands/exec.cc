// leash-runtime exec: another process in a running container.
#include <charconv>

#include "base/file.h"
#include "runtime/exec_launch.h"
#include "runtime/foreground.h"

namespace leash::runtime {

namespace {

constexpr int kFailure = 255;

constexpr args::Flag kFlags[] = {
    {"console-socket", args::Kind::kValue, "path to an AF_UNIX socket which will receive a file descriptor referencing the master end of the console's pseudoterminal"},
    {"cwd", args::Kind::kValue, "current working directory in the container"},
    {"env, e", args::Kind::kList, "set environment variables"},
    {"tty, t", args::Kind::kBool, "allocate a pseudo-TTY"},
    {"user, u", args::Kind::kValue, "UID (format: <uid>[:<gid>])"},
    {"additional-gids, g", args::Kind::kList, "additional gids"},
    {"process, p", args::Kind::kValue, "path to the process.json"},
    {"detach, d", args::Kind::kBool, "detach from the container's process"},
    {"pid-file", args::Kind::kValue, "specify the file to write the process id to"},
    {"process-label", args::Kind::kValue, "set the asm process label for the process commonly used with selinux"},
    {"apparmor", args::Kind::kValue, "set the apparmor profile for the process"},
    {"no-new-privs", args::Kind::kBool, "set the no new privileges value for the process"},
    {"cap, c", args::Kind::kList, "add a capability to the bounding set for the process"},
    {"preserve-fds", args::Kind::kValue, "Pass N additional file descriptors to the container (stdio + $LISTEN_FDS + N in total)", "0"},
    {"cgroup", args::Kind::kList, "run the process in an (existing) sub-cgroup(s). Format is [<controller>:]<cgroup>."},
    {"ignore-paused", args::Kind::kBool, "allow exec in a paused container"},
};

Result<uint32_t> parse_id(std::string_view text, std::string_view what) {
  uint32_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || end != text.data() + text.size()) {
    return Error(EINVAL, "parsing " + std::string(text) + " as int for " + std::string(what) + " failed");
  }
  return number;
}

Result<void> apply_user(oci::User& user, const std::string& text) {
  const size_t colon = text.find(':');
  user.additional_gids.clear();
  user.username.clear();
  TRY(user.uid, parse_id(std::string_view(text).substr(0, colon), "uid"));
  if (colon == std::string::npos) return {};
  TRY(user.gid, parse_id(std::string_view(text).substr(colon + 1), "gid"));
  return {};
}

void add_capability(std::vector<std::string>& set, const std::string& name) { set.push_back(name); }

// The container's own process with the flags applied, as runc does.
Result<oci::Process> process_from_flags(const Container& container, const args::Parsed& arguments) {
  TRY(const oci::Config config, container_config(container));
  oci::Process process = config.process.value_or(oci::Process());
  const std::vector<std::string>& words = arguments.positionals();
  if (words.size() < 2) return Error("process args cannot be empty");
  process.args.assign(words.begin() + 1, words.end());
  if (arguments.has("cwd")) process.cwd = arguments.value("cwd");
  if (arguments.has("apparmor")) process.apparmor_profile = arguments.value("apparmor");
  if (arguments.has("process-label")) process.selinux_label = arguments.value("process-label");
  if (!process.capabilities) process.capabilities.emplace();
  for (const std::string& name : arguments.list("cap")) {
    for (auto* set : {&process.capabilities->bounding, &process.capabilities->effective, &process.capabilities->permitted,
                      &process.capabilities->ambient}) {
      add_capability(*set, name);
    }
  }
  for (const std::string& entry : arguments.list("env")) process.env.push_back(entry);
  process.terminal = arguments.is_set("tty");
  if (arguments.has("no-new-privs")) process.no_new_privileges = arguments.is_set("no-new-privs");
  if (arguments.has("user")) TRY_VOID(apply_user(process.user, arguments.value("user")));
  for (const std::string& group : arguments.list("additional-gids")) {
    TRY(const uint32_t gid, parse_id(group, "gid"));
    process.user.additional_gids.push_back(gid);
  }
  return process;
}

Result<oci::Process> process_from_file(const std::string& path) {
  auto text = file::read(path);
  if (!text) return Error::from_errno(text.error().code(), "open " + path);
  return oci::parse_process(*text);
}

Result<int> execute(const GlobalOptions& options, const args::Parsed& arguments) {
  TRY(const Container container, StateStore(options.root).load(arguments.positionals()[0]));
  ExecOptions request;
  if (arguments.has("process")) {
    TRY(request.process, process_from_file(arguments.value("process")));
    if (arguments.is_set("tty")) request.process.terminal = true;
  } else {
    TRY(request.process, process_from_flags(container, arguments));
  }
  request.pid_file = arguments.value("pid-file");
  request.console_socket = arguments.value("console-socket");
  request.sub_cgroups = arguments.list("cgroup");
  request.is_detached = arguments.is_set("detach");
  request.ignores_paused = arguments.is_set("ignore-paused");
  TRY(request.preserved_fds, arguments.integer("preserve-fds", 0));
  if (request.is_detached) {
    TRY_VOID(exec_in_container(options, container, std::move(request)));
    return 0;
  }
  TRY(Foreground foreground, Foreground::begin(true));
  TRY(const Executed executed, exec_in_container(options, container, std::move(request)));
  return foreground.wait(executed.pid, executed.console_master);
}

Result<int> exec(const GlobalOptions& options, const args::Parsed& arguments) {
  return execute(options, arguments).context("exec failed");
}

}  // namespace

const Command kExecCommand = {
    "exec", "execute new process inside the container",
    "[command options] <container-id> <command> [command options]  || -p process.json <container-id>",
    "   Where \"<container-id>\" is the name for the instance of the container and\n"
    "\"<command>\" is the command to be executed in the container.\n"
    "\"<command>\" can't be empty unless a \"-p\" flag provided.",
    kFlags, 1, -1, true, kFailure, exec};

}  // namespace leash::runtime
