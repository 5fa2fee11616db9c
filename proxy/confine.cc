#include "proxy/confine.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace leash::proxy {

namespace {

#if defined(__x86_64__)
constexpr uint32_t kNativeArch = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kNativeArch = AUDIT_ARCH_AARCH64;
#else
#error "the proxy's filter must be looked at for this architecture: its native ABI"
#endif
constexpr uint32_t kX32Bit = 0x40000000;

constexpr std::array kNeverMade = {
    SYS_socket,         SYS_socketpair,        SYS_connect,           SYS_bind,      SYS_listen,
    SYS_io_uring_setup, SYS_io_uring_enter,    SYS_io_uring_register,  // the same by another way
    SYS_execve,         SYS_execveat,
    SYS_ptrace,         SYS_process_vm_readv,  SYS_process_vm_writev, SYS_pidfd_getfd, SYS_kcmp,
    SYS_setns,          SYS_unshare,           SYS_mount,             SYS_bpf,       SYS_userfaultfd,
    SYS_perf_event_open, SYS_keyctl,           SYS_add_key,           SYS_request_key};

constexpr sock_filter load(size_t offset) {
  return {BPF_LD | BPF_W | BPF_ABS, 0, 0, static_cast<uint32_t>(offset)};
}
constexpr sock_filter answer(uint32_t verdict) { return {BPF_RET | BPF_K, 0, 0, verdict}; }
// Skips `if_true` or `if_false` instructions.
constexpr sock_filter jump(uint16_t comparison, uint32_t value, uint8_t if_true, uint8_t if_false) {
  return {static_cast<uint16_t>(BPF_JMP | BPF_K | comparison), if_true, if_false, value};
}

}  // namespace

Result<void> confine_self() {
  // Another ABI has other numbers for the same calls: nobody here speaks one.
  std::vector<sock_filter> program = {load(offsetof(seccomp_data, arch)), jump(BPF_JEQ, kNativeArch, 1, 0),
                                      answer(SECCOMP_RET_KILL_PROCESS), load(offsetof(seccomp_data, nr))};
#if defined(__x86_64__)
  program.push_back(jump(BPF_JGE, kX32Bit, 0, 1));
  program.push_back(answer(SECCOMP_RET_KILL_PROCESS));
#endif
  for (const auto number : kNeverMade) {
    program.push_back(jump(BPF_JEQ, static_cast<uint32_t>(number), 0, 1));
    program.push_back(answer(SECCOMP_RET_ERRNO | EPERM));
  }
  program.push_back(answer(SECCOMP_RET_ALLOW));
  const sock_fprog filter = {static_cast<unsigned short>(program.size()), program.data()};
  // Without the flag older kernels slow the whole process down against speculation (seccomp(2)).
  if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &filter) < 0) {
    return Error::last_errno("install the proxy's seccomp filter");
  }
  return {};
}

}  // namespace leash::proxy
