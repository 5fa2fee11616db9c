#include "hooks/trust_openssl.h"

#include <openssl/err.h>
#include <openssl/pem.h>

namespace leash::hooks {

Error openssl_error(std::string_view what) {
  std::string text(what);
  const unsigned long code = ERR_get_error();
  if (const char* reason = ERR_reason_error_string(code)) {
    text += ": ";
    text += reason;
  }
  ERR_clear_error();
  return Error(std::move(text));
}

std::string bio_text(BIO* bio) {
  char* data = nullptr;
  const long length = BIO_get_mem_data(bio, &data);
  return length > 0 ? std::string(data, static_cast<size_t>(length)) : std::string();
}

Result<X509Ptr> parse_certificate(std::string_view pem) {
  BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  if (!bio) return openssl_error("allocate");
  X509Ptr certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  if (!certificate) return openssl_error("parse the certificate");
  return certificate;
}

Result<std::string> certificate_der(const X509* certificate) {
  unsigned char* data = nullptr;
  const int length = i2d_X509(certificate, &data);
  if (length <= 0) return openssl_error("encode the certificate");
  std::string der(reinterpret_cast<char*>(data), static_cast<size_t>(length));
  OPENSSL_free(data);
  return der;
}

}  // namespace leash::hooks
