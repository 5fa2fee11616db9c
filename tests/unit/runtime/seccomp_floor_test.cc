#include "runtime/seccomp_floor.h"

#include <linux/netlink.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>

#include "base/sys.h"
#include "tests/unit/catch.h"
#include "tests/unit/runtime/in_child.h"

using namespace leash;
using tests::in_child;

namespace {

runtime::SeccompFilter floor(const std::vector<std::string>& allowed = {}, const std::vector<std::string>& denied = {}) {
  Result<runtime::SeccompFilter> filter = runtime::seccomp_floor(allowed, denied);
  INFO((filter ? std::string() : filter.error().message()));
  REQUIRE(filter);
  return std::move(filter).value();
}

int errno_under(const runtime::SeccompFilter& filter, long number, long a = 0, long b = 0, long c = 0, long d = 0) {
  return in_child([&] {
    if (!runtime::install_seccomp(filter)) return 250;
    return syscall(number, a, b, c, d, 0L, 0L) < 0 ? errno : 0;
  });
}

int socket_errno(int family, int type, int protocol) {
  return errno_under(floor(), SYS_socket, family, type, protocol);
}

}  // namespace

TEST_CASE("floor: calls that programs can do without are ENOSYS, so that they fall back") {
  for (long number : {SYS_clone3, SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register, SYS_userfaultfd,
                      SYS_bpf, SYS_perf_event_open}) {
    INFO(number);
    CHECK(errno_under(floor(), number) == ENOSYS);
  }
}

TEST_CASE("floor: calls for the machine and into others are EPERM, also for root") {
  for (long number : {SYS_keyctl, SYS_add_key, SYS_request_key, SYS_open_by_handle_at, SYS_fanotify_init,
                      SYS_kexec_load, SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_reboot, SYS_swapon,
                      SYS_syslog, SYS_acct, SYS_quotactl, SYS_kcmp, SYS_pidfd_getfd, SYS_clock_settime,
                      SYS_move_pages, SYS_migrate_pages}) {
    INFO(number);
    CHECK(errno_under(floor(), number) == EPERM);
  }
}

TEST_CASE("floor: namespaces and mounts are EPERM unless the policy allows userns") {
  const auto shut = floor();
  const auto open = floor({"userns"});
  CHECK(errno_under(shut, SYS_unshare, CLONE_NEWNS) == EPERM);
  CHECK(errno_under(open, SYS_unshare, CLONE_NEWNS) == 0);
  CHECK(errno_under(shut, SYS_setns, -1, 0) == EPERM);
  CHECK(errno_under(open, SYS_setns, -1, 0) == EBADF);
  CHECK(errno_under(shut, SYS_mount, 0, 0, 0) == EPERM);
  CHECK(errno_under(shut, SYS_fsopen, 0, 0) == EPERM);
  CHECK(errno_under(shut, SYS_move_mount, -1, 0, -1) == EPERM);
  CHECK(errno_under(shut, 442) == EPERM);  // mount_setattr
  CHECK(errno_under(open, SYS_fsopen, 0, 0) == EFAULT);
}

TEST_CASE("floor: clone makes processes and threads but no namespace") {
  auto clone_under = [](const runtime::SeccompFilter& filter, unsigned long flags) {
    return in_child([&] {
      if (!runtime::install_seccomp(filter)) return 250;
      const long child = syscall(SYS_clone, flags | SIGCHLD, 0L, 0L, 0L, 0L);
      if (child == 0) _exit(0);
      return child < 0 ? errno : 0;
    });
  };
  CHECK(clone_under(floor(), 0) == 0);
  CHECK(clone_under(floor(), CLONE_NEWNET) == EPERM);
  CHECK(clone_under(floor(), CLONE_NEWUSER) == EPERM);
  CHECK(clone_under(floor(), CLONE_NEWUTS | 0x100000000UL) == EPERM);
  CHECK(clone_under(floor({"userns"}), CLONE_NEWUTS) == 0);
}

TEST_CASE("floor: the sockets of ordinary programs work") {
  CHECK(socket_errno(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0) == 0);
  CHECK(socket_errno(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, IPPROTO_TCP) == 0);
  CHECK(socket_errno(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0) == 0);
  CHECK(socket_errno(AF_INET, SOCK_DGRAM, IPPROTO_UDP) == 0);
  CHECK(socket_errno(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE) == 0);
  CHECK(socket_errno(AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG) == 0);
  CHECK(errno_under(floor(), SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, 0) == EFAULT);
}

TEST_CASE("floor: families, raw sockets and protocols with ways of their own are EAFNOSUPPORT") {
  constexpr int kVsock = 40, kAlg = 38, kTipc = 30, kSmc = 43, kXdp = 44, kQrtr = 42, kBluetooth = 31, kCan = 29;
  for (int family : {kVsock, kAlg, kTipc, kSmc, kXdp, kQrtr, kBluetooth, kCan, AF_PACKET, AF_KEY, 0, 99}) {
    INFO(family);
    CHECK(socket_errno(family, SOCK_DGRAM, 0) == EAFNOSUPPORT);
    CHECK(socket_errno(family, SOCK_STREAM, 0) == EAFNOSUPPORT);
  }
  CHECK(socket_errno(AF_INET, SOCK_RAW, IPPROTO_ICMP) == EAFNOSUPPORT);
  CHECK(socket_errno(AF_INET6, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW) == EAFNOSUPPORT);
  CHECK(socket_errno(AF_INET, SOCK_STREAM, 132) == EAFNOSUPPORT);  // SCTP
  CHECK(socket_errno(AF_INET, SOCK_STREAM, 262) == EAFNOSUPPORT);  // MPTCP
  CHECK(socket_errno(AF_INET, SOCK_SEQPACKET, 132) == EAFNOSUPPORT);
  CHECK(socket_errno(AF_INET, SOCK_DGRAM, 136) == EAFNOSUPPORT);  // UDP-Lite
  CHECK(socket_errno(AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER) == EAFNOSUPPORT);
  CHECK(socket_errno(AF_NETLINK, SOCK_RAW, NETLINK_XFRM) == EAFNOSUPPORT);
  CHECK(errno_under(floor(), SYS_socketpair, kTipc, SOCK_STREAM, 0, 0) == EAFNOSUPPORT);
}

TEST_CASE("floor: the high half of an int argument deceives nobody") {
  // The kernel takes the low half: family 40 (AF_VSOCK) here.
  CHECK(errno_under(floor(), SYS_socket, 0x100000028L, SOCK_STREAM, 0) == EAFNOSUPPORT);
  CHECK(errno_under(floor(), SYS_socket, 0x700000000L | AF_UNIX, SOCK_STREAM, 0) == 0);
}

#if defined(__x86_64__)
TEST_CASE("floor: the i386 and x32 ABIs do not exist") {
  CHECK(errno_under(floor(), 0x40000000 + SYS_getpid) == ENOSYS);
  // int 0x80: getpid is 20 there, socketcall is 102.
  const int code = in_child([] {
    if (!runtime::install_seccomp(floor())) return 250;
    for (int number : {20, 102}) {
      long answer = number;
      asm volatile("int $0x80" : "+a"(answer) : "b"(0L), "c"(0L) : "memory", "r8", "r9", "r10", "r11");
      if (static_cast<int>(answer) != -ENOSYS) return 1;
    }
    return 0;
  });
  CHECK(code == 0);
}
#endif

TEST_CASE("floor: the policy gives single calls back and takes others") {
  CHECK(errno_under(floor({"bpf"}), SYS_bpf, 12345, 0, 0) != ENOSYS);
  CHECK(errno_under(floor({"unshare"}), SYS_unshare, 0) == 0);
  CHECK(errno_under(floor({"unshare"}), SYS_setns, -1, 0) == EPERM);
  CHECK(errno_under(floor({}, {"getppid"}), SYS_getppid) == EPERM);
  CHECK_FALSE(runtime::seccomp_floor({"unshaer"}));
  CHECK_FALSE(runtime::seccomp_floor({}, {"nosuchcall"}));
}

TEST_CASE("floor: it stands below an engine's filter that allows everything") {
  oci::Seccomp profile;
  profile.default_action = "SCMP_ACT_ALLOW";
  std::vector<std::string> unknown;
  Result<runtime::SeccompFilter> engine = runtime::compile_seccomp(profile, unknown);
  REQUIRE(engine);
  const int code = in_child([&] {
    if (!runtime::install_seccomp(floor()) || !runtime::install_seccomp(*engine)) return 250;
    return syscall(SYS_socket, 40, SOCK_STREAM, 0) < 0 ? errno : 0;
  });
  CHECK(code == EAFNOSUPPORT);
}
