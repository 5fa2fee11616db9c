// Secrets: the real values of API keys leave the container's environment before the container exists.
//
// The store knows which variables the policy names. It takes a process.env (create's, and each
// exec's), keeps the real values to itself and hands back an environment with placeholders, which the
// proxy turns into the real values in requests to the bound hosts. A placeholder has the shape of its
// key (prefix, length, alphabet), because clients check those; it is random and therefore worthless.
//
// Where a real value also stands in another variable (a URL with the token in it, a second name for
// the same key) it is replaced there too. Values are wiped when the store ends and are never logged.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "oci-spec/policy.h"
#include "oci-spec/proxy_protocol.h"

namespace leash::shim {

class SecretStore {
 public:
  // `rules` are the policy's. Reads what comes from the host (`from: host-env`, `file`, `command`); a value
  // that should be there and is not is an error that names the variable.
  [[nodiscard]] static Result<SecretStore> create(const std::vector<oci::PolicySecret>& rules);

  SecretStore(SecretStore&&) = default;
  SecretStore& operator=(SecretStore&&) = default;
  SecretStore(const SecretStore&) = delete;
  SecretStore& operator=(const SecretStore&) = delete;
  ~SecretStore();

  struct Hidden {
    std::vector<std::string> env;           // same order, placeholders in
    std::vector<oci::ProxySecret> added;    // new ones of this call, to be told to the proxy
  };
  // For create and for each exec. The same variable with the same value keeps its placeholder; a new
  // value gets a new one, and the old one stays valid for processes that already hold it.
  [[nodiscard]] Result<Hidden> hide(const std::vector<std::string>& env);

  // All secrets so far, for a proxy that starts or restarts.
  [[nodiscard]] const std::vector<oci::ProxySecret>& secrets() const { return secrets_; }

 private:
  struct Source {
    oci::PolicySecret rule;
    std::string value;  // from the host; empty: the container's own
  };
  SecretStore() = default;
  Result<std::string> placeholder_for(const Source& source, const std::string& value, std::vector<oci::ProxySecret>& added);

  std::vector<Source> sources_;
  std::vector<oci::ProxySecret> secrets_;
};

// A random string of `value`'s shape: its known prefix, its length (at least 24 characters after the
// prefix), its alphabet. Never equal to `value`.
[[nodiscard]] Result<std::string> make_placeholder(std::string_view value);

}  // namespace leash::shim
