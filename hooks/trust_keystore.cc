#include "hooks/trust_keystore.h"

#include <openssl/pkcs12.h>
#include <openssl/safestack.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>

#include "hooks/trust_openssl.h"

namespace leash::hooks {

namespace {

constexpr std::string_view kAlias = "leash-ca";
constexpr std::string_view kPassword = "changeit";  // every Java distribution's cacerts
constexpr std::string_view kJksMagic = "\xfe\xed\xfe\xed";
constexpr size_t kJksHeader = 12;  // magic, version, count
constexpr size_t kSha1Length = 20;

void append_big_endian(std::string& out, uint64_t value, int bytes) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) out += static_cast<char>((value >> shift) & 0xffU);
}

// DataOutput.writeUTF: ASCII here.
void append_utf(std::string& out, std::string_view text) {
  append_big_endian(out, text.size(), 2);
  out += text;
}

// sun.security.provider.JavaKeyStore: SHA-1 over the password as UTF-16BE, a fixed phrase, the data.
Result<std::string> jks_digest(std::string_view data) {
  std::string keyed;
  keyed.reserve(2 * kPassword.size() + 16 + data.size());
  for (const char c : kPassword) {
    keyed += '\0';
    keyed += c;
  }
  keyed += "Mighty Aphrodite";
  keyed += data;
  std::array<unsigned char, kSha1Length> digest{};
  if (EVP_Digest(keyed.data(), keyed.size(), digest.data(), nullptr, EVP_sha1(), nullptr) != 1) {
    return openssl_error("SHA-1");
  }
  return std::string(reinterpret_cast<const char*>(digest.data()), digest.size());
}

Result<std::string> add_to_jks(std::string_view keystore, const X509* certificate) {
  if (keystore.size() < kJksHeader + kSha1Length) return Error("the key store is cut off");
  std::string data(keystore.substr(0, keystore.size() - kSha1Length));
  TRY(const std::string digest, jks_digest(data));
  if (digest != keystore.substr(data.size())) return Error("the key store has another password than Java's own");
  if (data.substr(4, 4) != std::string_view("\0\0\0\2", 4)) return Error("the key store has an unknown version");

  uint32_t count = 0;
  for (size_t at = 8; at < kJksHeader; ++at) count = count << 8 | static_cast<unsigned char>(data[at]);
  if (count == UINT32_MAX) return Error("the key store's count overflows");
  std::string new_count;
  append_big_endian(new_count, count + 1, 4);
  data.replace(8, 4, new_count);

  constexpr uint64_t kTrustedCertificateEntry = 2;
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  TRY(const std::string der, certificate_der(certificate));
  append_big_endian(data, kTrustedCertificateEntry, 4);
  append_utf(data, kAlias);
  append_big_endian(data, static_cast<uint64_t>(now.count()), 8);
  append_utf(data, "X.509");
  append_big_endian(data, der.size(), 4);
  data += der;
  TRY(const std::string new_digest, jks_digest(data));
  return data + new_digest;
}

void free_safes(STACK_OF(PKCS7)* safes) { sk_PKCS7_pop_free(safes, PKCS7_free); }
void free_bags(STACK_OF(PKCS12_SAFEBAG)* bags) { sk_PKCS12_SAFEBAG_pop_free(bags, PKCS12_SAFEBAG_free); }

// A certificate counts as trusted for Java only with Oracle's attribute trustedKeyUsage, here "any".
Result<void> mark_as_trusted(PKCS12_SAFEBAG* bag) {
  std::unique_ptr<ASN1_OBJECT, Release<&ASN1_OBJECT_free>> any(OBJ_txt2obj("2.5.29.37.0", 1));
  // Length -1: the data is an ASN1_OBJECT, which is copied (X509_ATTRIBUTE_set1_data).
  if (!any || PKCS12_add1_attr_by_txt(bag, "2.16.840.1.113894.746875.1.1", V_ASN1_OBJECT,
                                      reinterpret_cast<const unsigned char*>(any.get()), -1) != 1) {
    return openssl_error("mark the certificate as trusted");
  }
  return {};
}

Result<std::string> add_to_pkcs12(std::string_view keystore, X509* certificate) {
  const auto* data = reinterpret_cast<const unsigned char*>(keystore.data());
  Pkcs12Ptr store(d2i_PKCS12(nullptr, &data, static_cast<long>(keystore.size())));
  if (!store) return openssl_error("neither JKS nor PKCS#12");
  const bool has_mac = PKCS12_mac_present(store.get()) == 1;
  if (has_mac && PKCS12_verify_mac(store.get(), kPassword.data(), static_cast<int>(kPassword.size())) != 1) {
    return openssl_error("the key store has another password than Java's own");
  }
  std::unique_ptr<STACK_OF(PKCS7), Release<&free_safes>> safes(PKCS12_unpack_authsafes(store.get()));
  if (!safes) return openssl_error("unpack the key store");

  if (X509_alias_set1(certificate, reinterpret_cast<const unsigned char*>(kAlias.data()),
                      static_cast<int>(kAlias.size())) != 1) {
    return openssl_error("name the entry");
  }
  STACK_OF(PKCS12_SAFEBAG)* raw_bags = nullptr;
  PKCS12_SAFEBAG* bag = PKCS12_add_cert(&raw_bags, certificate);
  std::unique_ptr<STACK_OF(PKCS12_SAFEBAG), Release<&free_bags>> bags(raw_bags);
  if (bag == nullptr) return openssl_error("add the certificate");
  TRY_VOID(mark_as_trusted(bag));
  STACK_OF(PKCS7)* raw_safes = safes.get();
  constexpr int kNotEncrypted = -1;
  if (PKCS12_add_safe(&raw_safes, bags.get(), kNotEncrypted, 0, nullptr) != 1 ||
      PKCS12_pack_authsafes(store.get(), safes.get()) != 1) {
    return openssl_error("pack the key store");
  }
  if (has_mac) {
    constexpr int kIterations = 10000;  // Java's own choice
    if (PKCS12_set_mac(store.get(), kPassword.data(), static_cast<int>(kPassword.size()), nullptr, 0, kIterations,
                       EVP_sha256()) != 1) {
      return openssl_error("seal the key store");
    }
  }
  unsigned char* der = nullptr;
  const int length = i2d_PKCS12(store.get(), &der);
  if (length <= 0) return openssl_error("encode the key store");
  std::string text(reinterpret_cast<char*>(der), static_cast<size_t>(length));
  OPENSSL_free(der);
  return text;
}

}  // namespace

Result<std::string> add_to_keystore(std::string_view keystore, std::string_view certificate_pem) {
  TRY(X509Ptr certificate, parse_certificate(certificate_pem));
  if (keystore.starts_with(kJksMagic)) return add_to_jks(keystore, certificate.get());
  return add_to_pkcs12(keystore, certificate.get());
}

}  // namespace leash::hooks
