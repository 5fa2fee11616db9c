// What the log keeps of a request body: its SHA-256 and its first bytes, of the container's own bytes,
// before any placeholder is replaced, so that no real value can be in them.
#pragma once

#include <openssl/evp.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace leash::proxy {

// The algorithm, looked up once: OpenSSL 3 spends more on the look-up than on a short message.
class DigestMethod {
 public:
  [[nodiscard]] static Result<DigestMethod> create();
  [[nodiscard]] const EVP_MD* get() const { return method_.get(); }

 private:
  struct Deleter {
    void operator()(EVP_MD* method) const { EVP_MD_free(method); }
  };
  std::unique_ptr<EVP_MD, Deleter> method_;
};

class BodyDigest {
 public:
  BodyDigest(const DigestMethod& method, size_t preview_bytes) : method_(method), preview_bytes_(preview_bytes) {}

  void update(std::string_view payload);
  // Lower-case hexadecimal of all so far; that of the empty body if there was none.
  [[nodiscard]] std::string sha256();
  [[nodiscard]] std::string take_preview() { return std::move(preview_); }

 private:
  struct Deleter {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  const DigestMethod& method_;
  size_t preview_bytes_;
  std::unique_ptr<EVP_MD_CTX, Deleter> context_;  // made by the first byte
  std::string preview_;
};

}  // namespace leash::proxy
