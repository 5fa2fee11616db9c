#include "shim/unprivileged.h"

#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

namespace leash::shim {

uid_t child_uid(ChildKind kind, pid_t pid) { return static_cast<uid_t>(kind) + static_cast<uid_t>(pid); }

Result<void> give_up_privileges(uid_t id, pid_t parent) {
  for (int capability = 0; ::prctl(PR_CAPBSET_READ, capability) >= 0; ++capability) {
    if (::prctl(PR_CAPBSET_DROP, capability) < 0 && errno != EPERM) return Error::last_errno("drop bounding set");
  }
  if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0) return Error::last_errno("clear ambient set");
  if (::setgroups(0, nullptr) < 0) return Error::last_errno("setgroups");
  if (::setresgid(id, id, id) < 0) return Error::last_errno("setresgid");
  if (::setresuid(id, id, id) < 0) return Error::last_errno("setresuid");
  // setresuid away from 0 has emptied the effective and permitted sets (capabilities(7)); the
  // inheritable one is ours to empty.
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct none[2] = {};
  if (::syscall(SYS_capset, &header, none) < 0) return Error::last_errno("capset");
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) return Error::last_errno("no_new_privs");
  const struct rlimit no_core = {0, 0};
  if (::setrlimit(RLIMIT_CORE, &no_core) < 0) return Error::last_errno("setrlimit RLIMIT_CORE");
  if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) return Error::last_errno("PR_SET_DUMPABLE");
  if (::chdir("/") < 0) return Error::last_errno("chdir '/'");
  struct sigaction defaults = {};
  defaults.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) (void)::sigaction(signal, &defaults, nullptr);
  sigset_t empty;
  sigemptyset(&empty);
  if (::sigprocmask(SIG_SETMASK, &empty, nullptr) < 0) return Error::last_errno("sigprocmask");
  // A change of credentials clears the parent-death signal (prctl(2)), so it comes last.
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0) return Error::last_errno("PR_SET_PDEATHSIG");
  if (::getppid() != parent) return Error(ESRCH, "leash-shim has died");
  return {};
}

Result<void> close_all_but(std::vector<int> kept) {
  std::sort(kept.begin(), kept.end());
  unsigned first = 3;
  for (const int fd : kept) {
    const unsigned number = static_cast<unsigned>(fd);
    if (number > first && ::syscall(SYS_close_range, first, number - 1, 0) < 0) {
      return Error::last_errno("close_range");
    }
    first = std::max(first, number + 1);
  }
  if (::syscall(SYS_close_range, first, ~0U, 0) < 0) return Error::last_errno("close_range");
  return {};
}

}  // namespace leash::shim
