#include "runtime/init.h"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "base/sys.h"
#include "runtime/console.h"
#include "runtime/devices.h"
#include "runtime/executable.h"
#include "runtime/hidden_paths.h"
#include "runtime/hooks.h"
#include "runtime/init_protocol.h"
#include "runtime/keyring.h"
#include "runtime/leash/lock.h"
#include "runtime/mounts.h"
#include "runtime/process_setup.h"
#include "runtime/root_paths.h"
#include "runtime/sysctl.h"
#include "runtime/tree_request.h"
#include "runtime/trust_overlay.h"

namespace leash::runtime {

namespace {

constexpr std::string_view kDuringInit = "error during container init";

// The runtime that creates us ended: nobody could ever start this container.
[[noreturn]] void exit_orphaned() { ::_exit(1); }

[[noreturn]] void fail(const Channel& channel, const Error& error) {
  static_cast<void>(channel.send(message::kFailed, error.message()));
  ::_exit(1);
}

void wait_for_parent(const Channel& parent, std::string_view kind) {
  auto message = parent.receive();
  if (!message || !*message || (*message)->kind != kind) exit_orphaned();
}

// A new network namespace is empty but for a loopback that is down.
Result<void> bring_up_loopback() {
  TRY(Fd socket, sys::socket(AF_INET, SOCK_DGRAM, 0));
  struct ifreq request = {};
  request.ifr_name[0] = 'l';
  request.ifr_name[1] = 'o';
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  if (::ioctl(socket.get(), SIOCSIFFLAGS, &request) < 0) return Error::last_errno("bring up lo");
  return {};
}

Result<void> set_names(const oci::Config& config) {
  if (!config.hostname.empty() && ::sethostname(config.hostname.data(), config.hostname.size()) < 0) {
    return Error::last_errno("sethostname");
  }
  if (!config.domainname.empty() && ::setdomainname(config.domainname.data(), config.domainname.size()) < 0) {
    return Error::last_errno("setdomainname");
  }
  return {};
}

Result<Fd> ask_parent_for_tree(const Channel& parent, const TreeRequest& request) {
  TRY_VOID(parent.send(message::kOpen, print(request)));
  TRY(auto answer, parent.receive());
  if (!answer) exit_orphaned();
  if (answer->kind == message::kOpened && answer->fds.size() == 1) return std::move(answer->fds[0]);
  return Error(EACCES, answer->body);
}

MountContext mount_context(const InitPlan& plan, int root_fd, const Channel& parent) {
  MountContext context;
  context.root_fd = root_fd;
  context.has_user_namespace = plan.namespaces.has_user_namespace();
  context.has_cgroup_namespace = plan.namespaces.is_new(CLONE_NEWCGROUP);
  context.mount_label = plan.config.linux.mount_label;
  context.uid_mappings = plan.namespaces.uid_mappings;
  context.gid_mappings = plan.namespaces.gid_mappings;
  context.cgroups = plan.cgroups;
  context.open_on_host = [&parent](const TreeRequest& request) { return ask_parent_for_tree(parent, request); };
  return context;
}

// What leash-shim adds: after config.json's mounts, so that nothing of those covers it.
Result<void> make_shim_mounts(const InitPlan& plan, const MountContext& context) {
  for (const oci::ExtraMount& extra : plan.shim_mounts) {
    if (extra.type == kTrustOverlayType) {
      TRY(Fd destination, sys::open_in_root(context.root_fd, extra.destination, O_PATH | O_DIRECTORY));
      TRY_VOID(mount_trust_overlay(extra, destination.get()));
      continue;
    }
    oci::Mount mount;
    mount.destination = extra.destination;
    mount.type = extra.type;
    mount.source = extra.source;
    mount.options = extra.options;
    TRY_VOID(make_mount(context, mount));
  }
  return {};
}

Result<void> make_mounts_and_devices(const InitPlan& plan, int root_fd, const Channel& parent) {
  const MountContext context = mount_context(plan, root_fd, parent);
  for (const oci::Mount& mount : plan.config.mounts) TRY_VOID(make_mount(context, mount));
  if (owns_dev(plan.config)) {
    TRY_VOID(make_devices(root_fd, plan.config.linux.devices, context.has_user_namespace));
    TRY_VOID(make_device_links(root_fd));
  }
  TRY_VOID(make_shim_mounts(plan, context));
  // The directory that `docker run -w` names need not exist in the image.
  TRY(Fd cwd, make_directory_in_root(root_fd, plan.config.process->cwd));
  return {};
}

Result<void> run_init_hooks(const InitPlan& plan, const std::vector<oci::Hook>& hooks, oci::Status status) {
  if (hooks.empty()) return {};
  oci::State state = plan.state;
  state.status = status;
  state.pid = ::getpid();
  return run_hooks(hooks, oci::print_for_hook(state));
}

Result<void> finish_root(const InitPlan& plan, int root_fd) {
  const oci::Linux& spec = plan.config.linux;
  TRY_VOID(make_paths_readonly(root_fd, spec.readonly_paths));
  TRY_VOID(mask_paths(root_fd, spec.masked_paths));
  for (const oci::Mount& mount : plan.config.mounts) {
    if (is_deferred_readonly(mount)) TRY_VOID(make_mount_readonly(root_fd, mount.destination));
  }
  TRY_VOID(enter_root(root_fd, plan.root_change));
  if (plan.root_propagation != 0 && plan.root_change != RootChange::kChroot) {
    TRY_VOID(set_root_propagation(plan.root_propagation));
  }
  if (plan.config.root.readonly && plan.root_change != RootChange::kChroot) TRY_VOID(make_root_readonly());
  return {};
}

// Everything from the first namespace to the changed root. Its errors are "error during container init".
Result<void> build_container(InitPlan& plan, const Channel& parent) {
  TRY_VOID(enter_namespaces(plan.namespaces));
  if (!plan.no_new_keyring) TRY_VOID(join_session_keyring(plan.container_id));
  TRY_VOID(enter_cgroup_namespace(plan.namespaces));
  if (plan.namespaces.is_new(CLONE_NEWNET)) TRY_VOID(bring_up_loopback());
  TRY(Fd host_proc, open_host_proc());
  if (plan.config.linux.memory_policy) TRY_VOID(apply_memory_policy(*plan.config.linux.memory_policy));

  const bool has_mount_namespace =
      plan.namespaces.is_new(CLONE_NEWNS) || plan.namespaces.find_joined(oci::NamespaceType::kMount) != nullptr;
  TRY(Fd root, prepare_root(plan.rootfs, plan.root_propagation, has_mount_namespace));
  TRY_VOID(make_mounts_and_devices(plan, root.get(), parent));
  TRY_VOID(parent.send(message::kHooks));
  wait_for_parent(parent, message::kContinue);
  TRY_VOID(run_init_hooks(plan, plan.config.hooks.create_container, oci::Status::kCreating));

  Console console;
  if (plan.config.process->terminal) {
    TRY(console, open_console(root.get(), plan.config.process->console_size));
    TRY_VOID(mount_console(root.get(), console));
  }
  TRY_VOID(finish_root(plan, root.get()));
  root.reset();
  TRY_VOID(set_names(plan.config));
  TRY_VOID(write_sysctls(host_proc.get(), plan.config.linux.sysctl));
  if (plan.config.linux.personality) TRY_VOID(apply_personality(*plan.config.linux.personality));
  if (console.master.valid()) {
    TRY_VOID(send_console(plan.console_socket.get(), console.master.get()));
    plan.console_socket.reset();
    TRY_VOID(attach_console(console));
  }
  TRY_VOID(reopen_null_stdio());
  TRY_VOID(give_stdio_to(plan.config.process->user));
  TRY_VOID(set_security_label(host_proc.get(), *plan.config.process));
  return {};
}

// What can be found out before the user's process is started is found out at create.
Result<std::string> find_program(InitPlan& plan) {
  oci::Process& process = *plan.config.process;
  TRY_VOID(check_capabilities(plan.capabilities));
  TRY_VOID(enter_directory(process.cwd, process.user));
  add_home(process.env, process.user.uid);
  const FileIdentity identity(process.user, plan.capabilities.effective);
  return find_executable(process.args[0], process.env);
}

// Connections without "start" are `state` asking whether somebody waits.
Channel wait_for_start(Fd& socket) {
  for (;;) {
    const int fd = ::accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      ::_exit(1);
    }
    Channel channel{Fd(fd)};
    auto message = channel.receive(std::chrono::seconds(5));
    if (!message || !*message || (*message)->kind != message::kStart) continue;
    socket.reset();
    return channel;
  }
}

[[noreturn]] void start_program(InitPlan& plan, const Channel& starter, const std::string& executable) {
  if (plan.lock.valid()) {
    auto locked = lock_network_in(plan.lock);
    if (!locked) fail(starter, locked.error());
    { const Channel closed = std::move(plan.lock); }
  }
  auto hooked = run_init_hooks(plan, plan.config.hooks.start_container, oci::Status::kCreated);
  if (!hooked) fail(starter, hooked.error());
  LastSteps steps;
  steps.process = &*plan.config.process;
  steps.executable = executable;
  steps.capabilities = plan.capabilities;
  // The floor first: the kernel takes the strictest answer, and ours must not depend on the profile
  // allowing seccomp(2) for a second filter.
  if (!plan.floor.program.empty()) steps.filters.push_back(&plan.floor);
  steps.filters.push_back(&plan.seccomp);
  steps.preserved_fds = plan.preserved_fds;
  steps.channel = &starter;
  fail(starter, run_last_steps(steps));
}

}  // namespace

void close_inherited(int preserved_fds, std::vector<int> kept) {
  std::sort(kept.begin(), kept.end());
  unsigned first = static_cast<unsigned>(3 + preserved_fds);
  for (const int fd : kept) {
    if (fd < 0 || static_cast<unsigned>(fd) < first) continue;
    if (static_cast<unsigned>(fd) > first) ::syscall(SYS_close_range, first, static_cast<unsigned>(fd) - 1, 0U);
    first = static_cast<unsigned>(fd) + 1;
  }
  ::syscall(SYS_close_range, first, ~0U, 0U);
}

void run_init(InitPlan& plan, Channel parent) {
  std::vector<int> kept = {parent.fd(), plan.start_socket.get(), plan.console_socket.get(), plan.lock.fd()};
  for (const JoinedNamespace& joined : plan.namespaces.joined) kept.push_back(joined.fd.get());
  close_inherited(plan.preserved_fds, kept);
  wait_for_parent(parent, message::kBegin);
  ::setsid();
  ::umask(0022);

  auto built = build_container(plan, parent);
  if (!built) fail(parent, std::move(built).error().context(kDuringInit));
  plan.namespaces.joined.clear();
  auto program = find_program(plan);
  if (!program) fail(parent, program.error());
  if (!parent.send(message::kReady)) exit_orphaned();
  wait_for_parent(parent, message::kCommit);
  { const Channel closed = std::move(parent); }

  const Channel starter = wait_for_start(plan.start_socket);
  start_program(plan, starter, *program);
}

}  // namespace leash::runtime
