#include "runtime/process_setup.h"

#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/fsuid.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <charconv>

#include "base/sys.h"
#include "runtime/init_protocol.h"
#include "runtime/sysctl.h"

namespace leash::runtime {

namespace {

// setuid away from root clears the effective set but, with PR_SET_KEEPCAPS, not the permitted one.
Result<void> raise_permitted() {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<struct __user_cap_data_struct, 2> data{};
  if (::syscall(SYS_capget, &header, data.data()) < 0) return Error::last_errno("capget");
  for (auto& word : data) word.effective = word.permitted;
  if (::syscall(SYS_capset, &header, data.data()) < 0) return Error::last_errno("capset");
  return {};
}

Result<void> become_user(const oci::User& user) {
  std::vector<gid_t> groups(user.additional_gids.begin(), user.additional_gids.end());
  // In a user namespace whose setgroups file says "deny" there are none to set.
  if (::setgroups(groups.size(), groups.data()) < 0 && !(errno == EPERM && groups.empty())) {
    return Error::last_errno("setgroups");
  }
  if (::setresgid(user.gid, user.gid, user.gid) < 0) return Error::last_errno("setgid " + std::to_string(user.gid));
  if (::setresuid(user.uid, user.uid, user.uid) < 0) return Error::last_errno("setuid " + std::to_string(user.uid));
  if (user.umask) ::umask(*user.umask);
  return {};
}

// As for a program that nobody has prepared anything for: engines and their shims ignore and block some.
void reset_signals() {
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) ::sigaction(signal, &standard, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> list;
  list.reserve(words.size() + 1);
  for (const std::string& word : words) list.push_back(const_cast<char*>(word.c_str()));
  list.push_back(nullptr);
  return list;
}

Result<void> install_filters(const LastSteps& steps) {
  for (const SeccompFilter* filter : steps.filters) {
    if (filter->program.empty()) continue;
    TRY(Fd listener, install_seccomp(*filter));
    if (listener.valid()) TRY_VOID(steps.channel->send(message::kListener, {}, {listener.get()}));
  }
  return {};
}

[[noreturn]] void fail_after_exec_message(const LastSteps& steps, const Error& error) {
  // The channel may be closed to us by the filter just installed: stderr is the container's own.
  static_cast<void>(sys::write_all(STDERR_FILENO, error.message() + "\n"));
  static_cast<void>(steps.channel->send(message::kFailed, error.message()));
  ::_exit(1);
}

struct Word {
  std::string_view name;
  int value;
};

template <size_t N>
int find_word(const std::array<Word, N>& words, std::string_view name) {
  for (const Word& word : words) {
    if (word.name == name) return word.value;
  }
  return -1;
}

// "0-3,7" (cpuset(7)) to a set of numbers below `limit`.
Result<std::vector<unsigned>> parse_list(std::string_view text, unsigned limit) {
  std::vector<unsigned> numbers;
  const std::string whole(text);
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    unsigned first = 0;
    auto [stop, code] = std::from_chars(part.data(), part.data() + part.size(), first);
    unsigned last = first;
    const char* end = part.data() + part.size();
    if (code == std::errc() && stop != end && *stop == '-') {
      const auto second = std::from_chars(stop + 1, end, last);
      stop = second.ptr;
      code = second.ec;
    }
    if (code != std::errc() || stop != end || last < first || last >= limit) {
      return Error(EINVAL, "invalid list '" + whole + "'");
    }
    for (unsigned number = first; number <= last; ++number) numbers.push_back(number);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return numbers;
}

// sched_setattr(2)'s structure: no libc of ours declares it.
struct SchedulerAttributes {
  uint32_t size;
  uint32_t policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime;
  uint64_t deadline;
  uint64_t period;
};

}  // namespace

Result<void> give_stdio_to(const oci::User& user) {
  struct stat null = {};
  if (::stat("/dev/null", &null) < 0) null.st_rdev = ::makedev(1, 3);
  for (int fd = 0; fd < 3; ++fd) {
    struct stat st = {};
    if (::fstat(fd, &st) < 0) {
      if (errno == EBADF) continue;
      return Error::last_errno("fstat stdio");
    }
    if (st.st_uid == user.uid) continue;
    if (S_ISCHR(st.st_mode) && (st.st_rdev == ::makedev(1, 3) || st.st_rdev == null.st_rdev)) continue;
    // EINVAL: an unmapped owner; EPERM: not ours to give; EROFS: a file on a read-only mount.
    if (::fchown(fd, user.uid, st.st_gid) < 0 && errno != EINVAL && errno != EPERM && errno != EROFS) {
      return Error::last_errno("chown stdio");
    }
  }
  return {};
}

Result<void> reopen_null_stdio() {
  const dev_t null = ::makedev(1, 3);
  for (int fd = 0; fd < 3; ++fd) {
    struct stat st = {};
    if (::fstat(fd, &st) < 0 || !S_ISCHR(st.st_mode) || st.st_rdev != null) continue;
    // Opened without effect first: what stands at that path is the image's to choose.
    auto path = sys::open("/dev/null", O_PATH | O_NOFOLLOW);
    if (!path) continue;
    TRY(const struct stat inside, sys::fstat(path->get()));
    if (!S_ISCHR(inside.st_mode) || inside.st_rdev != null) continue;
    TRY(Fd opened, sys::open("/dev/null", O_RDWR | O_NOFOLLOW));
    TRY(const struct stat same, sys::fstat(opened.get()));
    if (same.st_ino != inside.st_ino || same.st_dev != inside.st_dev) continue;
    if (::dup2(opened.get(), fd) < 0) return Error::last_errno("dup2 /dev/null");
  }
  return {};
}

Result<void> check_capabilities(const CapabilitySets& sets) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<struct __user_cap_data_struct, 2> data{};
  if (::syscall(SYS_capget, &header, data.data()) < 0) return Error::last_errno("capget");
  const uint64_t permitted = data[0].permitted | (uint64_t{data[1].permitted} << 32);
  if ((sets.permitted & ~permitted) == 0) return {};
  return Error::from_errno(EPERM, "unable to apply caps");
}

Result<void> enter_directory(const std::string& cwd, const oci::User& user) {
  const auto fail = [&](int code) {
    return Error::from_errno(code, "chdir to cwd (\"" + cwd + "\") set in config.json failed");
  };
  if (::chdir(cwd.c_str()) < 0) {
    if (errno != EACCES && errno != EPERM) return fail(errno);
    const FileIdentity identity(user);
    if (::chdir(cwd.c_str()) < 0) return fail(errno);
  }
  std::array<char, 4096> path{};
  if (::syscall(SYS_getcwd, path.data(), path.size()) < 0) return fail(errno);
  if (path[0] != '/') {
    return Error(EPERM, "current working directory is outside of container mount namespace root -- possible container breakout detected");
  }
  return {};
}

FileIdentity::FileIdentity(const oci::User& user, uint64_t effective)
    : uid_before_(-1), gid_before_(-1) {
  gid_before_ = ::setfsgid(user.gid);
  uid_before_ = ::setfsuid(user.uid);
  // setfsuid away from 0 has cleared these; what the process will have decides what it can open.
  constexpr uint64_t kOfFiles = (uint64_t{1} << CAP_DAC_OVERRIDE) | (uint64_t{1} << CAP_DAC_READ_SEARCH);
  if (user.uid == 0 || (effective & kOfFiles) == 0) return;
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<struct __user_cap_data_struct, 2> data{};
  if (::syscall(SYS_capget, &header, data.data()) < 0) return;
  data[0].effective |= static_cast<uint32_t>(effective & kOfFiles) & data[0].permitted;
  ::syscall(SYS_capset, &header, data.data());
}

FileIdentity::~FileIdentity() {
  ::setfsuid(static_cast<uid_t>(uid_before_));
  ::setfsgid(static_cast<gid_t>(gid_before_));
}

void add_home(std::vector<std::string>& env, uint32_t uid) {
  for (const std::string& entry : env) {
    if (entry.starts_with("HOME=")) return;
  }
  std::string home = "/";
  // The image's file: a fifo or a device there must not stop us.
  auto file = sys::open("/etc/passwd", O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (file) {
    auto st = sys::fstat(file->get());
    Result<std::string> text = st && S_ISREG(st->st_mode) ? sys::read_all(file->get(), size_t{4} << 20) : std::string();
    if (text) {
      std::string_view rest = *text;
      while (!rest.empty()) {
        const size_t end = rest.find('\n');
        std::string_view line = rest.substr(0, end);
        std::array<std::string_view, 6> fields{};
        for (std::string_view& field : fields) {
          const size_t colon = line.find(':');
          field = line.substr(0, colon);
          line = colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
        }
        if (fields[2] == std::to_string(uid)) {
          if (!fields[5].empty()) home = fields[5];
          break;
        }
        if (end == std::string_view::npos) break;
        rest.remove_prefix(end + 1);
      }
    }
  }
  env.push_back("HOME=" + home);
}

Result<void> apply_scheduling(const oci::Process& process) {
  if (process.scheduler) {
    static constexpr std::array kPolicies = {Word{"SCHED_OTHER", 0}, Word{"SCHED_FIFO", 1},  Word{"SCHED_RR", 2},
                                             Word{"SCHED_BATCH", 3}, Word{"SCHED_ISO", 4},   Word{"SCHED_IDLE", 5},
                                             Word{"SCHED_DEADLINE", 6}};
    static constexpr std::array kFlags = {Word{"SCHED_FLAG_RESET_ON_FORK", 0x01}, Word{"SCHED_FLAG_RECLAIM", 0x02},
                                          Word{"SCHED_FLAG_DL_OVERRUN", 0x04},    Word{"SCHED_FLAG_KEEP_POLICY", 0x08},
                                          Word{"SCHED_FLAG_KEEP_PARAMS", 0x10},   Word{"SCHED_FLAG_UTIL_CLAMP_MIN", 0x20},
                                          Word{"SCHED_FLAG_UTIL_CLAMP_MAX", 0x40}};
    const oci::Scheduler& wanted = *process.scheduler;
    SchedulerAttributes attributes = {};
    attributes.size = sizeof attributes;
    const int policy = find_word(kPolicies, wanted.policy);
    if (policy < 0) return Error(EINVAL, "invalid scheduler policy: " + wanted.policy);
    attributes.policy = static_cast<uint32_t>(policy);
    for (const std::string& flag : wanted.flags) {
      const int bit = find_word(kFlags, flag);
      if (bit < 0) return Error(EINVAL, "invalid scheduler flag: " + flag);
      attributes.flags |= static_cast<uint64_t>(bit);
    }
    attributes.nice = wanted.nice;
    attributes.priority = static_cast<uint32_t>(wanted.priority);
    attributes.runtime = wanted.runtime;
    attributes.deadline = wanted.deadline;
    attributes.period = wanted.period;
    if (::syscall(SYS_sched_setattr, 0, &attributes, 0) < 0) return Error::last_errno("error setting scheduler");
  }
  if (process.io_priority) {
    static constexpr std::array kClasses = {Word{"IOPRIO_CLASS_RT", 1}, Word{"IOPRIO_CLASS_BE", 2}, Word{"IOPRIO_CLASS_IDLE", 3}};
    const int io_class = find_word(kClasses, process.io_priority->io_class);
    if (io_class < 0) return Error(EINVAL, "invalid ioPriority.Class: " + process.io_priority->io_class);
    const int value = (io_class << 13) | process.io_priority->priority;
    if (::syscall(SYS_ioprio_set, 1 /* IOPRIO_WHO_PROCESS */, 0, value) < 0) return Error::last_errno("failed to set io priority");
  }
  return {};
}

Result<void> apply_personality(const oci::Personality& personality) {
  if (personality.domain != "LINUX" && personality.domain != "LINUX32") {
    return Error(EINVAL, "invalid personality domain: " + personality.domain);
  }
  if (::personality(personality.domain == "LINUX32" ? PER_LINUX32 : PER_LINUX) < 0) {
    return Error::last_errno("set personality");
  }
  return {};
}

Result<void> apply_memory_policy(const oci::MemoryPolicy& policy) {
  static constexpr std::array kModes = {Word{"MPOL_DEFAULT", 0},    Word{"MPOL_PREFERRED", 1},
                                        Word{"MPOL_BIND", 2},       Word{"MPOL_INTERLEAVE", 3},
                                        Word{"MPOL_LOCAL", 4},      Word{"MPOL_PREFERRED_MANY", 5},
                                        Word{"MPOL_WEIGHTED_INTERLEAVE", 6}};
  static constexpr std::array kFlags = {Word{"MPOL_F_STATIC_NODES", 1 << 15}, Word{"MPOL_F_RELATIVE_NODES", 1 << 14},
                                        Word{"MPOL_F_NUMA_BALANCING", 1 << 13}};
  int mode = find_word(kModes, policy.mode);
  if (mode < 0) return Error(EINVAL, "invalid memory policy mode: " + policy.mode);
  for (const std::string& flag : policy.flags) {
    const int bit = find_word(kFlags, flag);
    if (bit < 0) return Error(EINVAL, "invalid memory policy flag: " + flag);
    mode |= bit;
  }
  std::array<unsigned long, 16> nodes{};
  constexpr unsigned kBits = 8 * sizeof(unsigned long);
  TRY(const auto list, parse_list(policy.nodes, static_cast<unsigned>(nodes.size()) * kBits));
  for (const unsigned node : list) nodes[node / kBits] |= 1UL << (node % kBits);
  if (::syscall(SYS_set_mempolicy, mode, list.empty() ? nullptr : nodes.data(), list.empty() ? 0UL : nodes.size() * kBits + 1) < 0) {
    return Error::last_errno("set memory policy");
  }
  return {};
}

Result<void> apply_cpu_affinity(const std::string& cpus) {
  if (cpus.empty()) return {};
  TRY(const auto list, parse_list(cpus, CPU_SETSIZE));
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const unsigned cpu : list) CPU_SET(cpu, &set);
  if (::sched_setaffinity(0, sizeof set, &set) < 0) return Error::last_errno("set CPU affinity");
  return {};
}

Result<void> set_security_label(int proc_fd, const oci::Process& process) {
  if (!process.apparmor_profile.empty()) {
    auto applied = [&]() -> Result<void> {
      auto file = open_in_proc(proc_fd, "thread-self/attr/apparmor/exec", O_WRONLY);
      if (!file) {
        TRY(file, sys::openat(proc_fd, "self/attr/exec", O_WRONLY));
      }
      const std::string text = "exec " + process.apparmor_profile;
      if (::write(file->get(), text.data(), text.size()) < 0) return Error::last_errno("write /proc/self/attr/exec");
      return {};
    }();
    if (!applied) {
      return std::move(applied).error().context("unable to apply apparmor profile: apparmor failed to apply profile");
    }
  }
  if (!process.selinux_label.empty()) {
    if (::access("/sys/fs/selinux/enforce", F_OK) < 0) {
      return Error("selinux label is specified in config, but selinux is disabled or not supported");
    }
    TRY(Fd file, sys::openat(proc_fd, "self/attr/exec", O_WRONLY));
    if (::write(file.get(), process.selinux_label.data(), process.selinux_label.size()) < 0) {
      return Error::last_errno("can't set process label");
    }
  }
  return {};
}

Error run_last_steps(const LastSteps& steps) {
  const oci::Process& process = *steps.process;
  const auto prepared = [&]() -> Result<void> {
    TRY_VOID(apply_scheduling(process));
    if (process.exec_cpu_affinity) TRY_VOID(apply_cpu_affinity(process.exec_cpu_affinity->final_cpus));
    if (process.no_new_privileges) TRY_VOID(set_no_new_privileges());
    TRY_VOID(drop_bounding(steps.capabilities));
    TRY_VOID(keep_over_setuid(true));
    TRY_VOID(become_user(process.user));
    TRY_VOID(raise_permitted());
    TRY_VOID(keep_over_setuid(false));
    // With no_new_privs the filter comes last and sees the fewest calls of ours; without, installing it
    // needs CAP_SYS_ADMIN, so the capabilities go after it.
    if (process.no_new_privileges) TRY_VOID(set_capabilities(steps.capabilities));
    return {};
  }();
  if (!prepared) return prepared.error();
  reset_signals();
  const std::vector<char*> argv = pointers(process.args);
  const std::vector<char*> env = pointers(process.env);
  ::syscall(SYS_close_range, static_cast<unsigned>(3 + steps.preserved_fds), ~0U, 4U /* CLOSE_RANGE_CLOEXEC */);
  if (auto sent = steps.channel->send(message::kExec); !sent) return std::move(sent).error();

  if (auto filtered = install_filters(steps); !filtered) fail_after_exec_message(steps, filtered.error());
  if (!process.no_new_privileges) {
    if (auto set = set_capabilities(steps.capabilities); !set) fail_after_exec_message(steps, set.error());
  }
  ::execve(steps.executable.c_str(), argv.data(), env.data());
  const std::string text = "exec " + steps.executable + ": " + errno_text(errno) + "\n";
  static_cast<void>(sys::write_all(STDERR_FILENO, text));
  ::_exit(1);
}

}  // namespace leash::runtime
