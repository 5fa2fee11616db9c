#include "runtime/launch.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "base/file.h"
#include "base/log.h"
#include "base/process.h"
#include "base/sys.h"
#include "runtime/bundle.h"
#include "runtime/cgroup.h"
#include "runtime/console.h"
#include "runtime/hooks.h"
#include "runtime/init.h"
#include "runtime/init_protocol.h"
#include "runtime/init_socket.h"
#include "runtime/leash/leash.h"
#include "runtime/listen_fds.h"
#include "runtime/mount_options.h"
#include "runtime/rlimits.h"
#include "runtime/tree_request.h"

namespace leash::runtime {

namespace {

constexpr std::string_view kStarting = "unable to start container process";

// What has been made so far and must go if launch fails. Ends with nothing to do once `keep` was called.
class Undo {
 public:
  explicit Undo(Container& container) : container_(container) {}
  Undo(const Undo&) = delete;
  Undo& operator=(const Undo&) = delete;
  ~Undo() {
    if (is_kept_) return;
    if (init_pid > 0) {
      ::kill(init_pid, SIGKILL);
      static_cast<void>(process::wait_for(init_pid));
    }
    if (has_cgroup) {
      // Hooks or createContainer's children may still be there.
      static_cast<void>(cgroup.kill_all());
      if (auto done = cgroup.destroy(); !done) log::warning(done.error().message());
    }
    if (auto done = container_.remove(); !done) log::warning(done.error().message());
  }
  void keep() { is_kept_ = true; }

  pid_t init_pid = 0;
  bool has_cgroup = false;
  Cgroup cgroup;

 private:
  Container& container_;
  bool is_kept_ = false;
};

Result<void> check_terminal(const oci::Process& process, const LaunchRequest& request) {
  if (process.terminal && request.is_detached && request.console_socket.empty()) {
    return Error("cannot allocate tty if leash-runtime will detach without setting console socket");
  }
  if ((!process.terminal || !request.is_detached) && !request.console_socket.empty()) {
    return Error("cannot use console socket if leash-runtime will not detach or allocate tty");
  }
  return {};
}

Result<void> refuse_unsupported(const oci::Config& config) {
  if (!config.linux.net_devices.empty()) return Error(ENOTSUP, "linux.netDevices is not supported");
  if (config.linux.intel_rdt) return Error(ENOTSUP, "linux.intelRdt is not supported: no resctrl file system");
  // Mounts without the label that was asked for would be a control left out in silence.
  if (!config.linux.mount_label.empty()) return Error(ENOTSUP, "linux.mountLabel is not supported");
  return {};
}

void warn_of_unknown(std::string_view what, const std::vector<std::string>& names) {
  if (names.empty()) return;
  std::string text(what);
  text += ": [";
  for (const std::string& name : names) text += (&name == &names.front() ? "" : " ") + name;
  log::warning(text + "]");
}

// The part of the plan that is known from config.json alone.
Result<void> plan_from_config(InitPlan& plan, const LaunchRequest& request) {
  const oci::Config& config = plan.config;
  TRY(plan.namespaces, plan_namespaces(config.linux));
  std::vector<std::string> unknown;
  plan.capabilities = parse_capabilities(config.process->capabilities.value_or(oci::Capabilities()), unknown);
  warn_of_unknown("ignoring unknown or unavailable capabilities", unknown);
  TRY(plan.root_propagation, parse_rootfs_propagation(config.linux.rootfs_propagation));
  const bool has_mount_namespace = config.linux.find_namespace(oci::NamespaceType::kMount) != nullptr;
  plan.root_change = !has_mount_namespace ? RootChange::kChroot : request.no_pivot ? RootChange::kMove : RootChange::kPivot;
  plan.no_new_keyring = request.no_new_keyring;
  TRY_VOID(check_rlimits(config.process->rlimits));
  return {};
}

Result<void> compile_filters(InitPlan& plan, SeccompAbis abis) {
  if (!plan.config.linux.seccomp) return {};
  std::vector<std::string> unknown;
  TRY(plan.seccomp, compile_seccomp(*plan.config.linux.seccomp, unknown, abis));
  return {};
}

// In a child that has joined init's mount namespace, with the host's rights (mounts.h, TreeRequest).
Result<Fd> open_tree_for_init(pid_t init, const std::string& text) {
  TRY(const TreeRequest request, parse_tree_request(text));
  TRY(Fd mount_namespace, sys::open("/proc/" + std::to_string(init) + "/ns/mnt", O_RDONLY));
  TRY(auto ends, Channel::pair());
  const pid_t child = ::fork();
  if (child < 0) return Error::last_errno("fork");
  if (child == 0) {
    auto opened = [&]() -> Result<Fd> {
      TRY_VOID(sys::setns(mount_namespace.get(), CLONE_NEWNS));
      return open_tree_on_host(request);
    }();
    if (opened) static_cast<void>(ends.second.send(message::kOpened, {}, {opened->get()}));
    else static_cast<void>(ends.second.send(message::kFailed, opened.error().message()));
    ::_exit(0);
  }
  { const Channel closed = std::move(ends.second); }
  auto answer = ends.first.receive();
  TRY_VOID(process::wait_for(child));
  if (!answer) return std::move(answer).error();
  if (!*answer) return Error("the process that opens mount sources ended early");
  if ((*answer)->fds.size() != 1) return Error(EACCES, (*answer)->body);
  return std::move((*answer)->fds[0]);
}

// Serves init until it is ready.
Result<void> accompany(const Channel& init, pid_t pid, const InitPlan& plan) {
  for (;;) {
    TRY(auto message, init.receive());
    if (!message) return Error("the container's init process ended early");
    if (message->kind == message::kReady) return {};
    if (message->kind == message::kFailed) return Error(message->body);
    if (message->kind == message::kOpen) {
      auto tree = open_tree_for_init(pid, message->body);
      if (tree) TRY_VOID(init.send(message::kOpened, {}, {tree->get()}));
      else TRY_VOID(init.send(message::kFailed, tree.error().message()));
      continue;
    }
    if (message->kind == message::kHooks) {
      oci::State state = plan.state;
      state.pid = pid;
      const std::string text = oci::print_for_hook(state);
      TRY_VOID(run_hooks(plan.config.hooks.prestart, text).context("error during container init"));
      TRY_VOID(run_hooks(plan.config.hooks.create_runtime, text).context("error during container init"));
      TRY_VOID(init.send(message::kContinue));
      continue;
    }
    return Error(EPROTO, "unexpected message '" + message->kind + "' from init");
  }
}

Result<void> set_oom_score(pid_t pid, int score) {
  const std::string path = "/proc/" + std::to_string(pid) + "/oom_score_adj";
  // Writing the value that is there already may be refused, and changes nothing.
  TRY(const std::string before, file::read(path));
  if (std::atoi(before.c_str()) == score) return {};
  auto written = file::write_control(path, std::to_string(score));
  if (written) return {};
  // Not in the words that engines take for the program's own failure (126).
  return Error(written.error().code(), "unable to set oom_score_adj to " + std::to_string(score) + ": refused by the kernel");
}

oci::ContainerRecord first_record(const GlobalOptions& options, const LaunchRequest& request, const Bundle& bundle) {
  oci::ContainerRecord record;
  record.id = request.container_id;
  record.oci_version = bundle.config.oci_version;
  record.bundle = bundle.directory;
  record.rootfs = bundle.rootfs;
  record.created = log::now_rfc3339();
  record.owner_uid = ::geteuid();
  record.systemd_cgroup = options.use_systemd_cgroup;
  record.is_rootless = options.is_rootless;
  record.no_new_keyring = request.no_new_keyring;
  record.annotations = bundle.config.annotations;
  record.poststop_hooks = bundle.config.hooks.poststop;
  return record;
}

oci::State hook_state(const Bundle& bundle, const std::string& id) {
  oci::State state;
  state.oci_version = bundle.config.oci_version;
  state.id = id;
  state.status = oci::Status::kCreating;
  state.bundle = bundle.directory;
  state.annotations = bundle.config.annotations;
  return state;
}

// exec needs config.json later; with the environment as the shim has left it, since the engine's secrets
// must not stay in a file of ours.
Result<void> keep_config(const Container& container, const Bundle& bundle) {
  return file::write_atomic(container.directory + "/config.json", bundle.text, 0600);
}

}  // namespace

Result<Launched> launch(const GlobalOptions& options, const LaunchRequest& given) {
  LaunchRequest request = given;
  request.pid_file = absolute_path(given.pid_file);
  request.console_socket = absolute_path(given.console_socket);
  TRY(Bundle bundle, open_bundle(request.bundle));
  TRY_VOID(check_container_id(request.container_id));
  TRY_VOID(check_terminal(*bundle.config.process, request));
  TRY_VOID(refuse_unsupported(bundle.config));

  InitPlan plan;
  plan.container_id = request.container_id;
  plan.rootfs = bundle.rootfs;
  plan.config = bundle.config;
  plan.state = hook_state(bundle, request.container_id);
  TRY_VOID(plan_from_config(plan, request));
  TRY(plan.preserved_fds, pass_listen_fds(plan.config.process->env, request.preserved_fds));

  TRY(Container container, StateStore(options.root).create(request.container_id));
  container.record = first_record(options, request, bundle);
  // Before `undo`, so that init is dead when the shim is told to go.
  Leash leash;
  Undo undo(container);
  // The shim works (certificates, trust) while we compile filters and make cgroups.
  TRY(leash, Leash::begin(options, bundle, plan));
  container.record.is_leashed = leash.is_on();
  container.record.policy_source = leash.policy_source();

  CgroupRequest cgroup_request;
  cgroup_request.cgroups_path = plan.config.linux.cgroups_path;
  cgroup_request.container_id = request.container_id;
  cgroup_request.use_systemd = options.use_systemd_cgroup;
  cgroup_request.is_rootless = options.is_rootless;
  TRY(undo.cgroup, Cgroup::plan(cgroup_request));
  // Before they are written down as ours, and so as ours to kill: they may be another container's.
  TRY_VOID(undo.cgroup.check_unused().context(kStarting));
  container.record.cgroups = undo.cgroup.paths();
  plan.cgroups = undo.cgroup.paths();
  // From here a killed create leaves enough for `delete --force` to find everything.
  TRY_VOID(container.save());
  TRY_VOID(undo.cgroup.create(plan.config.linux.resources).context(kStarting));
  undo.has_cgroup = true;
  // Below a leashed container's filter stands the floor, which has no foreign ABIs.
  TRY_VOID(compile_filters(plan, leash.is_on() ? SeccompAbis::kNativeOnly : SeccompAbis::kAsInProfile));
  TRY_VOID(leash.finish_plan(bundle, plan));
  TRY_VOID(keep_config(container, bundle));

  Launched launched;
  Fd console_end;
  if (plan.config.process->terminal) {
    if (request.is_detached) {
      TRY(plan.console_socket, connect_console_socket(request.console_socket));
    } else {
      TRY(auto ends, sys::socketpair(SOCK_STREAM));
      console_end = std::move(ends.first);
      plan.console_socket = std::move(ends.second);
    }
  }
  TRY(plan.start_socket, listen_for_start(container.directory));
  TRY(auto ends, Channel::pair());
  // Before the clone: a process of the container that joins our namespaces must not reach into our memory
  // or descriptors (CVE-2016-9962).
  if (::prctl(PR_SET_DUMPABLE, 0) < 0) return Error::last_errno("prctl PR_SET_DUMPABLE");
  auto cloned = clone_init(plan.namespaces, [&] { run_init(plan, std::move(ends.second)); });
  if (!cloned) return std::move(cloned).error().context(kStarting);
  undo.init_pid = *cloned;
  { const Channel closed = std::move(ends.second); }
  const Channel init = std::move(ends.first);
  plan.start_socket.reset();
  plan.console_socket.reset();

  auto accompanied = [&]() -> Result<void> {
    TRY_VOID(undo.cgroup.join(undo.init_pid));
    if (plan.config.process->oom_score_adj) TRY_VOID(set_oom_score(undo.init_pid, *plan.config.process->oom_score_adj));
    TRY_VOID(leash.attach(undo.init_pid, plan));
    TRY_VOID(init.send(message::kBegin));
    TRY_VOID(accompany(init, undo.init_pid, plan));
    // Last, since init itself still had files to open and memory to use; by us, since raising a limit
    // needs the host's CAP_SYS_RESOURCE.
    return apply_rlimits(plan.config.process->rlimits, undo.init_pid)
        .context("error during container init");
  }();
  if (!accompanied) return std::move(accompanied).error().context(kStarting);

  if (console_end.valid()) {

    TRY(launched.console_master, receive_console(console_end.get()));

  }
  container.record.init_pid = undo.init_pid;
  container.record.init_start_time = process_start_time(undo.init_pid);
  TRY_VOID(leash.wait_ready());
  TRY_VOID(container.save());
  if (!request.pid_file.empty()) {
    TRY_VOID(file::write_atomic(request.pid_file, std::to_string(undo.init_pid), 0644));
  }
  TRY_VOID(leash.commit());
  TRY_VOID(init.send(message::kCommit));
  undo.keep();
  launched.container = std::move(container);
  return launched;
}

}  // namespace leash::runtime
