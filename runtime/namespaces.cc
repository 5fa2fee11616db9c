#include "runtime/namespaces.h"

#include <grp.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "base/file.h"
#include "base/process.h"
#include "base/sys.h"

namespace leash::runtime {

namespace {

constexpr int kNewTime = 0x00000080;  // CLONE_NEWTIME: not in every libc's sched.h

struct Kind {
  oci::NamespaceType type;
  int flag;
  const char* name;  // in /proc/PID/ns
};

constexpr Kind kKinds[] = {
    {oci::NamespaceType::kUser, CLONE_NEWUSER, "user"},   {oci::NamespaceType::kPid, CLONE_NEWPID, "pid"},
    {oci::NamespaceType::kNetwork, CLONE_NEWNET, "net"},  {oci::NamespaceType::kMount, CLONE_NEWNS, "mnt"},
    {oci::NamespaceType::kUts, CLONE_NEWUTS, "uts"},      {oci::NamespaceType::kIpc, CLONE_NEWIPC, "ipc"},
    {oci::NamespaceType::kCgroup, CLONE_NEWCGROUP, "cgroup"}, {oci::NamespaceType::kTime, kNewTime, "time"},
};

const Kind& kind_of(oci::NamespaceType type) {
  return *std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& kind) { return kind.type == type; });
}

std::string map_text(const std::vector<oci::IdMapping>& mappings) {
  std::string text;
  for (const oci::IdMapping& mapping : mappings) {
    text += std::to_string(mapping.container_id) + " " + std::to_string(mapping.host_id) + " " +
            std::to_string(mapping.size) + "\n";
  }
  return text;
}

Result<void> write_id_maps(pid_t pid, const NamespacePlan& plan) {
  const std::string proc = "/proc/" + std::to_string(pid);
  // Without CAP_SETGID the kernel takes a gid_map only once setgroups(2) is given up (user_namespaces(7)).
  if (::geteuid() != 0) TRY_VOID(file::write_control(proc + "/setgroups", "deny"));
  if (!plan.gid_mappings.empty()) TRY_VOID(file::write_control(proc + "/gid_map", map_text(plan.gid_mappings)));
  if (!plan.uid_mappings.empty()) TRY_VOID(file::write_control(proc + "/uid_map", map_text(plan.uid_mappings)));
  return {};
}

// Like fork(2) with namespaces: the child has a copy of this stack and memory.
Result<pid_t> raw_clone(int flags) {
  const long pid = ::syscall(SYS_clone, static_cast<unsigned long>(static_cast<unsigned>(flags)) | SIGCHLD, 0UL, nullptr,
                             nullptr, 0UL);
  if (pid < 0) return Error::last_errno("clone");
  return static_cast<pid_t>(pid);
}

Result<void> join_one(const JoinedNamespace& joined) {
  return sys::setns(joined.fd.get(), kind_of(joined.type).flag).context("join namespace '" + joined.path + "'");
}

// All joined namespaces in an order that works. Without a user namespace among them any order does. With
// one, those that the runtime's own user namespace owns must be entered before it, and those that the
// joined one owns, after.
Result<void> join_all(const NamespacePlan& plan) {
  const JoinedNamespace* user = plan.find_joined(oci::NamespaceType::kUser);
  std::vector<const JoinedNamespace*> later;
  for (const JoinedNamespace& joined : plan.joined) {
    if (&joined == user) continue;
    auto done = join_one(joined);
    if (done) continue;
    if (user == nullptr || done.error().code() != EPERM) return done;
    later.push_back(&joined);
  }
  if (user != nullptr) TRY_VOID(join_one(*user));
  for (const JoinedNamespace* joined : later) TRY_VOID(join_one(*joined));
  return {};
}

// Root of the user namespace that this process is in, so that what it makes belongs to a mapped id.
Result<void> become_namespace_root() {
  // EPERM where setgroups(2) was given up: then there are no groups to drop either.
  if (::setgroups(0, nullptr) < 0 && errno != EPERM) return Error::last_errno("setgroups");
  if (::setresgid(0, 0, 0) < 0) return Error::last_errno("setresgid");
  if (::setresuid(0, 0, 0) < 0) return Error::last_errno("setresuid");
  return {};
}

// The stage: see the header. Talks to the runtime over `channel`: "map" asks for the id maps, "mapped"
// answers, "init" brings init's pid, "failed" the error.
Result<void> run_stage(const NamespacePlan& plan, const Channel& channel, const std::function<void()>& child) {
  TRY_VOID(join_all(plan));
  int flags = plan.new_flags & ~CLONE_NEWCGROUP;
  if (plan.is_new(CLONE_NEWUSER)) {
    TRY_VOID(sys::unshare(CLONE_NEWUSER).context("new user namespace"));
    TRY_VOID(channel.send("map"));
    TRY(auto answer, channel.receive());
    if (!answer || answer->kind != "mapped") return Error("the runtime ended");
    flags &= ~CLONE_NEWUSER;
  }
  if (plan.has_user_namespace()) TRY_VOID(become_namespace_root());
  if (plan.is_new(kNewTime)) {
    TRY_VOID(sys::unshare(kNewTime).context("new time namespace"));
    if (!plan.time_offsets.empty()) {
      TRY_VOID(file::write_control("/proc/self/timens_offsets", plan.time_offsets).context("time namespace"));
    }
    flags &= ~kNewTime;
  }
  TRY(const pid_t pid, raw_clone(flags | CLONE_PARENT));
  if (pid == 0) {
    child();
    ::_exit(1);
  }
  return channel.send("init", std::to_string(pid));
}

Result<pid_t> clone_by_stage(const NamespacePlan& plan, const std::function<void()>& child) {
  TRY(auto ends, Channel::pair());
  TRY(const pid_t stage, raw_clone(0));
  if (stage == 0) {
    { const Channel parents = std::move(ends.first); }
    auto done = run_stage(plan, ends.second, child);
    if (!done) static_cast<void>(ends.second.send("failed", done.error().message()));
    ::_exit(done ? 0 : 1);
  }
  { const Channel childs = std::move(ends.second); }
  Result<pid_t> result = Error("the process that enters the namespaces ended early");
  for (;;) {
    auto message = ends.first.receive();
    if (!message || !*message) break;
    if ((*message)->kind == "map") {
      auto mapped = write_id_maps(stage, plan);
      if (!mapped) {
        result = std::move(mapped).error();
        { const Channel closed = std::move(ends.first); }
        break;
      }
      static_cast<void>(ends.first.send("mapped"));
      continue;
    }
    if ((*message)->kind == "init") result = static_cast<pid_t>(std::stol((*message)->body));
    else result = Error((*message)->body);
    break;
  }
  TRY_VOID(process::wait_for(stage));
  return result;
}

}  // namespace

const JoinedNamespace* NamespacePlan::find_joined(oci::NamespaceType type) const {
  for (const JoinedNamespace& entry : joined) {
    if (entry.type == type) return &entry;
  }
  return nullptr;
}

bool NamespacePlan::has_user_namespace() const {
  return is_new(CLONE_NEWUSER) || find_joined(oci::NamespaceType::kUser) != nullptr;
}

bool NamespacePlan::needs_stage() const {
  return is_new(kNewTime) || find_joined(oci::NamespaceType::kPid) != nullptr ||
         find_joined(oci::NamespaceType::kTime) != nullptr || find_joined(oci::NamespaceType::kUser) != nullptr ||
         (is_new(CLONE_NEWUSER) && !joined.empty());
}

Result<NamespacePlan> plan_namespaces(const oci::Linux& spec) {
  NamespacePlan plan;
  for (const oci::Namespace& entry : spec.namespaces) {
    const Kind& kind = kind_of(entry.type);
    if (entry.path.empty()) {
      plan.new_flags |= kind.flag;
      continue;
    }
    auto opened = sys::open(entry.path, O_RDONLY);
    if (!opened) return Error::from_errno(opened.error().code(), "namespace path: lstat " + entry.path);
    JoinedNamespace joined;
    joined.type = entry.type;
    joined.path = entry.path;
    joined.fd = std::move(opened).value();
    if (::ioctl(joined.fd.get(), NS_GET_NSTYPE) != kind.flag) {
      return Error(EINVAL, "namespace path " + entry.path + " is not a " + kind.name + " namespace");
    }
    TRY(const struct stat theirs, sys::fstat(joined.fd.get()));
    if (theirs.st_ino == namespace_inode(::getpid(), kind.name)) continue;
    plan.joined.push_back(std::move(joined));
  }
  plan.uid_mappings = spec.uid_mappings;
  plan.gid_mappings = spec.gid_mappings;
  if (plan.is_new(kNewTime)) {
    const auto add = [&](const char* clock, const std::optional<oci::TimeOffset>& offset) {
      if (!offset) return;
      plan.time_offsets += std::string(clock) + " " + std::to_string(offset->secs) + " " + std::to_string(offset->nanosecs) + "\n";
    };
    add("monotonic", spec.time_offset_monotonic);
    add("boottime", spec.time_offset_boottime);
  }
  return plan;
}

Result<pid_t> clone_init(const NamespacePlan& plan, const std::function<void()>& child) {
  if (plan.needs_stage()) return clone_by_stage(plan, child);
  TRY(const pid_t pid, raw_clone(plan.new_flags & ~CLONE_NEWCGROUP));
  if (pid == 0) {
    child();
    ::_exit(1);
  }
  if (plan.is_new(CLONE_NEWUSER)) {
    auto mapped = write_id_maps(pid, plan);
    if (!mapped) {
      ::kill(pid, SIGKILL);
      TRY_VOID(process::wait_for(pid));
      return std::move(mapped).error();
    }
  }
  return pid;
}

Result<void> enter_namespaces(const NamespacePlan& plan) {
  if (plan.needs_stage()) return {};
  TRY_VOID(join_all(plan));
  if (plan.is_new(CLONE_NEWUSER)) TRY_VOID(become_namespace_root());
  return {};
}

Result<void> enter_cgroup_namespace(const NamespacePlan& plan) {
  if (!plan.is_new(CLONE_NEWCGROUP)) return {};
  return sys::unshare(CLONE_NEWCGROUP).context("new cgroup namespace");
}

Result<void> join_process(int pidfd, int flags) { return sys::setns(pidfd, flags).context("join the container"); }

uint64_t namespace_inode(pid_t pid, const std::string& name) {
  struct stat st = {};
  if (::stat(("/proc/" + std::to_string(pid) + "/ns/" + name).c_str(), &st) < 0) return 0;
  return st.st_ino;
}

}  // namespace leash::runtime
