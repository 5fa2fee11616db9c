#include "oci-spec/json.h"

#include <type_traits>

namespace leash::oci::json {

namespace {

// nlohmann's "[json.exception.parse_error.101] parse error at line 1, column 2: ..." without its tag, and
// on one line: it may quote the document.
std::string plain_text(const char* what) {
  std::string_view text(what);
  if (text.starts_with('[')) {
    size_t end = text.find("] ");
    if (end != std::string_view::npos) text.remove_prefix(end + 2);
  }
  std::string line(text.substr(0, 300));
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return line;
}

std::string_view name_of(const Value& value) {
  switch (value.type()) {
    case Value::value_t::null: return "null";
    case Value::value_t::boolean: return "a boolean";
    case Value::value_t::string: return "a string";
    case Value::value_t::array: return "an array";
    case Value::value_t::object: return "an object";
    case Value::value_t::number_float: return "a number that is not an integer";
    default: return "a number";
  }
}

}  // namespace

Result<Value> parse(std::string_view text) {
  try {
    return Value::parse(text.begin(), text.end());
  } catch (const nlohmann::json::exception& error) {
    return Error(EINVAL, "invalid JSON: " + plain_text(error.what()));
  }
}

std::string dump(const OrderedValue& value, int indent, char indent_char) {
  return value.dump(indent, indent_char, false, OrderedValue::error_handler_t::replace);
}

std::string Reader::place() const {
  if (parent_ == nullptr) return "document";
  std::string text = parent_->parent_ == nullptr ? std::string() : parent_->place();
  if (key_ == nullptr) {
    text += '[';
    text += std::to_string(index_);
    text += ']';
    return text;
  }
  if (!text.empty()) text += '.';
  // Keys of maps come from the document: shown, but never able to break the line.
  for (const char* c = key_; *c != '\0'; ++c) text += static_cast<unsigned char>(*c) < 0x20 ? '?' : *c;
  return text;
}

void Reader::fail(std::string_view what) {
  if (failed()) return;
  fail_with(place() + ": " + std::string(what));
}

void Reader::fail_with(std::string text) {
  if (failed()) return;
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = '?';
  }
  failure_->text = std::move(text);
}

void Reader::mismatch(std::string_view expected) {
  std::string what = "expected ";
  what += expected;
  what += ", found ";
  what += name_of(*value_);
  fail(what);
}

void Reader::missing(const char* key) { fail(std::string("required field \"") + key + "\" is missing"); }

void Reader::read(bool& out) {
  if (failed()) return;
  if (!value_->is_boolean()) return mismatch("a boolean");
  out = value_->get<bool>();
}

void Reader::read(std::string& out) {
  if (failed()) return;
  if (!value_->is_string()) return mismatch("a string");
  const auto& text = value_->get_ref<const std::string&>();
  if (text.find('\0') != std::string::npos) return fail("the string contains a NUL character");
  out = text;
}

bool Reader::read_unsigned(uint64_t max) {
  if (failed()) return false;
  if (!value_->is_number_integer()) return mismatch("an unsigned integer"), false;
  // A negative literal is kept signed; what is positive is kept unsigned.
  if (!value_->is_number_unsigned() || value_->get<uint64_t>() > max) {
    return fail(value_->dump() + " is out of range"), false;
  }
  return true;
}

bool Reader::read_signed(int64_t min, int64_t max) {
  if (failed()) return false;
  if (!value_->is_number_integer()) return mismatch("an integer"), false;
  bool fits = value_->is_number_unsigned() ? value_->get<uint64_t>() <= static_cast<uint64_t>(max)
                                           : value_->get<int64_t>() >= min && value_->get<int64_t>() <= max;
  if (!fits) fail(value_->dump() + " is out of range");
  return fits;
}

bool Reader::is_object() {
  if (failed()) return false;
  if (!value_->is_object()) mismatch("an object");
  return !failed();
}

bool Reader::is_array() {
  if (failed()) return false;
  if (!value_->is_array()) mismatch("an array");
  return !failed();
}

}  // namespace leash::oci::json
