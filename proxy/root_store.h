// The roots that origins are verified with, decoded when a chain asks for them.
//
// A host has some 140; OpenSSL 3.0 takes 20 to 30 ms to decode them, as much as all else that a leashed
// container costs at its start, and 1 MB of memory. A chain needs one or two. So the bundle is kept as
// it is; at the first verification it is indexed by subject, which takes the name of each certificate
// alone, and X509_STORE asks for the rest by name, as it does with a hashed directory.
#pragma once

#include <openssl/x509_vfy.h>

#include <memory>
#include <string>

#include "base/result.h"

namespace leash::proxy {

class RootStore {
 public:
  // An error if no certificate is in `pem`. What is in blocks that are no certificates is left out, as
  // OpenSSL's own loader of directories does.
  [[nodiscard]] static Result<std::unique_ptr<RootStore>> create(std::string pem);
  ~RootStore();
  RootStore(const RootStore&) = delete;
  RootStore& operator=(const RootStore&) = delete;

  // `this` outlives the store.
  [[nodiscard]] Result<void> serve(X509_STORE* store);

 private:
  struct Index;

  explicit RootStore(std::string pem);
  static int find(X509_LOOKUP* lookup, X509_LOOKUP_TYPE type, const X509_NAME* name, X509_OBJECT* found);
  int find(X509_STORE* store, const X509_NAME* name, X509_OBJECT* found);

  std::string pem_;
  std::unique_ptr<Index> index_;
};

}  // namespace leash::proxy
