// What init and exec's child do alike to become the user's process: identity, limits, directory, and the
// last steps before execve(2).
#pragma once

#include <string>
#include <vector>

#include "base/channel.h"
#include "base/fd.h"
#include "base/result.h"
#include "oci-spec/config.h"
#include "runtime/capabilities.h"
#include "runtime/seccomp.h"

namespace leash::runtime {

// stdin, stdout and stderr get the user as their owner, so that it can reopen them (/dev/stdout). Never
// the null device: that is the host's for all.
[[nodiscard]] Result<void> give_stdio_to(const oci::User& user);

// stdin, stdout and stderr that are the host's null device become the container's: a descriptor of the
// host's file system is nothing for the container to hold.
[[nodiscard]] Result<void> reopen_null_stdio();

// What the last steps would fail with, told at create: "unable to apply caps: operation not permitted".
[[nodiscard]] Result<void> check_capabilities(const CapabilitySets& sets);

// chdir as root or, where root may not (a network file system), as the user; then makes sure that the
// kernel knows the directory below our root: one that was opened elsewhere, "/proc/self/fd/7", is no
// place in the container (CVE-2024-21626).
[[nodiscard]] Result<void> enter_directory(const std::string& cwd, const oci::User& user);

// While it lives, file access is checked as for that user (setfsuid(2)) with those effective capabilities.
class FileIdentity {
 public:
  explicit FileIdentity(const oci::User& user, uint64_t effective = 0);
  ~FileIdentity();
  FileIdentity(const FileIdentity&) = delete;
  FileIdentity& operator=(const FileIdentity&) = delete;

 private:
  int uid_before_;
  int gid_before_;
};

// HOME from the container's /etc/passwd where the environment has none, as runc does.
void add_home(std::vector<std::string>& env, uint32_t uid);

// personality(2), sched_setattr(2), ioprio_set(2), CPU affinity: what needs the root of before.
[[nodiscard]] Result<void> apply_scheduling(const oci::Process& process);
[[nodiscard]] Result<void> apply_personality(const oci::Personality& personality);
[[nodiscard]] Result<void> apply_memory_policy(const oci::MemoryPolicy& policy);
[[nodiscard]] Result<void> apply_cpu_affinity(const std::string& cpus);

// AppArmor profile or SELinux label for the next execve. `proc_fd`: a procfs in which "self" is us.
[[nodiscard]] Result<void> set_security_label(int proc_fd, const oci::Process& process);

struct LastSteps {
  const oci::Process* process = nullptr;
  std::string executable;
  CapabilitySets capabilities;
  std::vector<const SeccompFilter*> filters;  // installed in this order
  int preserved_fds = 0;                      // 3 .. 3+N-1 stay open
  const Channel* channel = nullptr;           // "listener", "exec", "failed"
};

// no_new_privs, user, seccomp, capabilities, execve. Returns only with an error from before `exec` was
// sent; later ones go to the container's stderr and end the process.
[[nodiscard]] Error run_last_steps(const LastSteps& steps);

}  // namespace leash::runtime
