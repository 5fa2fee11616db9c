// Result<T>: the one way in which our functions fail.
//
// The members carry std::expected's names, so that the type can become an alias once every
// platform we build on has it. An Error owns an errno-style code and a message: lower case, names
// its object, no full stop. Callers add the object with context():
//
//     TRY(Fd proc, sys::open("/proc", O_PATH | O_DIRECTORY));
//     TRY_VOID(sys::mount(...).context("mount '/proc'"));
//
// TRY and its kin are statements, never expressions: a statement expression around co_await
// crashes g++ 12.
#pragma once

#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace leash {

class [[nodiscard]] Error {
 public:
  // `code` is an errno value, or 0 where no system call is behind the failure.
  Error(int code, std::string message) : code_(code), message_(std::move(message)) {}
  explicit Error(std::string message) : message_(std::move(message)) {}

  // "<what>: <strerror(code)>", e.g. "open '/x': no such file or directory". The text is in lower
  // case as Go prints it: engines match these words case-sensitively.
  [[nodiscard]] static Error from_errno(int code, std::string_view what);
  [[nodiscard]] static Error last_errno(std::string_view what) { return from_errno(errno, what); }

  [[nodiscard]] int code() const { return code_; }
  [[nodiscard]] const std::string& message() const { return message_; }

  // Prefixes "<text>: ".
  [[nodiscard]] Error context(std::string_view text) && {
    message_.insert(0, ": ");
    message_.insert(0, text);
    return std::move(*this);
  }

 private:
  int code_ = 0;
  std::string message_;
};

// strerror in Go's spelling (lower case), e.g. "no such file or directory".
[[nodiscard]] std::string errno_text(int code);

template <class T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit by intent
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT

  [[nodiscard]] bool has_value() const { return state_.index() == 0; }
  [[nodiscard]] explicit operator bool() const { return has_value(); }

  [[nodiscard]] T& value() & { return std::get<0>(state_); }
  [[nodiscard]] const T& value() const& { return std::get<0>(state_); }
  [[nodiscard]] T&& value() && { return std::get<0>(std::move(state_)); }
  [[nodiscard]] T& operator*() & { return value(); }
  [[nodiscard]] const T& operator*() const& { return value(); }
  [[nodiscard]] T&& operator*() && { return std::move(*this).value(); }
  [[nodiscard]] T* operator->() { return &value(); }
  [[nodiscard]] const T* operator->() const { return &value(); }

  template <class U>
  [[nodiscard]] T value_or(U&& other) && {
    return has_value() ? std::move(*this).value() : static_cast<T>(std::forward<U>(other));
  }

  [[nodiscard]] const Error& error() const& { return std::get<1>(state_); }
  [[nodiscard]] Error&& error() && { return std::get<1>(std::move(state_)); }

  [[nodiscard]] Result context(std::string_view text) && {
    if (has_value()) return std::move(*this);
    return std::move(*this).error().context(text);
  }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;

  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT: implicit by intent

  [[nodiscard]] bool has_value() const { return !error_.has_value(); }
  [[nodiscard]] explicit operator bool() const { return has_value(); }
  void value() const {}

  [[nodiscard]] const Error& error() const& { return *error_; }
  [[nodiscard]] Error&& error() && { return *std::move(error_); }

  [[nodiscard]] Result context(std::string_view text) && {
    if (has_value()) return {};
    return std::move(*this).error().context(text);
  }

 private:
  std::optional<Error> error_;
};

}  // namespace leash

#define LEASH_CONCAT_INNER(a, b) a##b
#define LEASH_CONCAT(a, b) LEASH_CONCAT_INNER(a, b)
#define LEASH_TRY_INNER(temporary, leave, declaration, ...)       \
  auto temporary = (__VA_ARGS__);                                 \
  if (!temporary) leave ::leash::Error(std::move(temporary).error()); \
  declaration = std::move(temporary).value()
#define LEASH_TRY_VOID_INNER(temporary, leave, ...)                   \
  do {                                                                \
    auto temporary = (__VA_ARGS__);                                   \
    if (!temporary) leave ::leash::Error(std::move(temporary).error()); \
  } while (false)

// TRY(Fd fd, sys::open(...)): declares fd, or returns the error from the enclosing function.
#define TRY(declaration, ...) \
  LEASH_TRY_INNER(LEASH_CONCAT(try_result_, __COUNTER__), return, declaration, __VA_ARGS__)
// TRY_VOID(f()): for Result<void>, or where the value is not wanted.
#define TRY_VOID(...) LEASH_TRY_VOID_INNER(LEASH_CONCAT(try_result_, __COUNTER__), return, __VA_ARGS__)
// The same within a coroutine. The argument is a Result, not an awaitable: co_await on a line before.
#define CO_TRY(declaration, ...) \
  LEASH_TRY_INNER(LEASH_CONCAT(try_result_, __COUNTER__), co_return, declaration, __VA_ARGS__)
#define CO_TRY_VOID(...) LEASH_TRY_VOID_INNER(LEASH_CONCAT(try_result_, __COUNTER__), co_return, __VA_ARGS__)
