#include "runtime/seccomp.h"

#include <linux/seccomp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include <cerrno>
#include <csignal>
#include <thread>

#include "base/sys.h"
#include "tests/unit/catch.h"
#include "tests/unit/runtime/in_child.h"

using namespace leash;
using tests::in_child;

namespace {

runtime::SeccompFilter compile(const oci::Seccomp& profile) {
  std::vector<std::string> unknown;
  Result<runtime::SeccompFilter> filter = runtime::compile_seccomp(profile, unknown);
  INFO((filter ? std::string() : filter.error().message()));
  REQUIRE(filter);
  return std::move(filter).value();
}

oci::Seccomp allow_all_but(std::vector<oci::SyscallRule> rules) {
  oci::Seccomp profile;
  profile.default_action = "SCMP_ACT_ALLOW";
  profile.syscalls = std::move(rules);
  return profile;
}

// A profile of an engine: EPERM unless listed.
oci::Seccomp deny_all_but(std::vector<std::string> names) {
  oci::Seccomp profile;
  profile.default_action = "SCMP_ACT_ERRNO";
  profile.architectures = {"SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"};
  names.insert(names.end(), {"exit_group", "exit", "write"});
  profile.syscalls = {{std::move(names), "SCMP_ACT_ALLOW", std::nullopt, {}}};
  return profile;
}

// errno of the call under the filter; 0 when it worked, 250 when the filter could not be installed.
int errno_under(const runtime::SeccompFilter& filter, long number, long a = 0, long b = 0, long c = 0) {
  return in_child([&] {
    if (!runtime::install_seccomp(filter)) return 250;
    return syscall(number, a, b, c, 0L, 0L, 0L) < 0 ? errno : 0;
  });
}

std::string error_of(const oci::Seccomp& profile) {
  std::vector<std::string> unknown;
  Result<runtime::SeccompFilter> filter = runtime::compile_seccomp(profile, unknown);
  return filter ? std::string() : filter.error().message();
}

}  // namespace

TEST_CASE("seccomp: a listed call gets the profile's errno, others work") {
  const auto filter = compile(allow_all_but({{{"getppid"}, "SCMP_ACT_ERRNO", 77, {}}}));
  CHECK(errno_under(filter, SYS_getppid) == 77);
  CHECK(errno_under(filter, SYS_getpid) == 0);
}

TEST_CASE("seccomp: without errnoRet the answer is EPERM") {
  CHECK(errno_under(compile(allow_all_but({{{"getppid"}, "SCMP_ACT_ERRNO", std::nullopt, {}}})), SYS_getppid) == EPERM);
}

TEST_CASE("seccomp: a call above all that the profile knows is ENOSYS, one that it knows and denies is EPERM") {
  const auto filter = compile(deny_all_but({"openat2"}));
  CHECK(errno_under(filter, SYS_getppid) == EPERM);
  CHECK(errno_under(filter, SYS_openat2 + 5) == ENOSYS);
  CHECK(errno_under(filter, 100000) == ENOSYS);
}

#if defined(__x86_64__)
TEST_CASE("seccomp: x32 numbers are judged against the profile's own x32 calls") {
  const auto filter = compile(deny_all_but({"openat2"}));
  CHECK(errno_under(filter, 0x40000000 + SYS_openat2 + 5) == ENOSYS);
  CHECK(errno_under(filter, 0x40000000 + SYS_getppid) == EPERM);
}

// errno of the i386 call with that number; 0 when it worked.
int i386_errno_under(const runtime::SeccompFilter& filter, long number) {
  return in_child([&] {
    if (!runtime::install_seccomp(filter)) return 250;
    long answer = number;
    asm volatile("int $0x80" : "+a"(answer) : "b"(0L), "c"(0L), "d"(0L) : "memory", "r8", "r9", "r10", "r11");
    return static_cast<int>(answer) < 0 ? -static_cast<int>(answer) : 0;
  });
}

TEST_CASE("seccomp: i386 calls are judged by name with their own numbers") {
  const auto filter = compile(deny_all_but({"getpid", "openat2"}));
  CHECK(i386_errno_under(filter, 20) == 0);         // getpid
  CHECK(i386_errno_under(filter, 64) == EPERM);     // getppid
  CHECK(i386_errno_under(filter, 440) == ENOSYS);   // above openat2
}

TEST_CASE("seccomp: a foreign ABI that the profile does not name ends the process") {
  oci::Seccomp profile = deny_all_but({"getpid"});
  profile.architectures = {"SCMP_ARCH_X86_64"};
  CHECK(i386_errno_under(compile(profile), 20) == 1000 + SIGSYS);
}

TEST_CASE("seccomp: where the floor stands below, foreign ABIs are ENOSYS and the native one as ever") {
  std::vector<std::string> unknown;
  Result<runtime::SeccompFilter> filter =
      runtime::compile_seccomp(deny_all_but({"getpid"}), unknown, runtime::SeccompAbis::kNativeOnly);
  REQUIRE(filter);
  CHECK(i386_errno_under(*filter, 20) == ENOSYS);
  CHECK(errno_under(*filter, 0x40000000 + SYS_getpid) == ENOSYS);
  CHECK(errno_under(*filter, SYS_getpid) == 0);
  CHECK(errno_under(*filter, SYS_getppid) == EPERM);
}
#endif

TEST_CASE("seccomp: a profile that allows by default leaves new calls to the kernel") {
  const auto filter = compile(allow_all_but({{{"getppid"}, "SCMP_ACT_ERRNO", 77, {}}}));
  CHECK(errno_under(filter, SYS_getpid) == 0);
  CHECK(errno_under(filter, 100000) == ENOSYS);  // the kernel's own
}

TEST_CASE("seccomp: arguments of one rule must all hold") {
  oci::SyscallRule rule{{"kill"}, "SCMP_ACT_ERRNO", 77, {{0, 12345678, 0, "SCMP_CMP_EQ"}, {1, 0, 0, "SCMP_CMP_EQ"}}};
  const auto filter = compile(allow_all_but({rule}));
  CHECK(errno_under(filter, SYS_kill, 12345678, 0) == 77);
  CHECK(errno_under(filter, SYS_kill, 12345678, 1) == ESRCH);
}

TEST_CASE("seccomp: several conditions on one argument are alternatives, as in runc") {
  oci::SyscallRule rule{{"personality"}, "SCMP_ACT_ERRNO", 77, {{0, 1, 0, "SCMP_CMP_EQ"}, {0, 2, 0, "SCMP_CMP_EQ"}}};
  const auto filter = compile(allow_all_but({rule}));
  CHECK(errno_under(filter, SYS_personality, 1) == 77);
  CHECK(errno_under(filter, SYS_personality, 2) == 77);
  CHECK(errno_under(filter, SYS_personality, 0xffffffff) == 0);
}

TEST_CASE("seccomp: names that nobody knows are skipped and told") {
  std::vector<std::string> unknown;
  const auto profile = allow_all_but({{{"nosuchcall", "getppid"}, "SCMP_ACT_ERRNO", 77, {}}});
  Result<runtime::SeccompFilter> filter = runtime::compile_seccomp(profile, unknown);
  REQUIRE(filter);
  CHECK(unknown == std::vector<std::string>{"nosuchcall"});
  CHECK(errno_under(*filter, SYS_getppid) == 77);
}

TEST_CASE("seccomp: kill_process ends the process with SIGSYS") {
  const auto filter = compile(allow_all_but({{{"getppid"}, "SCMP_ACT_KILL_PROCESS", std::nullopt, {}}}));
  CHECK(errno_under(filter, SYS_getppid) == 1000 + SIGSYS);
}

TEST_CASE("seccomp: words that are none are refused in runc's sentences") {
  oci::Seccomp profile;
  profile.default_action = "SCMP_ACT_NOSUCH";
  CHECK(error_of(profile) == "string SCMP_ACT_NOSUCH is not a valid action for seccomp");
  profile.default_action = "SCMP_ACT_ALLOW";
  profile.architectures = {"SCMP_ARCH_PDP11"};
  CHECK(error_of(profile) == "string SCMP_ARCH_PDP11 is not a valid arch for seccomp");
  profile.architectures.clear();
  profile.flags = {"SECCOMP_FILTER_FLAG_NOSUCH"};
  CHECK(error_of(profile) == "unknown seccomp flag \"SECCOMP_FILTER_FLAG_NOSUCH\"");
  profile.flags.clear();
  profile.syscalls = {{{"kill"}, "SCMP_ACT_ERRNO", std::nullopt, {{0, 1, 0, "SCMP_CMP_ALMOST"}}}};
  CHECK(error_of(profile) == "string SCMP_CMP_ALMOST is not a valid operator for seccomp");
  profile.syscalls = {{{"write"}, "SCMP_ACT_NOTIFY", std::nullopt, {}}};
  CHECK(error_of(profile) == "SCMP_ACT_NOTIFY cannot be used for the write syscall");
  profile.syscalls.clear();
  profile.default_action = "SCMP_ACT_NOTIFY";
  CHECK(error_of(profile) == "SCMP_ACT_NOTIFY cannot be used as default action");
}

TEST_CASE("seccomp: the listener reaches the agent with the state") {
  oci::Seccomp profile = allow_all_but({{{"getppid"}, "SCMP_ACT_NOTIFY", std::nullopt, {}}});
  const auto filter = compile(profile);
  REQUIRE(filter.has_listener);

  Result<Fd> server = sys::socket(AF_UNIX, SOCK_STREAM, 0);
  REQUIRE(server);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string path = "/tmp/leash-seccomp-test-" + std::to_string(getpid());
  path.copy(address.sun_path, path.size());
  REQUIRE(bind(server->get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(listen(server->get(), 1) == 0);

  const int code = in_child([&] {
    Result<Fd> listener = runtime::install_seccomp(filter);
    if (!listener || !listener->valid()) return 1;
    oci::ContainerProcessState state;
    state.oci_version = "1.3.0";
    state.fds = {"seccompFd"};
    state.pid = 7;
    state.metadata = "hello";
    return runtime::send_seccomp_listener(path, listener->get(), state) ? 0 : 2;
  });
  CHECK(code == 0);
  Fd connection(accept4(server->get(), nullptr, nullptr, SOCK_CLOEXEC));
  unlink(path.c_str());
  REQUIRE(connection);
  char body[4096] = {};
  iovec part = {body, sizeof body};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  REQUIRE(recvmsg(connection.get(), &message, MSG_CMSG_CLOEXEC) > 0);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  REQUIRE(header != nullptr);
  CHECK(header->cmsg_type == SCM_RIGHTS);
  int received = -1;
  std::memcpy(&received, CMSG_DATA(header), sizeof received);
  Fd owner(received);
  CHECK(std::string(body).find("\"fds\":[\"seccompFd\"],\"pid\":7,\"metadata\":\"hello\"") != std::string::npos);
}
