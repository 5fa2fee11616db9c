#include "oci-spec/host_regex.h"

#include <algorithm>
#include <optional>

namespace leash::oci {
namespace {

constexpr size_t kMaxText = 1024;
constexpr size_t kMaxProgram = 4096;
constexpr int kMaxDepth = 50;
constexpr int kMaxRepeat = 255;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

using Set = std::bitset<256>;

void add_range(Set& set, unsigned char first, unsigned char last) {
  for (unsigned c = first; c <= last; ++c) set.set(c);
}

// \d \w \s and their negations; nullopt for any other letter.
std::optional<Set> class_escape(char c) {
  Set set;
  switch (c) {
    case 'd': case 'D': add_range(set, '0', '9'); break;
    case 'w': case 'W':
      add_range(set, '0', '9');
      add_range(set, 'a', 'z');
      add_range(set, 'A', 'Z');
      set.set('_');
      break;
    case 's': case 'S':
      set.set(' ');
      add_range(set, '\t', '\r');
      break;
    default: return std::nullopt;
  }
  if (c == 'D' || c == 'W' || c == 'S') set.flip();
  return set;
}

// Hosts are compared in lower case, so that an expression in capitals must match them too.
void fold_case(Set& set) {
  for (unsigned c = 'A'; c <= 'Z'; ++c) {
    if (set[c]) set.set(c - 'A' + 'a');
  }
}

}  // namespace

// Recursive descent; every parse_ function appends code whose targets are relative, so that a piece can
// be wrapped or copied as it is.
class RegexCompiler {
 public:
  explicit RegexCompiler(std::string_view text) : text_(text) {}

  Result<HostRegex> compile() {
    if (text_.empty()) return Error("expected a regex, found an empty string");
    if (text_.size() > kMaxText) return Error("regex is longer than 1024 characters");
    TRY_VOID(parse_alternatives(0));
    if (position_ != text_.size()) return Error("regex has a ')' without '('");
    emit(Op::kMatch);
    HostRegex regex;
    regex.text_ = text_;
    regex.program_ = std::move(program_);
    regex.sets_ = std::move(sets_);
    return regex;
  }

 private:
  using Op = HostRegex::Op;
  using Instruction = HostRegex::Instruction;
  using Code = std::vector<Instruction>;

  [[nodiscard]] bool at_end() const { return position_ == text_.size(); }
  [[nodiscard]] char peek() const { return text_[position_]; }
  bool take(char c) {
    if (at_end() || peek() != c) return false;
    ++position_;
    return true;
  }

  void emit(Op op, int32_t first = 0, int32_t second = 0) { program_.push_back({op, first, second}); }
  void emit_set(const Set& set) {
    sets_.push_back(set);
    fold_case(sets_.back());
    emit(Op::kSet, static_cast<int32_t>(sets_.size() - 1));
  }
  Code cut(size_t begin) {
    Code piece(program_.begin() + static_cast<ptrdiff_t>(begin), program_.end());
    program_.resize(begin);
    return piece;
  }
  void append(const Code& piece) { program_.insert(program_.end(), piece.begin(), piece.end()); }

  Result<void> parse_alternatives(int depth) {
    if (depth > kMaxDepth) return Error("regex nests too deeply");
    const size_t begin = program_.size();
    TRY_VOID(parse_sequence(depth));
    while (take('|')) {
      const Code left = cut(begin);
      emit(Op::kSplit, 1, static_cast<int32_t>(left.size() + 2));
      append(left);
      const size_t jump = program_.size();
      emit(Op::kJump);
      TRY_VOID(parse_sequence(depth));
      program_[jump].first = static_cast<int32_t>(program_.size() - jump);
    }
    return {};
  }

  Result<void> parse_sequence(int depth) {
    while (!at_end() && peek() != '|' && peek() != ')') {
      const size_t begin = program_.size();
      TRY_VOID(parse_atom(depth));
      TRY_VOID(parse_quantifier(begin));
      if (program_.size() > kMaxProgram) return Error("regex is too large");
    }
    return {};
  }

  Result<void> parse_atom(int depth) {
    const char c = text_[position_++];
    switch (c) {
      case '(': {
        if (take('?') && !take(':')) return Error("regex: only '(...)' and '(?:...)' groups are understood");
        TRY_VOID(parse_alternatives(depth + 1));
        if (!take(')')) return Error("regex has a '(' without ')'");
        return {};
      }
      case '[': return parse_class();
      case '.': emit_set(Set().set()); return {};
      case '^': emit(Op::kBegin); return {};
      case '$': emit(Op::kEnd); return {};
      case '*': case '+': case '?': return Error("regex has a '*', '+' or '?' with nothing to repeat");
      case '{': return Error("regex has a '{' with nothing to repeat");
      case '\\': {
        TRY(const Set set, parse_escape());
        emit_set(set);
        return {};
      }
      default: emit_set(Set().set(static_cast<unsigned char>(c))); return {};
    }
  }

  // After the backslash: a class, or a punctuation character that stands for itself.
  Result<Set> parse_escape() {
    if (at_end()) return Error("regex ends in a backslash");
    const char c = text_[position_++];
    if (c == 'Z' || c == 'A' || c == 'z') return Error("regex: write '^' and '$' for \\A and \\Z");
    if (const auto set = class_escape(c)) return *set;
    const bool is_word = is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (is_word) return Error(std::string("regex: '\\") + c + "' is not understood");
    return Set().set(static_cast<unsigned char>(c));
  }

  Result<void> parse_class() {
    const bool negated = take('^');
    Set set;
    for (bool first = true;; first = false) {
      if (at_end()) return Error("regex has a '[' without ']'");
      if (!first && take(']')) break;
      TRY(const Set low, parse_class_member());
      const bool is_range = position_ + 1 < text_.size() && peek() == '-' && text_[position_ + 1] != ']';
      if (!is_range) {
        set |= low;
        continue;
      }
      ++position_;
      TRY(const Set high, parse_class_member());
      if (low.count() != 1 || high.count() != 1) return Error("regex has a range with a class at its end");
      const size_t from = low._Find_first();
      const size_t to = high._Find_first();
      if (from > to) return Error("regex has a range that is upside down");
      add_range(set, static_cast<unsigned char>(from), static_cast<unsigned char>(to));
    }
    fold_case(set);
    emit_set(negated ? ~set : set);
    return {};
  }

  Result<Set> parse_class_member() {
    if (at_end()) return Error("regex has a '[' without ']'");
    const char c = text_[position_++];
    if (c == '\\') return parse_escape();
    if (c == '[' && !at_end() && (peek() == ':' || peek() == '.' || peek() == '=')) {
      return Error("regex: '[:class:]' is not understood");
    }
    return Set().set(static_cast<unsigned char>(c));
  }

  Result<void> parse_quantifier(size_t begin) {
    int minimum = 0;
    int maximum = -1;  // no bound
    if (take('*')) {
    } else if (take('+')) {
      minimum = 1;
    } else if (take('?')) {
      maximum = 1;
    } else if (take('{')) {
      TRY_VOID(parse_bounds(minimum, maximum));
    } else {
      return {};
    }
    take('?');  // lazy: the same for a match that must reach the end
    if (!at_end() && (peek() == '*' || peek() == '+' || peek() == '?' || peek() == '{')) {
      return Error("regex has a quantifier after a quantifier");
    }
    const Code piece = cut(begin);
    const size_t copies = static_cast<size_t>(std::max(minimum, maximum)) + 1;
    if (copies * (piece.size() + 2) > kMaxProgram) return Error("regex is too large");
    const auto size = static_cast<int32_t>(piece.size());
    for (int i = 0; i < minimum; ++i) append(piece);
    if (maximum < 0) {
      emit(Op::kSplit, 1, size + 2);
      append(piece);
      emit(Op::kJump, -(size + 1));
    }
    for (int i = minimum; i < maximum; ++i) {
      emit(Op::kSplit, 1, (maximum - i) * (size + 1));
      append(piece);
    }
    return {};
  }

  Result<void> parse_bounds(int& minimum, int& maximum) {
    TRY(minimum, parse_number());
    maximum = minimum;
    if (take(',')) {
      maximum = -1;
      if (!at_end() && peek() != '}') {
        TRY(maximum, parse_number());
        if (maximum < minimum) return Error("regex has a '{m,n}' with n < m");
      }
    }
    if (!take('}')) return Error("regex has a '{' without '}'");
    return {};
  }

  Result<int> parse_number() {
    int value = 0;
    if (at_end() || !is_digit(peek())) return Error("regex: expected a number after '{' or ','");
    while (!at_end() && is_digit(peek())) {
      value = value * 10 + (text_[position_++] - '0');
      if (value > kMaxRepeat) return Error("regex repeats more than 255 times");
    }
    return value;
  }

  std::string_view text_;
  size_t position_ = 0;
  Code program_;
  std::vector<Set> sets_;
};

Result<HostRegex> HostRegex::compile(std::string_view text) { return RegexCompiler(text).compile(); }

// Adds `start` and all that is reachable from it without reading a character.
void HostRegex::follow(std::vector<uint32_t>& threads, std::vector<char>& seen, uint32_t start, bool at_begin,
                       bool at_end) const {
  std::vector<uint32_t> pending = {start};
  while (!pending.empty()) {
    const uint32_t pc = pending.back();
    pending.pop_back();
    if (seen[pc] != 0) continue;
    seen[pc] = 1;
    const Instruction& instruction = program_[pc];
    const auto target = [pc](int32_t offset) { return static_cast<uint32_t>(static_cast<int32_t>(pc) + offset); };
    switch (instruction.op) {
      case Op::kJump: pending.push_back(target(instruction.first)); break;
      case Op::kSplit:
        pending.push_back(target(instruction.second));
        pending.push_back(target(instruction.first));
        break;
      case Op::kBegin:
        if (at_begin) pending.push_back(pc + 1);
        break;
      case Op::kEnd:
        if (at_end) pending.push_back(pc + 1);
        break;
      case Op::kSet:
      case Op::kMatch: threads.push_back(pc); break;
    }
  }
}

// True if a match that begins at `begin` can end at the end of `subject`.
bool HostRegex::matches_rest(std::string_view subject, size_t begin) const {
  std::vector<uint32_t> threads;
  std::vector<uint32_t> next;
  std::vector<char> seen(program_.size(), 0);
  follow(threads, seen, 0, begin == 0, begin == subject.size());
  for (size_t i = begin; i < subject.size() && !threads.empty(); ++i) {
    next.clear();
    std::fill(seen.begin(), seen.end(), 0);
    for (const uint32_t pc : threads) {
      const Instruction& instruction = program_[pc];
      if (instruction.op == Op::kSet && sets_[static_cast<size_t>(instruction.first)][static_cast<unsigned char>(subject[i])]) {
        follow(next, seen, pc + 1, false, i + 1 == subject.size());
      }
    }
    threads.swap(next);
  }
  return std::any_of(threads.begin(), threads.end(), [&](uint32_t pc) { return program_[pc].op == Op::kMatch; });
}

bool HostRegex::matches(std::string_view host, uint16_t port) const {
  const bool is_address = host.find(':') != std::string_view::npos ||
                          host.find_first_not_of("0123456789.") == std::string_view::npos;
  const std::string with_port = std::string(host) + ":" + std::to_string(port);
  for (const std::string_view subject : {host, std::string_view(with_port)}) {
    if (subject.size() == host.size() && port != 443) continue;
    if (matches_rest(subject, 0)) return true;
    for (size_t dot = host.find('.'); !is_address && dot != std::string_view::npos; dot = host.find('.', dot + 1)) {
      if (matches_rest(subject, dot + 1)) return true;
    }
  }
  return false;
}

}  // namespace leash::oci
