// LeafMint: certificates for the names that the container asks for, signed by the container's own CA.
// One P-256 key serves all leaves of a process; extensions that never change are made once; a leaf is
// signed once for each name and kept. The profile is the one that OpenSSL -x509_strict, Python 3.13,
// Go, GnuTLS, rustls, BoringSSL and Java all accept.
#pragma once

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/result.h"

namespace leash::proxy {

struct X509Deleter {
  void operator()(X509* certificate) const { X509_free(certificate); }
};
using X509Pointer = std::unique_ptr<X509, X509Deleter>;
struct KeyDeleter {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using KeyPointer = std::unique_ptr<EVP_PKEY, KeyDeleter>;

class LeafMint {
 public:
  // Errors: bad PEM, a key that does not fit the certificate.
  [[nodiscard]] static Result<std::unique_ptr<LeafMint>> create(std::string_view ca_pem, std::string_view ca_key_pem);
  ~LeafMint();
  LeafMint(const LeafMint&) = delete;
  LeafMint& operator=(const LeafMint&) = delete;

  // The leaf for a DNS name or an address literal; lives until the mint has made many others.
  [[nodiscard]] Result<X509*> leaf(const std::string& name);
  [[nodiscard]] EVP_PKEY* key() const { return leaf_key_.get(); }
  [[nodiscard]] X509* ca() const { return ca_.get(); }

 private:
  static constexpr size_t kMaxLeaves = 4096;
  struct Extensions;
  struct Entry {
    X509Pointer certificate;
    int64_t renew_at;
    std::list<std::string>::iterator age;
  };

  LeafMint();
  [[nodiscard]] Result<void> prepare();
  [[nodiscard]] Result<X509Pointer> mint(const std::string& name) const;

  X509Pointer ca_;
  KeyPointer ca_key_;
  KeyPointer leaf_key_;
  std::unique_ptr<Extensions> extensions_;
  std::unordered_map<std::string, Entry> leaves_;
  std::list<std::string> by_age_;  // oldest use first
};

}  // namespace leash::proxy
