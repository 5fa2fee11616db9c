#include "runtime/exec_launch.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/process.h"
#include "base/sys.h"
#include "runtime/bundle.h"
#include "runtime/cgroup.h"
#include "runtime/console.h"
#include "runtime/executable.h"
#include "runtime/init.h"
#include "runtime/init_protocol.h"
#include "runtime/keyring.h"
#include "runtime/leash/leash.h"
#include "runtime/leash/shim_client.h"
#include "runtime/listen_fds.h"
#include "runtime/process_setup.h"
#include "runtime/rlimits.h"
#include "runtime/sysctl.h"

namespace leash::runtime {

namespace {

constexpr std::string_view kStarting = "unable to start container process";

struct ExecPlan {
  oci::Process process;
  oci::Config config;
  CapabilitySets capabilities;
  SeccompFilter seccomp;
  SeccompFilter floor;
  std::string container_id;
  bool no_new_keyring = false;
  int preserved_fds = 0;
  Fd init_pidfd;
  Fd container_root;  // only without a mount namespace
  int namespace_flags = 0;
  Fd console_socket;
};

// The container's namespaces that are not ours already: setns(2) into one's own user namespace fails.
int differing_namespaces(pid_t init) {
  struct Kind {
    const char* name;
    int flag;
  };
  static constexpr Kind kKinds[] = {{"user", CLONE_NEWUSER}, {"mnt", CLONE_NEWNS},   {"pid", CLONE_NEWPID},
                                    {"net", CLONE_NEWNET},   {"uts", CLONE_NEWUTS},  {"ipc", CLONE_NEWIPC},
                                    {"cgroup", CLONE_NEWCGROUP}, {"time", 0x00000080}};
  int flags = 0;
  for (const Kind& kind : kKinds) {
    const uint64_t theirs = namespace_inode(init, kind.name);
    if (theirs != 0 && theirs != namespace_inode(::getpid(), kind.name)) flags |= kind.flag;
  }
  return flags;
}

[[noreturn]] void fail(const Channel& channel, const Error& error) {
  static_cast<void>(channel.send(message::kFailed, error.message()));
  ::_exit(255);
}

Result<std::string> become_ready(ExecPlan& plan, const Fd& host_proc) {
  if (plan.container_root.valid()) TRY_VOID(enter_root(plan.container_root.get(), RootChange::kChroot));
  if (!plan.no_new_keyring) TRY_VOID(join_session_keyring(plan.container_id));
  ::umask(0022);
  if (plan.config.linux.memory_policy) TRY_VOID(apply_memory_policy(*plan.config.linux.memory_policy));
  if (plan.config.linux.personality) TRY_VOID(apply_personality(*plan.config.linux.personality));
  if (plan.process.terminal) {
    TRY(Fd root, sys::open("/", O_PATH | O_DIRECTORY));
    TRY(const Console console, open_console(root.get(), plan.process.console_size));
    TRY_VOID(send_console(plan.console_socket.get(), console.master.get()));
    plan.console_socket.reset();
    TRY_VOID(attach_console(console));
  }
  TRY_VOID(reopen_null_stdio());
  TRY_VOID(give_stdio_to(plan.process.user));
  TRY_VOID(set_security_label(host_proc.get(), plan.process));
  TRY_VOID(check_capabilities(plan.capabilities));
  TRY_VOID(enter_directory(plan.process.cwd, plan.process.user));
  add_home(plan.process.env, plan.process.user.uid);
  const FileIdentity identity(plan.process.user, plan.capabilities.effective);
  return find_executable(plan.process.args[0], plan.process.env);
}

// In the container's namespaces, below the stage that joined them.
[[noreturn]] void run_child(ExecPlan& plan, const Channel& parent, const Fd& host_proc) {
  ::setsid();
  if (plan.process.exec_cpu_affinity) {
    auto set = apply_cpu_affinity(plan.process.exec_cpu_affinity->initial_cpus);
    if (!set) fail(parent, set.error());
  }
  // In a user namespace: its root, until the last steps.
  if ((plan.namespace_flags & CLONE_NEWUSER) != 0 && (::setresgid(0, 0, 0) < 0 || ::setresuid(0, 0, 0) < 0)) {
    fail(parent, Error::last_errno("become root of the container"));
  }
  auto program = become_ready(plan, host_proc);
  if (!program) fail(parent, program.error());
  if (!parent.send(message::kReady)) ::_exit(255);
  auto commit = parent.receive();
  if (!commit || !*commit || (*commit)->kind != message::kCommit) ::_exit(255);
  LastSteps steps;
  steps.process = &plan.process;
  steps.executable = *program;
  steps.capabilities = plan.capabilities;
  if (!plan.floor.program.empty()) steps.filters.push_back(&plan.floor);
  steps.filters.push_back(&plan.seccomp);
  steps.preserved_fds = plan.preserved_fds;
  steps.channel = &parent;
  fail(parent, run_last_steps(steps));
}

// Joins the container and clones the process as our sibling: it enters the pid namespace, and remains a
// child of the runtime and, later, of the engine's subreaper.
[[noreturn]] void run_stage(ExecPlan& plan, Channel parent) {
  close_inherited(plan.preserved_fds, {parent.fd(), plan.init_pidfd.get(), plan.console_socket.get(), plan.container_root.get()});
  auto begin = parent.receive();
  if (!begin || !*begin || (*begin)->kind != message::kBegin) ::_exit(255);
  auto host_proc = open_host_proc();
  if (!host_proc) fail(parent, host_proc.error());
  if (plan.namespace_flags != 0) {
    auto joined = join_process(plan.init_pidfd.get(), plan.namespace_flags);
    if (!joined) fail(parent, joined.error());
  }
  const long pid = ::syscall(SYS_clone, static_cast<unsigned long>(CLONE_PARENT | SIGCHLD), 0UL, nullptr, nullptr, 0UL);
  if (pid < 0) fail(parent, Error::last_errno("clone"));
  if (pid == 0) run_child(plan, parent, *host_proc);
  static_cast<void>(parent.send("init", std::to_string(pid)));
  ::_exit(0);
}

Result<void> hand_over_listener(const Container& container, const ExecPlan& plan, pid_t pid, const Message& message) {
  if (message.fds.size() != 1 || !plan.config.linux.seccomp) return Error(EPROTO, "no seccomp listener was sent");
  oci::ContainerProcessState state;
  state.oci_version = container.record.oci_version;
  state.fds = {"seccompFd"};
  state.pid = pid;
  state.metadata = plan.config.linux.seccomp->listener_metadata;
  TRY(state.state, container.state());
  return send_seccomp_listener(plan.config.linux.seccomp->listener_path, message.fds[0].get(), state);
}

// Follows the child to its execve. `console`: where it sends its terminal, if that is for us to relay.
Result<void> follow_child(const Container& container, const ExecPlan& plan, const Channel& child, const Fd& console,
                          Executed& executed) {
  pid_t& pid = executed.pid;
  bool is_executing = false;
  for (;;) {
    TRY(auto message, child.receive());
    if (!message) break;
    if (message->kind == message::kFailed) return Error(message->body);
    if (message->kind == message::kExec) is_executing = true;
    if (message->kind == message::kListener) TRY_VOID(hand_over_listener(container, plan, pid, *message));
    if (message->kind == "init") pid = static_cast<pid_t>(std::stol(message->body));
    if (message->kind == message::kReady) {
      // The stage's message may come after its child's.
      while (pid == 0) {
        TRY(auto late, child.receive());
        if (!late) return Error("the container process ended early");
        if (late->kind == "init") pid = static_cast<pid_t>(std::stol(late->body));
      }
      if (console.valid()) {
        TRY(executed.console_master, receive_console(console.get()));
      }
      TRY_VOID(apply_rlimits(plan.process.rlimits, pid));
      TRY_VOID(child.send(message::kCommit));
    }
  }
  if (!is_executing || pid == 0) return Error("the container process ended before it could start the program");
  return {};
}

Result<void> check_status(const Container& container, const ExecOptions& request) {
  TRY(const oci::Status status, container.status());
  if (status == oci::Status::kStopped || status == oci::Status::kCreating) {
    return Error("cannot exec in a stopped container");
  }
  if (status == oci::Status::kPaused && !request.ignores_paused) {
    return Error("cannot exec in a paused container (use --ignore-paused to override)");
  }
  return {};
}

Result<void> check_terminal(const ExecOptions& request) {
  if (request.process.terminal && request.is_detached && request.console_socket.empty()) {
    return Error("cannot allocate tty if leash-runtime will detach without setting console socket");
  }
  if ((!request.process.terminal || !request.is_detached) && !request.console_socket.empty()) {
    return Error("cannot use console socket if leash-runtime will not detach or allocate tty");
  }
  return {};
}

Result<ExecPlan> make_plan(const Container& container, ExecOptions& request) {
  ExecPlan plan;
  TRY(plan.preserved_fds, pass_listen_fds(request.process.env, request.preserved_fds));
  TRY(plan.config, container_config(container));
  plan.process = std::move(request.process);
  plan.container_id = container.record.id;
  plan.no_new_keyring = container.record.no_new_keyring;
  if (!plan.process.capabilities && plan.config.process) plan.process.capabilities = plan.config.process->capabilities;
  std::vector<std::string> unknown;
  plan.capabilities = parse_capabilities(plan.process.capabilities.value_or(oci::Capabilities()), unknown);
  if (plan.config.linux.seccomp) {
    const SeccompAbis abis = container.record.is_leashed ? SeccompAbis::kNativeOnly : SeccompAbis::kAsInProfile;
    TRY(plan.seccomp, compile_seccomp(*plan.config.linux.seccomp, unknown, abis));
  }
  if (container.record.is_leashed) {
    TRY_VOID(confine_exec(container, plan.config, plan.process.env, plan.floor, plan.capabilities));
  }
  TRY(plan.init_pidfd, sys::pidfd_open(container.record.init_pid).context("cannot exec in a stopped container"));
  // The pidfd may be of a process that took the pid over; the start time then is another.
  if (!container.is_alive()) return Error("cannot exec in a stopped container");
  plan.namespace_flags = differing_namespaces(container.record.init_pid);
  if ((plan.namespace_flags & CLONE_NEWNS) == 0) {
    TRY(plan.container_root, sys::open("/proc/" + std::to_string(container.record.init_pid) + "/root", O_PATH | O_DIRECTORY));
  }
  return plan;
}

}  // namespace

Result<oci::Config> container_config(const Container& container) {
  TRY(const std::string text, file::read(container.directory + "/config.json"));
  return oci::parse_config(text);
}

Result<Executed> exec_in_container(const GlobalOptions&, const Container& container, ExecOptions request) {
  TRY_VOID(check_status(container, request));
  TRY_VOID(oci::validate_process(request.process));
  TRY_VOID(check_terminal(request));
  const std::string pid_file = absolute_path(request.pid_file);
  TRY(ExecPlan plan, make_plan(container, request));

  Executed executed;
  Fd console_end;
  if (plan.process.terminal) {
    if (request.is_detached) {
      TRY(plan.console_socket, connect_console_socket(request.console_socket));
    } else {
      TRY(auto ends, sys::socketpair(SOCK_STREAM));
      console_end = std::move(ends.first);
      plan.console_socket = std::move(ends.second);
    }
  }
  TRY(auto ends, Channel::pair());
  // A process of the container could otherwise reach into ours as soon as it has joined (CVE-2016-9962).
  if (::prctl(PR_SET_DUMPABLE, 0) < 0) return Error::last_errno("prctl PR_SET_DUMPABLE");
  const pid_t stage = ::fork();
  if (stage < 0) return Error::last_errno("fork");
  if (stage == 0) {
    { const Channel parents = std::move(ends.first); }
    run_stage(plan, std::move(ends.second));
  }
  { const Channel childs = std::move(ends.second); }
  plan.console_socket.reset();
  auto followed = [&]() -> Result<void> {
    TRY_VOID(Cgroup::from_record(container.record.cgroups).join(stage, request.sub_cgroups, container.record.init_pid));
    if (plan.process.oom_score_adj) {
      TRY_VOID(file::write_control("/proc/" + std::to_string(stage) + "/oom_score_adj", std::to_string(*plan.process.oom_score_adj)));
    }
    TRY_VOID(ends.first.send(message::kBegin));
    return follow_child(container, plan, ends.first, console_end, executed);
  }();
  if (!followed) {
    ::kill(stage, SIGKILL);
    if (executed.pid > 0) {
      ::kill(executed.pid, SIGKILL);
      static_cast<void>(process::wait_for(executed.pid));
    }
    static_cast<void>(process::wait_for(stage));
    return std::move(followed).error().context(kStarting);
  }
  TRY_VOID(process::wait_for(stage));
  if (!pid_file.empty()) TRY_VOID(file::write_atomic(pid_file, std::to_string(executed.pid), 0644));
  return executed;
}

}  // namespace leash::runtime
