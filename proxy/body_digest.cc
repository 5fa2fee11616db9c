#include "proxy/body_digest.h"

#include <algorithm>
#include <array>

#include "proxy/tls_stream.h"

namespace leash::proxy {

Result<DigestMethod> DigestMethod::create() {
  DigestMethod digest;
  digest.method_.reset(EVP_MD_fetch(nullptr, "SHA256", nullptr));
  if (digest.method_ == nullptr) return Error("sha-256: " + openssl_error());
  return digest;
}

void BodyDigest::update(std::string_view payload) {
  if (payload.empty()) return;
  if (context_ == nullptr) {
    context_.reset(EVP_MD_CTX_new());
    if (context_ == nullptr || EVP_DigestInit_ex2(context_.get(), method_.get(), nullptr) != 1) return;
  }
  (void)EVP_DigestUpdate(context_.get(), payload.data(), payload.size());
  if (preview_.size() < preview_bytes_) preview_ += payload.substr(0, preview_bytes_ - preview_.size());
}

std::string BodyDigest::sha256() {
  if (context_ == nullptr) return "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
  std::array<unsigned char, 32> digest{};
  if (EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr) != 1) return {};
  context_.reset();
  std::string text;
  text.reserve(64);
  for (const unsigned char byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

}  // namespace leash::proxy
