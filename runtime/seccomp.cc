#include "runtime/seccomp.h"

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "base/sys.h"
#include "runtime/bpf_assembler.h"

// linux/seccomp.h of 5.19; the kernels and headers that we build on may be older.
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

namespace leash::runtime {

namespace {

using Context = std::unique_ptr<void, void (*)(scmp_filter_ctx)>;

constexpr uint32_t kX32Bit = 0x40000000;

struct ArchName {
  std::string_view name;
  uint32_t token;
};
constexpr std::array kArchs = {
    ArchName{"SCMP_ARCH_AARCH64", SCMP_ARCH_AARCH64},   ArchName{"SCMP_ARCH_ARM", SCMP_ARCH_ARM},
    ArchName{"SCMP_ARCH_MIPS", SCMP_ARCH_MIPS},         ArchName{"SCMP_ARCH_MIPS64", SCMP_ARCH_MIPS64},
    ArchName{"SCMP_ARCH_MIPS64N32", SCMP_ARCH_MIPS64N32}, ArchName{"SCMP_ARCH_MIPSEL", SCMP_ARCH_MIPSEL},
    ArchName{"SCMP_ARCH_MIPSEL64", SCMP_ARCH_MIPSEL64}, ArchName{"SCMP_ARCH_MIPSEL64N32", SCMP_ARCH_MIPSEL64N32},
    ArchName{"SCMP_ARCH_PARISC", SCMP_ARCH_PARISC},     ArchName{"SCMP_ARCH_PARISC64", SCMP_ARCH_PARISC64},
    ArchName{"SCMP_ARCH_PPC", SCMP_ARCH_PPC},           ArchName{"SCMP_ARCH_PPC64", SCMP_ARCH_PPC64},
    ArchName{"SCMP_ARCH_PPC64LE", SCMP_ARCH_PPC64LE},   ArchName{"SCMP_ARCH_RISCV64", SCMP_ARCH_RISCV64},
    ArchName{"SCMP_ARCH_S390", SCMP_ARCH_S390},         ArchName{"SCMP_ARCH_S390X", SCMP_ARCH_S390X},
    ArchName{"SCMP_ARCH_X32", SCMP_ARCH_X32},           ArchName{"SCMP_ARCH_X86", SCMP_ARCH_X86},
    ArchName{"SCMP_ARCH_X86_64", SCMP_ARCH_X86_64}};

struct OperatorName {
  std::string_view name;
  scmp_compare op;
};
constexpr std::array kOperators = {
    OperatorName{"SCMP_CMP_EQ", SCMP_CMP_EQ}, OperatorName{"SCMP_CMP_GE", SCMP_CMP_GE},
    OperatorName{"SCMP_CMP_GT", SCMP_CMP_GT}, OperatorName{"SCMP_CMP_LE", SCMP_CMP_LE},
    OperatorName{"SCMP_CMP_LT", SCMP_CMP_LT}, OperatorName{"SCMP_CMP_MASKED_EQ", SCMP_CMP_MASKED_EQ},
    OperatorName{"SCMP_CMP_NE", SCMP_CMP_NE}};

struct FlagName {
  std::string_view name;
  uint32_t bits;
};
constexpr std::array kFlags = {
    FlagName{"SECCOMP_FILTER_FLAG_TSYNC", SECCOMP_FILTER_FLAG_TSYNC},
    FlagName{"SECCOMP_FILTER_FLAG_LOG", SECCOMP_FILTER_FLAG_LOG},
    FlagName{"SECCOMP_FILTER_FLAG_SPEC_ALLOW", SECCOMP_FILTER_FLAG_SPEC_ALLOW},
    FlagName{"SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV", static_cast<uint32_t>(SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)}};

Error library_error(int code, const std::string& what) { return Error::from_errno(-code, what); }

// config-linux.md#seccomp: without errnoRet an errno or a trace message is EPERM.
Result<uint32_t> parse_action(const std::string& name, std::optional<uint32_t> errno_ret) {
  const uint32_t value = errno_ret.value_or(EPERM) & 0xffff;
  if (name == "SCMP_ACT_ERRNO") return SCMP_ACT_ERRNO(value);
  if (name == "SCMP_ACT_TRACE") return SCMP_ACT_TRACE(value);
  uint32_t action = 0;
  if (name == "SCMP_ACT_KILL" || name == "SCMP_ACT_KILL_THREAD") {
    action = SCMP_ACT_KILL_THREAD;
  } else if (name == "SCMP_ACT_KILL_PROCESS") {
    action = SCMP_ACT_KILL_PROCESS;
  } else if (name == "SCMP_ACT_TRAP") {
    action = SCMP_ACT_TRAP;
  } else if (name == "SCMP_ACT_ALLOW") {
    action = SCMP_ACT_ALLOW;
  } else if (name == "SCMP_ACT_LOG") {
    action = SCMP_ACT_LOG;
  } else if (name == "SCMP_ACT_NOTIFY") {
    action = SCMP_ACT_NOTIFY;
  } else {
    return Error(EINVAL, "string " + name + " is not a valid action for seccomp");
  }
  return action;
}

Result<uint32_t> parse_arch(const std::string& name) {
  for (const ArchName& arch : kArchs) {
    if (arch.name == name) return arch.token;
  }
  return Error(EINVAL, "string " + name + " is not a valid arch for seccomp");
}

Result<scmp_arg_cmp> parse_argument(const oci::SyscallArgument& argument) {
  if (argument.index > 5) {
    return Error(EINVAL, "seccomp argument index " + std::to_string(argument.index) + " is above 5");
  }
  for (const OperatorName& entry : kOperators) {
    if (entry.name != argument.op) continue;
    return scmp_arg_cmp{argument.index, entry.op, argument.value, argument.value_two};
  }
  return Error(EINVAL, "string " + argument.op + " is not a valid operator for seccomp");
}

Result<uint32_t> parse_flags(const oci::Seccomp& profile, bool has_listener) {
  // Without the mitigation that the kernel before 5.16 forces on filtered processes, as runc and crun.
  if (profile.flags.empty()) return uint32_t{SECCOMP_FILTER_FLAG_SPEC_ALLOW};
  uint32_t bits = 0;
  for (const std::string& name : profile.flags) {
    const auto found = std::find_if(kFlags.begin(), kFlags.end(), [&](const FlagName& flag) { return flag.name == name; });
    if (found == kFlags.end()) return Error(EINVAL, "unknown seccomp flag \"" + name + '"');
    bits |= found->bits;
  }
  // init has one thread, and the kernel refuses TSYNC together with a listener.
  bits &= ~uint32_t{SECCOMP_FILTER_FLAG_TSYNC};
  if (!has_listener) bits &= ~static_cast<uint32_t>(SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);
  return bits;
}

// One rule with its words read.
struct Rule {
  const std::vector<std::string>* names;
  uint32_t action = 0;
  std::vector<scmp_arg_cmp> conditions;
  // Several conditions on one argument cannot all hold in one rule: any of them decides, as in runc.
  bool is_any_of = false;
};

Result<Rule> parse_rule(const oci::SyscallRule& rule) {
  Rule out;
  out.names = &rule.names;
  TRY(out.action, parse_action(rule.action, rule.errno_ret));
  for (const oci::SyscallArgument& argument : rule.args) {
    TRY(const scmp_arg_cmp condition, parse_argument(argument));
    out.is_any_of |= std::any_of(out.conditions.begin(), out.conditions.end(),
                                 [&](const scmp_arg_cmp& other) { return other.arg == condition.arg; });
    out.conditions.push_back(condition);
  }
  return out;
}

// The program of one architecture.
struct ArchProgram {
  uint32_t token = 0;
  int64_t largest = -1;  // number in the profile
  std::vector<sock_filter> code;
};

class ArchCompiler {
 public:
  ArchCompiler(uint32_t token, uint32_t default_action) : default_action_(default_action) { program_.token = token; }

  Result<ArchProgram> compile(const std::vector<Rule>& rules) {
    context_.reset(seccomp_init(default_action_));
    if (!context_) return Error(ENOMEM, "unable to create the seccomp filter");
    if (program_.token != seccomp_arch_native()) {
      int code = seccomp_arch_add(context_.get(), program_.token);
      if (code == 0) code = seccomp_arch_remove(context_.get(), seccomp_arch_native());
      if (code != 0) return library_error(code, "error adding architecture to seccomp filter");
    }
    // A tree in place of a chain of comparisons: fewer steps for each call, and for the kernel when it finds
    // out, at the installation, which calls are always allowed. Libraries before 2.5 have none. Not for i386,
    // whose multiplexed calls make it ten times as slow to compile.
    if (program_.token == seccomp_arch_native()) seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);
    for (const Rule& rule : rules) TRY_VOID(add(rule));
    TRY_VOID(export_code());
    return std::move(program_);
  }

 private:
  Result<void> add(const Rule& rule) {
    for (const std::string& name : *rule.names) {
      // The number of the native architecture stands for the call on all.
      const int number = seccomp_syscall_resolve_name(name.c_str());
      if (number == __NR_SCMP_ERROR) continue;
      program_.largest = std::max<int64_t>(program_.largest, seccomp_syscall_resolve_name_arch(program_.token, name.c_str()));
      // libseccomp refuses a rule that says what the default says.
      if (rule.action == default_action_) continue;
      if (!rule.is_any_of) {
        TRY_VOID(add(rule.action, number, name, rule.conditions.data(), rule.conditions.size()));
        continue;
      }
      for (const scmp_arg_cmp& condition : rule.conditions) TRY_VOID(add(rule.action, number, name, &condition, 1));
    }
    return {};
  }

  Result<void> add(uint32_t action, int number, const std::string& name, const scmp_arg_cmp* conditions, size_t count) {
    const int code = seccomp_rule_add_array(context_.get(), action, number, static_cast<unsigned>(count), conditions);
    if (code != 0) return library_error(code, "error adding seccomp rule for syscall " + name);
    return {};
  }

  Result<void> export_code() {
    TRY(Fd file, sys::memfd_create("seccomp", MFD_CLOEXEC));
    if (const int code = seccomp_export_bpf(context_.get(), file.get()); code != 0) {
      return library_error(code, "unable to compile the seccomp filter");
    }
    if (lseek(file.get(), 0, SEEK_SET) != 0) return Error::last_errno("rewind the seccomp program");
    TRY(const std::string bytes, sys::read_all(file.get()));
    program_.code.resize(bytes.size() / sizeof(sock_filter));
    if (!program_.code.empty()) std::memcpy(program_.code.data(), bytes.data(), program_.code.size() * sizeof(sock_filter));
    return {};
  }

  uint32_t default_action_;
  ArchProgram program_;
  Context context_{nullptr, [](scmp_filter_ctx context) {
                     if (context != nullptr) seccomp_release(context);
                   }};
};

// A profile that allows what it does not know has nothing to say about new calls. Trace counts as that: a
// tracer can answer by itself.
bool allows_by_default(uint32_t action) {
  return action == SCMP_ACT_ALLOW || action == SCMP_ACT_LOG || (action & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_TRACE;
}

// One program out of many: by the architecture of the call, and then by whether the profile can know the
// call. x32 calls have the architecture of x86_64 and a bit in their number.
std::vector<sock_filter> assemble(const std::vector<ArchProgram>& programs, uint32_t default_action, SeccompAbis abis) {
  BpfAssembler code;
  const auto no_such_call = code.label();
  const auto find = [&](uint32_t token) {
    return std::find_if(programs.begin(), programs.end(), [&](const ArchProgram& program) { return program.token == token; });
  };
  std::vector<BpfAssembler::Label> starts;
  for (size_t i = 0; i < programs.size(); ++i) starts.push_back(code.label());
  const auto enter = [&](size_t index) {
    if (!allows_by_default(default_action)) {
      // Without any name that this architecture has, every call is above.
      if (programs[index].largest < 0) return code.jump(no_such_call);
      code.jump_if_above(static_cast<uint32_t>(programs[index].largest), no_such_call);
    }
    code.jump(starts[index]);
  };
  code.load(offsetof(seccomp_data, arch));
  for (size_t i = 0; i < programs.size(); ++i) {
    const bool has_x32 = programs[i].token == SCMP_ARCH_X86_64 && find(SCMP_ARCH_X32) != programs.end();
    if (programs[i].token == SCMP_ARCH_X32 && find(SCMP_ARCH_X86_64) != programs.end()) continue;
    const auto next = code.label();
    code.jump_unless_equal(programs[i].token == SCMP_ARCH_X32 ? uint32_t{AUDIT_ARCH_X86_64} : programs[i].token, next);
    code.load(offsetof(seccomp_data, nr));
    if (has_x32) {
      const auto is_native = code.label();
      code.jump_unless_at_least(kX32Bit, is_native);
      enter(static_cast<size_t>(find(SCMP_ARCH_X32) - programs.begin()));
      code.place(is_native);
    } else if (programs[i].token == SCMP_ARCH_X86_64 && abis == SeccompAbis::kNativeOnly) {
      code.jump_if_at_least(kX32Bit, no_such_call);
    }
    enter(i);
    code.place(next);
  }
  // An ABI that the profile does not name ends the process, as libseccomp has it.
  if (abis == SeccompAbis::kNativeOnly) {
    code.jump(no_such_call);
  } else {
    code.answer(SECCOMP_RET_KILL_THREAD);
  }
  code.place(no_such_call);
  code.answer(SECCOMP_RET_ERRNO | ENOSYS);
  for (size_t i = 0; i < programs.size(); ++i) {
    code.place(starts[i]);
    code.append(programs[i].code);
  }
  return code.finish();
}

Result<std::vector<uint32_t>> parse_archs(const oci::Seccomp& profile, SeccompAbis abis) {
  std::vector<uint32_t> archs = {seccomp_arch_native()};
  for (const std::string& name : profile.architectures) {
    TRY(const uint32_t token, parse_arch(name));
    if (abis == SeccompAbis::kNativeOnly || std::find(archs.begin(), archs.end(), token) != archs.end()) continue;
    archs.push_back(token);
  }
  return archs;
}

}  // namespace

Result<SeccompFilter> compile_seccomp(const oci::Seccomp& profile, std::vector<std::string>& unknown, SeccompAbis abis) {
  TRY(const uint32_t default_action, parse_action(profile.default_action, profile.default_errno_ret));
  if (default_action == SCMP_ACT_NOTIFY) return Error(EINVAL, "SCMP_ACT_NOTIFY cannot be used as default action");
  TRY(const std::vector<uint32_t> archs, parse_archs(profile, abis));

  SeccompFilter filter;
  std::vector<Rule> rules;
  for (const oci::SyscallRule& entry : profile.syscalls) {
    TRY(Rule rule, parse_rule(entry));
    for (const std::string& name : entry.names) {
      if (seccomp_syscall_resolve_name(name.c_str()) == __NR_SCMP_ERROR) {
        unknown.push_back(name);
      } else if (rule.action == SCMP_ACT_NOTIFY) {
        // The agent's answer to a write would itself wait for an agent (runc refuses it too).
        if (name == "write") return Error(EINVAL, "SCMP_ACT_NOTIFY cannot be used for the write syscall");
        filter.has_listener = true;
      }
    }
    rules.push_back(std::move(rule));
  }
  TRY(filter.flags, parse_flags(profile, filter.has_listener));
  if (filter.has_listener) filter.flags |= SECCOMP_FILTER_FLAG_NEW_LISTENER;

  std::vector<ArchProgram> programs;
  for (const uint32_t token : archs) {
    TRY(ArchProgram program, ArchCompiler(token, default_action).compile(rules));
    programs.push_back(std::move(program));
  }
  filter.program = assemble(programs, default_action, abis);
  if (filter.program.size() > BPF_MAXINSNS) {
    return Error(E2BIG, "the seccomp profile needs " + std::to_string(filter.program.size()) +
                            " BPF instructions, the kernel takes " + std::to_string(BPF_MAXINSNS));
  }
  return filter;
}

Result<Fd> install_seccomp(const SeccompFilter& filter) {
  if (filter.program.empty()) return Fd();
  const sock_fprog program = {static_cast<unsigned short>(filter.program.size()),
                              const_cast<sock_filter*>(filter.program.data())};
  uint32_t flags = filter.flags;
  long answer = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
  if (answer < 0 && errno == EINVAL && (flags & SECCOMP_FILTER_FLAG_SPEC_ALLOW) != 0) {
    // Before Linux 4.17 there was no such flag, and no mitigation that it could switch off.
    flags &= ~uint32_t{SECCOMP_FILTER_FLAG_SPEC_ALLOW};
    answer = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
  }
  if (answer < 0) return Error::last_errno("error loading seccomp filter into kernel");
  return filter.has_listener ? Fd(static_cast<int>(answer)) : Fd();
}

Result<void> send_seccomp_listener(const std::string& path, int listener, const oci::ContainerProcessState& state) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return Error(ENAMETOOLONG, "seccomp.listenerPath '" + path + "' is too long for a unix socket");
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const std::string failure = "failed to connect with seccomp agent specified in the seccomp profile '" + path + "'";
  TRY(Fd socket, sys::socket(AF_UNIX, SOCK_STREAM, 0));
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return Error::last_errno(failure);
  }

  std::string body = print(state);
  iovec part = {body.data(), body.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &listener, sizeof listener);
  ssize_t sent = -1;
  do {
    sent = sendmsg(socket.get(), &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) return Error::last_errno("cannot send seccomp fd to '" + path + "'");
  return sys::write_all(socket.get(), std::string_view(body).substr(static_cast<size_t>(sent)))
      .context("cannot send seccomp state to '" + path + "'");
}

std::vector<std::string> seccomp_known_actions() {
  return {"SCMP_ACT_ALLOW",       "SCMP_ACT_ERRNO", "SCMP_ACT_KILL",   "SCMP_ACT_KILL_PROCESS",
          "SCMP_ACT_KILL_THREAD", "SCMP_ACT_LOG",   "SCMP_ACT_NOTIFY", "SCMP_ACT_TRACE",
          "SCMP_ACT_TRAP"};
}

std::vector<std::string> seccomp_known_operators() {
  std::vector<std::string> names;
  for (const OperatorName& entry : kOperators) names.emplace_back(entry.name);
  return names;
}

std::vector<std::string> seccomp_known_archs() {
  std::vector<std::string> names;
  for (const ArchName& arch : kArchs) names.emplace_back(arch.name);
  return names;
}

std::vector<std::string> seccomp_known_flags() {
  std::vector<std::string> names;
  for (const FlagName& flag : kFlags) names.emplace_back(flag.name);
  return names;
}

std::vector<std::string> seccomp_supported_flags() {
  std::vector<std::string> names;
  for (const FlagName& flag : kFlags) {
    // The kernel looks at the flags first (EINVAL), then at the program (EFAULT, since there is none).
    // WAIT_KILLABLE_RECV means something only beside NEW_LISTENER.
    uint32_t bits = flag.bits;
    if (bits == SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV) bits |= SECCOMP_FILTER_FLAG_NEW_LISTENER;
    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, bits, nullptr);
    if (errno == EFAULT) names.emplace_back(flag.name);
  }
  return names;
}

std::string libseccomp_version() {
  const scmp_version* version = seccomp_version();
  if (version == nullptr) return "unknown";
  return std::to_string(version->major) + '.' + std::to_string(version->minor) + '.' + std::to_string(version->micro);
}

}  // namespace leash::runtime
