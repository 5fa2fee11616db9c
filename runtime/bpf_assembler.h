// A small assembler for the classic BPF of seccomp filters: instructions in order, forward jumps to
// labels. Conditional jumps of classic BPF reach 255 instructions; a comparison here is followed by an
// unconditional jump, which reaches everywhere, so that no table can grow too long.
#pragma once

#include <linux/filter.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace leash::runtime {

class BpfAssembler {
 public:
  using Label = size_t;

  [[nodiscard]] Label label() {
    targets_.push_back(0);
    return targets_.size() - 1;
  }
  // The label means the next instruction.
  void place(Label label) { targets_[label] = program_.size(); }

  // The 32-bit word of struct seccomp_data at that offset into the accumulator.
  void load(size_t offset) { emit(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset)); }
  void mask(uint32_t bits) { emit(BPF_ALU | BPF_AND | BPF_K, bits); }
  void answer(uint32_t verdict) { emit(BPF_RET | BPF_K, verdict); }
  void jump(Label to) {
    jumps_.emplace_back(program_.size(), to);
    emit(BPF_JMP | BPF_JA, 0);
  }
  void jump_if_equal(uint32_t value, Label to) { compare(BPF_JEQ, value, true, to); }
  void jump_unless_equal(uint32_t value, Label to) { compare(BPF_JEQ, value, false, to); }
  void jump_if_above(uint32_t value, Label to) { compare(BPF_JGT, value, true, to); }
  void jump_if_at_least(uint32_t value, Label to) { compare(BPF_JGE, value, true, to); }
  void jump_unless_at_least(uint32_t value, Label to) { compare(BPF_JGE, value, false, to); }
  void jump_if_any_bit(uint32_t bits, Label to) { compare(BPF_JSET, bits, true, to); }

  // A whole program of somebody else's: its jumps are relative and its paths all end in an answer.
  void append(const std::vector<sock_filter>& program) { program_.insert(program_.end(), program.begin(), program.end()); }

  // The program. Every label that is jumped to must have been placed after the jump.
  [[nodiscard]] std::vector<sock_filter> finish() {
    for (const auto& [at, to] : jumps_) program_[at].k = static_cast<uint32_t>(targets_[to] - at - 1);
    return std::move(program_);
  }

 private:
  void emit(int code, uint32_t operand, uint8_t if_true = 0, uint8_t if_false = 0) {
    program_.push_back({static_cast<uint16_t>(code), if_true, if_false, operand});
  }
  void compare(int op, uint32_t value, bool jump_when, Label to) {
    // The next instruction is the far jump; the other outcome skips it.
    emit(BPF_JMP | op | BPF_K, value, jump_when ? 0 : 1, jump_when ? 1 : 0);
    jump(to);
  }

  std::vector<sock_filter> program_;
  std::vector<size_t> targets_;
  std::vector<std::pair<size_t, Label>> jumps_;
};

}  // namespace leash::runtime
