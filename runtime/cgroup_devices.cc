#include "runtime/cgroup_devices.h"

#include <linux/bpf.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "base/sys.h"
#include "runtime/cgroup_files.h"

namespace leash::runtime {

namespace {

uint32_t access_bits(const std::string& access) {
  uint32_t bits = 0;
  for (const char c : access) bits |= c == 'r' ? BPF_DEVCG_ACC_READ : c == 'w' ? BPF_DEVCG_ACC_WRITE : BPF_DEVCG_ACC_MKNOD;
  return bits;
}

oci::DeviceRule allow(std::optional<int64_t> major, std::optional<int64_t> minor, const char* access, char type = 'c') {
  return {true, type, major, minor, access};
}

// The program: a filter over struct bpf_cgroup_dev_ctx { access << 16 | type, major, minor }.
class DeviceProgram {
 public:
  explicit DeviceProgram(const DeviceList& list) {
    // r2 = type, r3 = access, r4 = major, r5 = minor
    emit(BPF_LDX | BPF_W | BPF_MEM, 2, 1, offsetof(bpf_cgroup_dev_ctx, access_type), 0);
    emit(BPF_ALU64 | BPF_MOV | BPF_X, 3, 2, 0, 0);
    emit(BPF_ALU | BPF_AND | BPF_K, 2, 0, 0, 0xffff);
    emit(BPF_ALU | BPF_RSH | BPF_K, 3, 0, 0, 16);
    emit(BPF_LDX | BPF_W | BPF_MEM, 4, 1, offsetof(bpf_cgroup_dev_ctx, major), 0);
    emit(BPF_LDX | BPF_W | BPF_MEM, 5, 1, offsetof(bpf_cgroup_dev_ctx, minor), 0);
    for (const DeviceList::Exception& exception : list.exceptions) add(exception, list.allows_by_default);
    answer(list.allows_by_default);
  }

  [[nodiscard]] const std::vector<bpf_insn>& instructions() const { return code_; }

 private:
  void add(const DeviceList::Exception& exception, bool allows_by_default) {
    std::vector<size_t> to_next;
    const auto unless_equal = [&](uint8_t reg, int64_t value) {
      to_next.push_back(code_.size());
      // 32 bits are compared: device numbers are unsigned, the operand is signed.
      emit(BPF_JMP32 | BPF_JNE | BPF_K, reg, 0, 0, static_cast<int32_t>(static_cast<uint32_t>(value)));
    };
    unless_equal(2, exception.type == 'b' ? BPF_DEVCG_DEV_BLOCK : BPF_DEVCG_DEV_CHAR);
    if (exception.major >= 0) unless_equal(4, exception.major);
    if (exception.minor >= 0) unless_equal(5, exception.minor);
    // An allowance covers a request when nothing else is asked for, a prohibition when any of it is.
    emit(BPF_ALU64 | BPF_MOV | BPF_X, 1, 3, 0, 0);
    const uint32_t all = BPF_DEVCG_ACC_MKNOD | BPF_DEVCG_ACC_READ | BPF_DEVCG_ACC_WRITE;
    emit(BPF_ALU | BPF_AND | BPF_K, 1, 0, 0,
         static_cast<int32_t>(allows_by_default ? exception.access : all & ~exception.access));
    to_next.push_back(code_.size());
    emit(BPF_JMP32 | (allows_by_default ? BPF_JEQ : BPF_JNE) | BPF_K, 1, 0, 0, 0);
    answer(!allows_by_default);
    for (const size_t at : to_next) code_[at].off = static_cast<int16_t>(code_.size() - at - 1);
  }

  void answer(bool allows) {
    emit(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, allows ? 1 : 0);
    emit(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
  }

  void emit(int code, uint8_t destination, uint8_t source, size_t offset, int32_t immediate) {
    bpf_insn instruction = {};
    instruction.code = static_cast<uint8_t>(code);
    instruction.dst_reg = destination & 0xf;
    instruction.src_reg = source & 0xf;
    instruction.off = static_cast<int16_t>(offset);
    instruction.imm = immediate;
    code_.push_back(instruction);
  }

  std::vector<bpf_insn> code_;
};

Result<Fd> load(const std::vector<bpf_insn>& instructions) {
  static constexpr char kLicense[] = "GPL";
  bpf_attr attributes = {};
  attributes.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
  attributes.insn_cnt = static_cast<uint32_t>(instructions.size());
  attributes.insns = reinterpret_cast<uint64_t>(instructions.data());
  attributes.license = reinterpret_cast<uint64_t>(kLicense);
  long fd = syscall(SYS_bpf, BPF_PROG_LOAD, &attributes, sizeof attributes);
  if (fd < 0 && errno == EPERM) {
    // Before Linux 5.11 programs were charged to RLIMIT_MEMLOCK. Not allowed to raise it: the load says so.
    rlimit old_limit = {};
    const rlimit no_limit = {RLIM_INFINITY, RLIM_INFINITY};
    if (getrlimit(RLIMIT_MEMLOCK, &old_limit) == 0 && setrlimit(RLIMIT_MEMLOCK, &no_limit) == 0) {
      fd = syscall(SYS_bpf, BPF_PROG_LOAD, &attributes, sizeof attributes);
      const int load_errno = errno;
      setrlimit(RLIMIT_MEMLOCK, &old_limit);
      errno = load_errno;
    } else {
      errno = EPERM;
    }
  }
  if (fd < 0) return Error::last_errno("load the device cgroup's BPF program");
  Fd program(static_cast<int>(fd));
  TRY_VOID(sys::set_cloexec(program.get(), true));
  return program;
}

std::string v1_text(const oci::DeviceRule& rule) {
  if (rule.type == 'a') return "a";
  const auto number = [](const std::optional<int64_t>& value) { return value ? std::to_string(*value) : std::string("*"); };
  return std::string(1, rule.type) + ' ' + number(rule.major) + ':' + number(rule.minor) + ' ' + rule.access;
}

}  // namespace

std::vector<oci::DeviceRule> with_default_devices(const std::vector<oci::DeviceRule>& rules) {
  std::vector<oci::DeviceRule> all;
  all.reserve(rules.size() + 12);
  all.push_back({false, 'a', std::nullopt, std::nullopt, "rwm"});
  all.insert(all.end(), rules.begin(), rules.end());
  const std::optional<int64_t> any;
  for (oci::DeviceRule& rule : std::vector<oci::DeviceRule>{
           allow(any, any, "m", 'c'), allow(any, any, "m", 'b'),
           allow(1, 3, "rwm"),    // null
           allow(1, 8, "rwm"),    // random
           allow(1, 7, "rwm"),    // full
           allow(5, 0, "rwm"),    // tty
           allow(1, 5, "rwm"),    // zero
           allow(1, 9, "rwm"),    // urandom
           allow(136, any, "rwm"),  // pts
           allow(5, 2, "rwm")}) {   // ptmx
    all.push_back(std::move(rule));
  }
  return all;
}

DeviceList device_list(const std::vector<oci::DeviceRule>& rules) {
  DeviceList list;
  for (const oci::DeviceRule& rule : rules) {
    if (rule.type == 'a') {
      list.allows_by_default = rule.allow;
      list.exceptions.clear();
      continue;
    }
    DeviceList::Exception wanted{rule.type, rule.major.value_or(-1), rule.minor.value_or(-1), access_bits(rule.access)};
    const auto same_key = [&](const DeviceList::Exception& other) {
      return other.type == wanted.type && other.major == wanted.major && other.minor == wanted.minor;
    };
    const auto found = std::find_if(list.exceptions.begin(), list.exceptions.end(), same_key);
    if (rule.allow != list.allows_by_default) {
      if (found == list.exceptions.end()) {
        list.exceptions.push_back(wanted);
      } else {
        found->access |= wanted.access;
      }
    } else if (found != list.exceptions.end()) {
      found->access &= ~wanted.access;
      if (found->access == 0) list.exceptions.erase(found);
    }
  }
  return list;
}

Result<void> set_devices_v1(const std::string& directory, const std::vector<oci::DeviceRule>& rules) {
  for (const oci::DeviceRule& rule : rules) {
    TRY_VOID(cgroup_files::write(directory, rule.allow ? "devices.allow" : "devices.deny", v1_text(rule)));
  }
  return {};
}

Result<void> set_devices_v2(const std::string& directory, const std::vector<oci::DeviceRule>& rules) {
  const DeviceList list = device_list(rules);
  if (list.allows_by_default && list.exceptions.empty()) return {};
  TRY(Fd program, load(DeviceProgram(list).instructions()));
  TRY(Fd target, sys::open(directory, O_RDONLY | O_DIRECTORY));
  bpf_attr attributes = {};
  attributes.target_fd = static_cast<uint32_t>(target.get());
  attributes.attach_bpf_fd = static_cast<uint32_t>(program.get());
  attributes.attach_type = BPF_CGROUP_DEVICE;
  attributes.attach_flags = BPF_F_ALLOW_MULTI;
  if (syscall(SYS_bpf, BPF_PROG_ATTACH, &attributes, sizeof attributes) != 0) {
    return Error::last_errno("attach the device program to '" + directory + "'");
  }
  return {};
}

}  // namespace leash::runtime
