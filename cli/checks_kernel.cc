// What Leash needs of the kernel, tried out in children that are thrown away.
#include <linux/magic.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>

#include "base/file.h"
#include "base/sys.h"
#include "cli/checks.h"
#include "cli/terminal.h"

namespace leash::cli {

namespace {

// Runs `probe` in a child; the errno-style number that it returns, 0 for success.
template <class Probe>
int in_child(const Probe& probe) {
  const pid_t child = ::fork();
  if (child < 0) return errno;
  if (child == 0) ::_exit(probe() & 0xff);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
}

std::string release() {
  struct utsname name = {};
  return ::uname(&name) == 0 ? escaped(name.release, 64) : "?";
}

struct Feature {
  const char* module;
  const char* symbol;  // by which a kernel shows that it has the module built in
};
constexpr Feature kVeth = {"veth", "veth_xmit"};
constexpr std::array kExpressions = {
    Feature{"nft_redir", "nft_redir_eval"},           Feature{"nft_reject_inet", "nft_reject_inet_eval"},
    Feature{"nft_fib_inet", "nft_fib_inet_eval"},     Feature{"nft_ct", "nft_ct_get_eval"},
    Feature{"nft_log", "nft_log_eval"},               Feature{"nft_limit", "nft_limit_pkts_eval"},
    Feature{"nfnetlink_log", "nfulnl_log_packet"}};

// Loaded, there to be loaded, or built in. (Kernels without modules have no list of what is built in.)
bool has_feature(const Feature& feature) {
  const std::string name = feature.module;
  if (::access(("/sys/module/" + name).c_str(), F_OK) == 0) return true;
  struct utsname kernel = {};
  if (::uname(&kernel) != 0) return false;
  for (const char* list : {"/modules.builtin", "/modules.dep"}) {
    auto text = file::read(std::string("/lib/modules/") + kernel.release + list);
    if (text && text->find("/" + name + ".ko") != std::string::npos) return true;
  }
  static const std::string symbols = [] {
    auto text = file::read("/proc/kallsyms");
    return text ? *text : std::string();
  }();
  return symbols.find(std::string(" ") + feature.symbol + "\n") != std::string::npos;
}

// Asks nf_tables for its generation: an answer means that the subsystem is there.
int ask_nftables() {
  const int fd = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
  if (fd < 0) return errno;
  const Fd owner(fd);
  struct {
    struct nlmsghdr header;
    struct nfgenmsg message;
  } request = {};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = (NFNL_SUBSYS_NFTABLES << 8) | NFT_MSG_GETGEN;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.message.nfgen_family = AF_UNSPEC;
  request.message.version = NFNETLINK_V0;
  if (::send(fd, &request, sizeof request, 0) < 0) return errno;
  struct pollfd poll = {fd, POLLIN, 0};
  if (::poll(&poll, 1, 2000) <= 0) return ETIMEDOUT;
  alignas(struct nlmsghdr) std::array<char, 4096> reply;
  const ssize_t length = ::recv(fd, reply.data(), reply.size(), 0);
  if (length < static_cast<ssize_t>(sizeof(struct nlmsghdr))) return EIO;
  struct nlmsghdr header = {};
  std::memcpy(&header, reply.data(), sizeof header);
  if (header.nlmsg_type != NLMSG_ERROR) return 0;
  int code = 0;
  std::memcpy(&code, reply.data() + sizeof header, sizeof code);
  return code == 0 ? 0 : -code;
}

// An overlay of an overlay's depth is what Leash makes over the engine's: tried with tmpfs below.
int try_overlay() {
  if (::unshare(CLONE_NEWNS) < 0) return errno;
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) < 0) return errno;
  char directory[] = "/tmp/leash-doctor-XXXXXX";
  if (::mkdtemp(directory) == nullptr) return errno;
  const std::string at = directory;
  int code = 0;
  if (::mount("tmpfs", directory, "tmpfs", 0, "size=1m") < 0) {
    code = errno;
  } else {
    for (const char* name : {"/lower", "/upper", "/work", "/merged"}) ::mkdir((at + name).c_str(), 0700);
    const std::string options = "lowerdir=" + at + "/lower,upperdir=" + at + "/upper,workdir=" + at + "/work";
    if (::mount("overlay", (at + "/merged").c_str(), "overlay", 0, options.c_str()) < 0) {
      code = errno;
    } else {
      ::umount2((at + "/merged").c_str(), MNT_DETACH);
    }
    ::umount2(directory, MNT_DETACH);
  }
  ::rmdir(directory);
  return code;
}

}  // namespace

Check check_privileges() {
  if (::geteuid() == 0) return {"privileges", CheckState::kOk, "running as root"};
  return {"privileges", CheckState::kWarn, "not root: checks that need root are shown as failed; run `sudo leash doctor`"};
}

Check check_system_calls() {
  struct Needed {
    long number;
    const char* name;
    const char* since;
  };
  static constexpr std::array kNeeded = {
      Needed{SYS_openat2, "openat2", "5.6"},       Needed{SYS_pidfd_open, "pidfd_open", "5.3"},
      Needed{SYS_close_range, "close_range", "5.9"}, Needed{SYS_fsopen, "fsopen", "5.2"},
      Needed{SYS_open_tree, "open_tree", "5.2"},   Needed{SYS_move_mount, "move_mount", "5.2"},
      Needed{SYS_mount_setattr, "mount_setattr", "5.12"}};
  std::string missing;
  for (const Needed& call : kNeeded) {
    // Arguments that no call takes: anything but ENOSYS means that the kernel knows it.
    if (::syscall(call.number, -1, nullptr, ~0U, ~0U, ~0U) < 0 && errno == ENOSYS) {
      missing += std::string(missing.empty() ? "" : ", ") + call.name + " (Linux " + call.since + ")";
    }
  }
  if (missing.empty()) return {"kernel", CheckState::kOk, "Linux " + release() + " has every system call that is needed"};
  return {"kernel", CheckState::kFail, "Linux " + release() + " lacks " + missing + ": a newer kernel is needed"};
}

Check check_namespaces() {
  const int code = in_child([] {
    return ::unshare(CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWCGROUP) < 0 ? errno : 0;
  });
  if (code != 0) return {"namespaces", CheckState::kFail, "cannot be made: " + errno_text(code)};
  if (!has_feature(kVeth)) {
    return {"namespaces", CheckState::kFail, "the kernel has no veth: containers would get no eth0 (CONFIG_VETH)"};
  }
  return {"namespaces", CheckState::kOk, "network, mount, pid, uts, ipc and cgroup namespaces; veth"};
}

Check check_nftables() {
  const int code = in_child([] { return ::unshare(CLONE_NEWNET) < 0 ? errno : ask_nftables(); });
  if (code != 0) {
    return {"nftables", CheckState::kFail,
            "nf_tables does not answer: " + errno_text(code) + " (CONFIG_NF_TABLES, CONFIG_NF_TABLES_INET)"};
  }
  std::string missing;
  for (const Feature& expression : kExpressions) {
    if (!has_feature(expression)) missing += std::string(missing.empty() ? "" : ", ") + expression.module;
  }
  if (missing.empty()) return {"nftables", CheckState::kOk, "nf_tables with redirect, reject, fib, ct, log and limit"};
  return {"nftables", CheckState::kFail, "nf_tables answers, but the kernel has no " + missing};
}

Check check_overlay() {
  const int code = in_child(&try_overlay);
  if (code == 0) return {"overlayfs", CheckState::kOk, "can be mounted"};
  return {"overlayfs", CheckState::kFail, "cannot be mounted: " + errno_text(code) + " (modprobe overlay)"};
}

Check check_seccomp() {
  uint32_t action = SECCOMP_RET_ERRNO;
  if (::syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) != 0) {
    return {"seccomp", CheckState::kFail, "filters are not available: " + errno_text(errno) + " (CONFIG_SECCOMP_FILTER)"};
  }
  return {"seccomp", CheckState::kOk, "filters are available"};
}

Check check_cgroups() {
  struct statfs fs = {};
  if (::statfs("/sys/fs/cgroup", &fs) < 0) {
    return {"cgroups", CheckState::kFail, "/sys/fs/cgroup: " + errno_text(errno)};
  }
  if (fs.f_type == CGROUP2_SUPER_MAGIC) {
    auto controllers = file::read("/sys/fs/cgroup/cgroup.controllers");
    std::string text = controllers ? *controllers : "?";
    while (!text.empty() && text.back() == '\n') text.pop_back();
    const bool is_whole = text.find("memory") != std::string::npos && text.find("pids") != std::string::npos;
    return {"cgroups", is_whole ? CheckState::kOk : CheckState::kWarn, "version 2, controllers: " + escaped(text)};
  }
  if (::statfs("/sys/fs/cgroup/unified", &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC) {
    return {"cgroups", CheckState::kOk, "hybrid: version 1 controllers beside a version 2 tree"};
  }
  if (::access("/sys/fs/cgroup/memory", F_OK) == 0) return {"cgroups", CheckState::kOk, "version 1"};
  return {"cgroups", CheckState::kFail, "no controllers below /sys/fs/cgroup: limits cannot be set"};
}

}  // namespace leash::cli
