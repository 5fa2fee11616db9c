// Reading JSON with the place of every mistake: the private helper of this room's parsers.
//
// A Reader is a value together with its way from the top of the document. Reading never throws and needs
// no TRY per field: the first mistake is kept in the document's Failure and whatever is read after it
// keeps its default, so that a parser is a list of fields. Its caller looks at the Failure once, at the end:
//
//     return json::read<Hook>(text, [](json::Reader& reader, Hook& hook) {
//       reader.require("path", hook.path);
//       reader.get("timeout", hook.timeout_seconds);
//     });
//
// null counts as absent, as it does for the Go programs that write most of these documents. Fields that
// nobody asks for are ignored. Strings with a NUL are refused: every one of them would be cut short on
// its way into a system call.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace leash::oci::json {

using Value = nlohmann::json;
// Keeps fields in the order in which they were added: for printing.
using OrderedValue = nlohmann::ordered_json;

// Parses the text alone. Errors have no place but line and column.
[[nodiscard]] Result<Value> parse(std::string_view text);

// Prints without throwing: bytes that are not UTF-8 become U+FFFD, as Go's encoder writes them.
[[nodiscard]] std::string dump(const OrderedValue& value, int indent = -1, char indent_char = ' ');

struct Failure {
  std::string text;
  [[nodiscard]] bool happened() const { return !text.empty(); }
};

class Reader {
 public:
  Reader(const Value& value, Failure& failure) : value_(&value), failure_(&failure) {}

  [[nodiscard]] bool failed() const { return failure_->happened(); }
  // "linux.namespaces[2].type"; "document" at the top.
  [[nodiscard]] std::string place() const;
  // Records "<place>: <what>", if it is the first mistake.
  void fail(std::string_view what);
  // Records `text` alone: for the sentences that callers of runc know.
  void fail_with(std::string text);

  // The value itself as a T. A mismatch is recorded.
  void read(bool& out);
  void read(std::string& out);
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  void read(T& out) {
    using Limits = std::numeric_limits<T>;
    if constexpr (std::is_unsigned_v<T>) {
      if (read_unsigned(Limits::max())) out = value_->get<T>();
    } else {
      if (read_signed(Limits::min(), Limits::max())) out = value_->get<T>();
    }
  }
  template <class T>
  void read(std::optional<T>& out) {
    T value{};
    read(value);
    if (!failed()) out = std::move(value);
  }
  template <class T>
  void read(std::vector<T>& out) {
    each([&out](Reader& item) {
      T value{};
      item.read(value);
      out.push_back(std::move(value));
    });
  }
  void read(std::map<std::string, std::string>& out) {
    each_field([&out](const std::string& key, Reader& field) { field.read(out[key]); });
  }

  // The field of that name, when it is there and not null.
  template <class T>
  bool get(const char* key, T& out) {
    return with(key, [&out](Reader& field) { field.read(out); });
  }
  template <class T>
  void require(const char* key, T& out) {
    if (!get(key, out)) missing(key);
  }
  // A string out of a fixed set of words.
  template <class Words>
  bool get_word(const char* key, std::string& out, const Words& words) {
    return with(key, [&](Reader& field) {
      field.read(out);
      if (field.failed()) return;
      for (const auto& word : words) {
        if (word == out) return;
      }
      field.fail("unknown value \"" + out + "\"");
    });
  }

  // Calls f(Reader&) with the field of that name when it is there and not null; true then.
  template <class F>
  bool with(const char* key, F&& f) {
    if (failed() || !is_object()) return false;
    auto found = value_->find(key);
    if (found == value_->end() || found->is_null()) return false;
    Reader field(*found, *this, key);
    f(field);
    return true;
  }
  // f(Reader&, T&) for each element of the array in that field.
  template <class T, class F>
  void get_list(const char* key, std::vector<T>& out, F&& f) {
    with(key, [&](Reader& list) {
      list.each([&](Reader& item) {
        T value{};
        if (item.is_object()) f(item, value);
        out.push_back(std::move(value));
      });
    });
  }
  // f(Reader&, T&) on the object in that field.
  template <class T, class F>
  void get_object(const char* key, std::optional<T>& out, F&& f) {
    with(key, [&](Reader& object) {
      if (!object.is_object()) return;
      T value{};
      f(object, value);
      out = std::move(value);
    });
  }

  // f(Reader&) for each element; a value that is not an array is recorded.
  template <class F>
  void each(F&& f) {
    if (failed() || !is_array()) return;
    size_t index = 0;
    for (const Value& element : *value_) {
      Reader item(element, *this, index++);
      f(item);
      if (failed()) return;
    }
  }
  // f(key, Reader&) for each field; a value that is not an object is recorded.
  template <class F>
  void each_field(F&& f) {
    if (failed() || !is_object()) return;
    for (auto field = value_->begin(); field != value_->end(); ++field) {
      Reader item(*field, *this, field.key().c_str());
      f(field.key(), item);
      if (failed()) return;
    }
  }
  // True for an object; anything else is recorded.
  bool is_object();
  void missing(const char* key);

 private:
  Reader(const Value& value, const Reader& parent, const char* key)
      : value_(&value), failure_(parent.failure_), parent_(&parent), key_(key) {}
  Reader(const Value& value, const Reader& parent, size_t index)
      : value_(&value), failure_(parent.failure_), parent_(&parent), index_(index) {}

  bool is_array();
  bool read_unsigned(uint64_t max);
  bool read_signed(int64_t min, int64_t max);
  void mismatch(std::string_view expected);

  const Value* value_;
  Failure* failure_;
  const Reader* parent_ = nullptr;
  const char* key_ = nullptr;
  size_t index_ = 0;
};

// The whole way: text to T. f(Reader&, T&) reads the fields of the top object.
template <class T, class F>
[[nodiscard]] Result<T> read(std::string_view text, F&& f) {
  TRY(Value value, parse(text));
  Failure failure;
  Reader reader(value, failure);
  T out{};
  if (reader.is_object()) f(reader, out);
  if (failure.happened()) return Error(EINVAL, std::move(failure.text));
  return out;
}

}  // namespace leash::oci::json
