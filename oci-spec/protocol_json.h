// Archives for the protocol documents: one `fields(archive, document)` per struct names its members once,
// and serves both printing and parsing. Included by the .cc files of the protocols only, so that
// nlohmann/json stays out of every header that other rooms read.
//
// Parsing is strict about what is there: a missing member or one of a wrong type or range is an error that
// names it. Members nobody asked for are ignored, so that a newer peer can say more.
#pragma once

#include <concepts>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.h"

namespace leash::oci::protocol {

using Json = nlohmann::json;

class Writer {
 public:
  template <class T>
  void operator()(const char* name, const T& value) {
    json_[name] = to_json(value);
  }
  // Text that is not UTF-8 cannot come from a JSON document; replacing beats throwing at a peer.
  [[nodiscard]] std::string text() const { return json_.dump(-1, ' ', false, Json::error_handler_t::replace); }

 private:
  static Json to_json(const std::string& value) { return value; }
  static Json to_json(bool value) { return value; }
  template <std::integral T>
  static Json to_json(T value) {
    return value;
  }
  static Json to_json(const std::pair<std::string, std::string>& value) {
    return Json::array({value.first, value.second});
  }
  template <class T>
  static Json to_json(const std::vector<T>& values) {
    Json array = Json::array();
    for (const T& value : values) array.push_back(to_json(value));
    return array;
  }
  template <class T>
    requires std::is_enum_v<T>
  static Json to_json(T value) {
    return enum_name(value);
  }
  template <class T>
    requires std::is_class_v<T>
  static Json to_json(const T& document) {
    Writer inner;
    fields(inner, document);
    return std::move(inner.json_);
  }

  Json json_ = Json::object();
};

class Reader {
 public:
  explicit Reader(const Json& json) : json_(json) {}

  template <class T>
  void operator()(const char* name, T& value) {
    if (!problem_.empty()) return;
    const auto found = json_.find(name);
    if (found == json_.end()) {
      problem_ = "'" + std::string(name) + "' is missing";
    } else if (!read(*found, value) && problem_.empty()) {
      problem_ = "'" + std::string(name) + "' has a wrong type or value";
    }
  }
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  bool read(const Json& json, std::string& value) {
    if (!json.is_string()) return false;
    value = json.get_ref<const std::string&>();
    return true;
  }
  bool read(const Json& json, bool& value) {
    if (!json.is_boolean()) return false;
    value = json.get<bool>();
    return true;
  }
  template <std::integral T>
  bool read(const Json& json, T& value) {
    if (!json.is_number_integer()) return false;
    if (json.is_number_unsigned()) {
      const auto number = json.get<uint64_t>();
      if (number > static_cast<uint64_t>(std::numeric_limits<T>::max())) return false;
      value = static_cast<T>(number);
      return true;
    }
    const auto number = json.get<int64_t>();
    if constexpr (std::is_unsigned_v<T>) {
      return false;
    } else {
      if (number < static_cast<int64_t>(std::numeric_limits<T>::min())) return false;
      value = static_cast<T>(number);
      return true;
    }
  }
  bool read(const Json& json, std::pair<std::string, std::string>& value) {
    return json.is_array() && json.size() == 2 && read(json[0], value.first) && read(json[1], value.second);
  }
  template <class T>
  bool read(const Json& json, std::vector<T>& values) {
    if (!json.is_array()) return false;
    values.clear();
    values.reserve(json.size());
    for (const Json& item : json) {
      T value{};
      if (!read(item, value)) return false;
      values.push_back(std::move(value));
    }
    return true;
  }
  template <class T>
    requires std::is_enum_v<T>
  bool read(const Json& json, T& value) {
    return json.is_string() && enum_value(json.get_ref<const std::string&>(), value);
  }
  template <class T>
    requires std::is_class_v<T>
  bool read(const Json& json, T& document) {
    if (!json.is_object()) return false;
    Reader inner(json);
    fields(inner, document);
    problem_ = inner.problem_;
    return problem_.empty();
  }

  const Json& json_;
  std::string problem_;
};

template <class T>
[[nodiscard]] std::string print_document(const T& document) {
  Writer writer;
  fields(writer, document);
  return writer.text();
}

template <class T>
[[nodiscard]] Result<T> parse_document(std::string_view text, const char* what) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return Error(EPROTO, std::string(what) + ": not a JSON object");
  Reader reader(json);
  T document{};
  fields(reader, document);
  if (!reader.problem().empty()) return Error(EPROTO, std::string(what) + ": " + reader.problem());
  return document;
}

// True when T is D, const or not: lets one `fields` serve the Writer (const) and the Reader.
template <class T, class D>
concept Of = std::same_as<std::remove_const_t<T>, D>;

}  // namespace leash::oci::protocol
