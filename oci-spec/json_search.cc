#include "oci-spec/json_search.h"

#include <nlohmann/json.hpp>

namespace leash::oci {

namespace {

// Handlers of nlohmann::json::sax_parse: false ends the parse.
class PairSearch final : public nlohmann::json_sax<nlohmann::json> {
 public:
  PairSearch(std::string_view key, std::string_view value) : key_(key), value_(value) {}

  [[nodiscard]] bool is_found() const { return is_found_; }

  bool key(string_t& text) override {
    is_at_key_ = text == key_;
    return true;
  }
  bool string(string_t& text) override {
    is_found_ = is_at_key_ && text == value_;
    return other() && !is_found_;
  }
  bool null() override { return other(); }
  bool boolean(bool) override { return other(); }
  bool number_integer(number_integer_t) override { return other(); }
  bool number_unsigned(number_unsigned_t) override { return other(); }
  bool number_float(number_float_t, const string_t&) override { return other(); }
  bool binary(binary_t&) override { return other(); }
  bool start_object(std::size_t) override { return other(); }
  bool end_object() override { return other(); }
  bool start_array(std::size_t) override { return other(); }
  bool end_array() override { return other(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  bool other() {
    is_at_key_ = false;
    return true;
  }

  std::string_view key_;
  std::string_view value_;
  bool is_at_key_ = false;
  bool is_found_ = false;
};

}  // namespace

Result<bool> json_has_pair(std::string_view text, std::string_view key, std::string_view value) {
  PairSearch search(key, value);
  const bool whole = nlohmann::json::sax_parse(text, &search);
  if (search.is_found()) return true;
  if (!whole) return Error("not JSON");
  return false;
}

}  // namespace leash::oci
