// SecretStore: the real values, in memory that is locked (never swapped), left out of core dumps, and
// wiped at the end. Nothing prints a value; the log knows secrets by their names.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "oci-spec/host_pattern.h"
#include "oci-spec/proxy_protocol.h"
#include "proxy/pattern_set.h"

namespace leash::proxy {

class LockedText {
 public:
  LockedText() = default;
  [[nodiscard]] static Result<LockedText> create(std::string_view text);
  ~LockedText();
  LockedText(LockedText&& other) noexcept;
  LockedText& operator=(LockedText&& other) noexcept;
  LockedText(const LockedText&) = delete;
  LockedText& operator=(const LockedText&) = delete;

  [[nodiscard]] std::string_view view() const { return {memory_, length_}; }

 private:
  char* memory_ = nullptr;
  size_t length_ = 0;
};

struct Secret {
  std::string name;
  std::string placeholder;
  std::string masked;  // the placeholder, cut or padded to the value's length: what redaction writes
  LockedText value;
  std::vector<oci::HostPattern> hosts;
  std::vector<std::string> headers;  // lower case; empty: any
  bool exclusive = false;

  [[nodiscard]] bool is_for(std::string_view host) const;
};

class SecretStore {
 public:
  // A secret whose placeholder is known replaces the former one. `document` is wiped.
  [[nodiscard]] Result<void> add(oci::ProxySecret&& document);

  [[nodiscard]] const std::vector<Secret>& all() const { return secrets_; }
  [[nodiscard]] bool empty() const { return secrets_.empty(); }
  // What must not come back from `host`: the values for it, plain, in base64, hexadecimal and
  // percent-encoded. nullptr if none are for it.
  [[nodiscard]] std::shared_ptr<const PatternSet> patterns_for(std::string_view host);

 private:
  std::vector<Secret> secrets_;
  std::map<std::vector<size_t>, std::shared_ptr<const PatternSet>> patterns_;  // by the secrets meant
};

void wipe(std::string& text);

}  // namespace leash::proxy
