#include "runtime/seccomp_floor.h"

#include <linux/audit.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <span>
#include <string_view>

#include "runtime/bpf_assembler.h"

namespace leash::runtime {

namespace {

// Programs have a second way when these are missing, and take it on ENOSYS only: glibc falls back from
// clone3 to clone, whose flags a filter can see; libuv and others from io_uring to threads.
constexpr std::string_view kMissing[] = {"clone3",  "io_uring_setup",  "io_uring_enter", "io_uring_register",
                                         "userfaultfd", "bpf", "perf_event_open"};

// Nothing that works on files, processes and sockets of a container asks for these.
constexpr std::string_view kForbidden[] = {
    "keyctl",      "add_key",       "request_key",                                  // keyrings have no namespace
    "open_by_handle_at", "fanotify_init",                                           // past the container's root
    "kexec_load",  "kexec_file_load", "init_module", "finit_module", "delete_module", "create_module",
    "reboot",      "swapon",        "swapoff",     "syslog",       "acct",          // the whole machine's
    "quotactl",    "quotactl_fd",   "clock_settime", "settimeofday", "stime",
    "iopl",        "ioperm",
    "kcmp",        "pidfd_getfd",   "move_pages",  "migrate_pages"};                // into other processes

// What a user namespace is for: the policy word "userns" gives them back together.
constexpr std::string_view kNamespaces[] = {
    "unshare",  "setns",    "mount",    "umount", "umount2",    "pivot_root",    "fsopen",         "fsconfig",
    "fsmount",  "fspick",   "open_tree", "open_tree_attr", "move_mount", "mount_setattr"};

// Newer than the libseccomp that we may be built with.
struct NewSyscall {
  std::string_view name;
  int number;
};
#if defined(__x86_64__) || defined(__aarch64__)
constexpr NewSyscall kNewSyscalls[] = {{"quotactl_fd", 443}, {"mount_setattr", 442}, {"open_tree_attr", 467}};
#else
#error "the floor filter must be looked at for this architecture: its native ABI, the order of clone's arguments"
#endif
#if defined(__x86_64__)
constexpr uint32_t kNativeArch = AUDIT_ARCH_X86_64;
#else
constexpr uint32_t kNativeArch = AUDIT_ARCH_AARCH64;
#endif

constexpr uint32_t kX32Bit = 0x40000000;
// CLONE_NEWTIME shares a bit with clone's exit signal: only clone3 and unshare take it.
constexpr uint32_t kNamespaceFlags =
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

constexpr uint32_t errno_of(int code) { return SECCOMP_RET_ERRNO | static_cast<uint32_t>(code); }

// Below zero: this architecture has no such call, or nobody has.
int syscall_number(std::string_view name) {
  for (const NewSyscall& entry : kNewSyscalls) {
    if (entry.name == name) return entry.number;
  }
  return seccomp_syscall_resolve_name(std::string(name).c_str());
}

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The kernel looks at the low half of an int argument only, and so must a filter.
constexpr size_t low_half_of_argument(size_t index) {
  return offsetof(seccomp_data, args) + index * sizeof(uint64_t);  // both architectures are little-endian
}

class Floor {
 public:
  Floor(const std::vector<std::string>& allowed, const std::vector<std::string>& denied)
      : allowed_(allowed), denied_(denied) {}

  Result<SeccompFilter> build() {
    TRY_VOID(check_names(allowed_, "syscalls.allow"));
    TRY_VOID(check_names(denied_, "syscalls.deny"));
    code_.load(offsetof(seccomp_data, arch));
    code_.jump_unless_equal(kNativeArch, missing_);
    code_.load(offsetof(seccomp_data, nr));
#if defined(__x86_64__)
    code_.jump_if_at_least(kX32Bit, missing_);
#endif
    refuse(kMissing, missing_);
    refuse(kForbidden, forbidden_);
    if (!contains(allowed_, "userns")) {
      refuse(kNamespaces, forbidden_);
      add_clone();
    }
    for (const std::string& name : denied_) {
      if (const int number = syscall_number(name); number >= 0) code_.jump_if_equal(static_cast<uint32_t>(number), forbidden_);
    }
    add_socket();
    add_socketpair();
    code_.place(pass_);
    code_.answer(SECCOMP_RET_ALLOW);
    code_.place(missing_);
    code_.answer(errno_of(ENOSYS));
    code_.place(forbidden_);
    code_.answer(errno_of(EPERM));
    code_.place(no_family_);
    code_.answer(errno_of(EAFNOSUPPORT));
    SeccompFilter filter;
    filter.program = code_.finish();
    filter.flags = SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    return filter;
  }

 private:
  static Result<void> check_names(const std::vector<std::string>& names, std::string_view key) {
    for (const std::string& name : names) {
      if (name == "userns" && key == "syscalls.allow") continue;
      if (syscall_number(name) == __NR_SCMP_ERROR) {
        return Error(EINVAL, std::string(key) + ": \"" + name + "\" is not a system call");
      }
    }
    return {};
  }

  void refuse(std::span<const std::string_view> names, BpfAssembler::Label verdict) {
    for (const std::string_view name : names) {
      if (contains(allowed_, name)) continue;
      if (const int number = syscall_number(name); number >= 0) code_.jump_if_equal(static_cast<uint32_t>(number), verdict);
    }
  }

  // Each of these ends in a verdict when the call is theirs, and leaves the number loaded when it is not.
  void add_clone() {
    if (contains(allowed_, "clone")) return;
    const auto next = code_.label();
    code_.jump_unless_equal(static_cast<uint32_t>(syscall_number("clone")), next);
    code_.load(low_half_of_argument(0));
    code_.jump_if_any_bit(kNamespaceFlags, forbidden_);
    code_.jump(pass_);
    code_.place(next);
  }

  // socket(family, type, protocol)
  void add_socket() {
    if (contains(allowed_, "socket")) return;
    const auto next = code_.label();
    const auto internet = code_.label();
    const auto stream = code_.label();
    const auto datagram = code_.label();
    const auto netlink = code_.label();
    code_.jump_unless_equal(static_cast<uint32_t>(syscall_number("socket")), next);
    code_.load(low_half_of_argument(0));
    code_.jump_if_equal(AF_UNIX, pass_);
    code_.jump_if_equal(AF_INET, internet);
    code_.jump_if_equal(AF_INET6, internet);
    code_.jump_if_equal(AF_NETLINK, netlink);
    code_.jump(no_family_);

    code_.place(internet);
    code_.load(low_half_of_argument(1));
    code_.mask(0xf);  // without SOCK_CLOEXEC and SOCK_NONBLOCK
    code_.jump_if_equal(SOCK_STREAM, stream);
    code_.jump_if_equal(SOCK_DGRAM, datagram);
    code_.jump(no_family_);  // raw, packet, SCTP's seqpacket, DCCP

    code_.place(stream);  // neither MPTCP, whose subflows are its own, nor SCTP
    code_.load(low_half_of_argument(2));
    code_.jump_if_equal(IPPROTO_IP, pass_);
    code_.jump_if_equal(IPPROTO_TCP, pass_);
    code_.jump(no_family_);

    code_.place(datagram);  // ICMP's datagrams are ping(8) without a raw socket
    code_.load(low_half_of_argument(2));
    code_.jump_if_equal(IPPROTO_IP, pass_);
    code_.jump_if_equal(IPPROTO_UDP, pass_);
    code_.jump_if_equal(IPPROTO_ICMP, pass_);
    code_.jump_if_equal(IPPROTO_ICMPV6, pass_);
    code_.jump(no_family_);

    code_.place(netlink);  // what getifaddrs, ss, udev and name lookups use; not nfnetlink, audit, xfrm
    code_.load(low_half_of_argument(2));
    code_.jump_if_equal(NETLINK_ROUTE, pass_);
    code_.jump_if_equal(NETLINK_SOCK_DIAG, pass_);
    code_.jump_if_equal(NETLINK_KOBJECT_UEVENT, pass_);
    code_.jump_if_equal(NETLINK_GENERIC, pass_);
    code_.jump(no_family_);
    code_.place(next);
  }

  // TIPC has pairs too.
  void add_socketpair() {
    if (contains(allowed_, "socketpair")) return;
    code_.jump_unless_equal(static_cast<uint32_t>(syscall_number("socketpair")), pass_);
    code_.load(low_half_of_argument(0));
    code_.jump_unless_equal(AF_UNIX, no_family_);
  }

  const std::vector<std::string>& allowed_;
  const std::vector<std::string>& denied_;
  BpfAssembler code_;
  BpfAssembler::Label pass_ = code_.label();
  BpfAssembler::Label missing_ = code_.label();
  BpfAssembler::Label forbidden_ = code_.label();
  BpfAssembler::Label no_family_ = code_.label();
};

}  // namespace

Result<SeccompFilter> seccomp_floor(const std::vector<std::string>& allowed, const std::vector<std::string>& denied) {
  return Floor(allowed, denied).build();
}

}  // namespace leash::runtime
