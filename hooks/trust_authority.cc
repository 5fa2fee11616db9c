// The certificate authority of one container. The profile is the one that every client of the
// compatibility table accepts, Python 3.13's and OpenSSL's strict checks included: path length 0,
// keyCertSign alone, both critical, and a subject key identifier for the leaves to point at.
#include <openssl/asn1.h>
#include <openssl/bn.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <array>
#include <memory>

#include "hooks/trust.h"
#include "hooks/trust_openssl.h"

namespace leash::hooks {

namespace {

constexpr long kClockSkewDays = 1;
// Containers are not re-issued while they run, and some run for long; a key that leaks is worth
// nothing outside its container and nothing after this.
constexpr long kLifeDays = 730;
constexpr size_t kMaxCommonName = 64;  // RFC 5280, ub-common-name

Result<void> set_serial(X509* certificate) {
  BignumPtr serial(BN_new());
  // 127 bits: positive in its DER form, and not to be guessed.
  if (!serial || BN_rand(serial.get(), 127, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) != 1 ||
      BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(certificate)) == nullptr) {
    return openssl_error("draw a serial number");
  }
  return {};
}

Result<void> set_names(X509* certificate, std::string_view container_id) {
  X509_NAME* name = X509_get_subject_name(certificate);
  std::string common_name = "Leash CA ";
  common_name += container_id;
  if (common_name.size() > kMaxCommonName) common_name.resize(kMaxCommonName);
  const auto add = [name](const char* field, const std::string& text) {
    return X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(text.data()),
                                      static_cast<int>(text.size()), -1, 0) == 1;
  };
  if (!add("O", "Leash") || !add("CN", common_name) || X509_set_issuer_name(certificate, name) != 1) {
    return openssl_error("name the authority");
  }
  return {};
}

Result<void> add_extensions(X509* certificate, EVP_PKEY* key) {
  BasicConstraintsPtr constraints(BASIC_CONSTRAINTS_new());
  BitStringPtr usage(ASN1_BIT_STRING_new());
  OctetStringPtr key_id(ASN1_OCTET_STRING_new());
  if (!constraints || !usage || !key_id) return openssl_error("allocate extensions");
  constraints->ca = 0xff;
  constraints->pathlen = ASN1_INTEGER_new();
  if (constraints->pathlen == nullptr || ASN1_INTEGER_set(constraints->pathlen, 0) != 1) {
    return openssl_error("set the path length");
  }
  constexpr int kKeyCertSignBit = 5;
  if (ASN1_BIT_STRING_set_bit(usage.get(), kKeyCertSignBit, 1) != 1) return openssl_error("set the key usage");

  // RFC 5280, 4.2.1.2, method 1: SHA-1 of the public key's bits.
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  if (X509_set_pubkey(certificate, key) != 1 ||
      X509_pubkey_digest(certificate, EVP_sha1(), digest.data(), &length) != 1 ||
      ASN1_OCTET_STRING_set(key_id.get(), digest.data(), static_cast<int>(length)) != 1) {
    return openssl_error("set the subject key identifier");
  }
  if (X509_add1_ext_i2d(certificate, NID_basic_constraints, constraints.get(), 1, X509V3_ADD_DEFAULT) != 1 ||
      X509_add1_ext_i2d(certificate, NID_key_usage, usage.get(), 1, X509V3_ADD_DEFAULT) != 1 ||
      X509_add1_ext_i2d(certificate, NID_subject_key_identifier, key_id.get(), 0, X509V3_ADD_DEFAULT) != 1) {
    return openssl_error("add extensions");
  }
  return {};
}

}  // namespace

Result<Authority> create_authority(std::string_view container_id) {
  // What OpenSSL would otherwise do at its first call (read its configuration file, load error strings and
  // all algorithm names) costs more than the key itself, on the path of every `create`.
  if (OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_LOAD_CRYPTO_STRINGS |
                              OPENSSL_INIT_NO_ADD_ALL_CIPHERS | OPENSSL_INIT_NO_ADD_ALL_DIGESTS, nullptr) != 1) {
    return openssl_error("initialise");
  }
  PkeyPtr key(EVP_EC_gen("P-256"));
  if (!key) return openssl_error("make a P-256 key");
  X509Ptr certificate(X509_new());
  if (!certificate || X509_set_version(certificate.get(), X509_VERSION_3) != 1) return openssl_error("make a certificate");
  TRY_VOID(set_serial(certificate.get()));
  TRY_VOID(set_names(certificate.get(), container_id));
  if (X509_time_adj_ex(X509_getm_notBefore(certificate.get()), -kClockSkewDays, 0, nullptr) == nullptr ||
      X509_time_adj_ex(X509_getm_notAfter(certificate.get()), kLifeDays, 0, nullptr) == nullptr) {
    return openssl_error("set the validity");
  }
  TRY_VOID(add_extensions(certificate.get(), key.get()));
  if (X509_sign(certificate.get(), key.get(), EVP_sha256()) == 0) return openssl_error("sign the authority");

  BioPtr key_text(BIO_new(BIO_s_secmem()));
  BioPtr certificate_text(BIO_new(BIO_s_mem()));
  if (!key_text || !certificate_text ||
      PEM_write_bio_PrivateKey(key_text.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1 ||
      PEM_write_bio_X509(certificate_text.get(), certificate.get()) != 1) {
    return openssl_error("write the authority as PEM");
  }
  return Authority{.key_pem = bio_text(key_text.get()), .certificate_pem = bio_text(certificate_text.get())};
}

}  // namespace leash::hooks
