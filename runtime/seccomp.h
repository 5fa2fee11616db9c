// seccomp of config.json: an OCI profile becomes a BPF program in the parent, at create, so that init
// needs no library to install it: it calls seccomp(2) with bytes.
//
// libseccomp makes a program for each architecture of the profile (one for all of them costs it three times
// as long), we put them behind one another. In front stands a stub of ours, which also chooses between
// them: a system call whose number
// is above every number that the profile knows for that architecture answers ENOSYS, not the profile's
// EPERM. C libraries try a new call first and fall back on ENOSYS only; a profile that is older than the
// kernel and the libc would otherwise break programs (runc does the same).
//
// Filters are inherited and stack: the kernel runs all of them and takes the strictest answer. For a
// leashed container the floor (seccomp_floor.h) goes in first, then this one.
#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "oci-spec/config.h"
#include "oci-spec/state.h"

namespace leash::runtime {

struct SeccompFilter {
  std::vector<sock_filter> program;  // empty: nothing to install
  uint32_t flags = 0;                // SECCOMP_FILTER_FLAG_*, with NEW_LISTENER where has_listener
  bool has_listener = false;         // some action is SCMP_ACT_NOTIFY
};

// kNativeOnly: foreign ABIs of the profile (i386, x32 on x86_64) are left out and answer ENOSYS. Right where
// the floor stands below, which refuses them anyway: a third of the work.
enum class SeccompAbis { kAsInProfile, kNativeOnly };

// `unknown` gets names of system calls that libseccomp does not know: they are skipped, as in runc.
// Errors are about the profile: "string SCMP_ACT_X is not a valid action for seccomp".
[[nodiscard]] Result<SeccompFilter> compile_seccomp(const oci::Seccomp& profile, std::vector<std::string>& unknown,
                                                    SeccompAbis abis = SeccompAbis::kAsInProfile);

// seccomp(2) on the calling thread. Without no_new_privs it needs CAP_SYS_ADMIN: call it before the
// capabilities are dropped then, and as late as possible otherwise. The Fd is the listener's when the
// filter has one, else it is not valid. Allocates nothing on success.
[[nodiscard]] Result<Fd> install_seccomp(const SeccompFilter& filter);

// Connects to seccomp.listenerPath and hands the listener over, with the state as the message. Called by
// the parent, outside the container's root.
[[nodiscard]] Result<void> send_seccomp_listener(const std::string& path, int listener,
                                                 const oci::ContainerProcessState& state);

// For `features`: what libseccomp and this kernel can do.
[[nodiscard]] std::vector<std::string> seccomp_known_actions();
[[nodiscard]] std::vector<std::string> seccomp_known_operators();
[[nodiscard]] std::vector<std::string> seccomp_known_archs();
[[nodiscard]] std::vector<std::string> seccomp_known_flags();
[[nodiscard]] std::vector<std::string> seccomp_supported_flags();
[[nodiscard]] std::string libseccomp_version();

}  // namespace leash::runtime
