#include "proxy/root_store.h"

#include <openssl/asn1.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "proxy/tls_stream.h"

namespace leash::proxy {

namespace {

struct CertificateDeleter {
  void operator()(X509* certificate) const { X509_free(certificate); }
};
using Certificate = std::unique_ptr<X509, CertificateDeleter>;

struct NameDeleter {
  void operator()(X509_NAME* name) const { X509_NAME_free(name); }
};

struct EncodeContextDeleter {
  void operator()(EVP_ENCODE_CTX* context) const { EVP_ENCODE_CTX_free(context); }
};

// "TRUSTED CERTIFICATE" is OpenSSL's form with what the certificate is trusted for behind it.
constexpr std::array<std::string_view, 3> kLabels = {"CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE"};

// Takes the next certificate's base64 from `pem`.
std::optional<std::string_view> next_block(std::string_view& pem) {
  constexpr std::string_view kBegin = "-----BEGIN ";
  constexpr std::string_view kEnd = "-----END ";
  for (;;) {
    const size_t begin = pem.find(kBegin);
    if (begin == std::string_view::npos) return std::nullopt;
    pem.remove_prefix(begin + kBegin.size());
    const size_t label_end = pem.find("-----");
    if (label_end == std::string_view::npos) return std::nullopt;
    const std::string_view label = pem.substr(0, label_end);
    pem.remove_prefix(label_end + 5);
    if (std::find(kLabels.begin(), kLabels.end(), label) == kLabels.end()) continue;
    const size_t end = pem.find(kEnd);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view block = pem.substr(0, end);
    pem.remove_prefix(end);
    return block;
  }
}

std::optional<std::string> decode_block(std::string_view block) {
  const std::unique_ptr<EVP_ENCODE_CTX, EncodeContextDeleter> context(EVP_ENCODE_CTX_new());
  if (context == nullptr) return std::nullopt;
  std::string der(block.size(), '\0');
  auto* const out = reinterpret_cast<unsigned char*>(der.data());
  int length = 0;
  int tail = 0;
  EVP_DecodeInit(context.get());
  if (EVP_DecodeUpdate(context.get(), out, &length, reinterpret_cast<const unsigned char*>(block.data()),
                       static_cast<int>(block.size())) < 0 ||
      EVP_DecodeFinal(context.get(), out + length, &tail) < 0) {
    return std::nullopt;
  }
  der.resize(static_cast<size_t>(length) + static_cast<size_t>(tail));
  return der;
}

Certificate decode_certificate(const std::string& der) {
  const auto* in = reinterpret_cast<const unsigned char*>(der.data());
  return Certificate(d2i_X509_AUX(nullptr, &in, static_cast<long>(der.size())));
}

// A cursor over DER elements.
class Elements {
 public:
  explicit Elements(std::string_view der) : rest_(der) {}

  // Takes the next element: its tag, its contents, and all of it.
  bool next() {
    const auto* contents = reinterpret_cast<const unsigned char*>(rest_.data());
    const unsigned char* const start = contents;
    long length = 0;
    int tag_class = 0;
    const int form = ASN1_get_object(&contents, &length, &tag, &tag_class, static_cast<long>(rest_.size()));
    if ((form & 0x80) != 0 || (form & 1) != 0) return false;  // malformed; of indefinite length, which is no DER
    const auto header = static_cast<size_t>(contents - start);
    is_universal = tag_class == V_ASN1_UNIVERSAL;
    content = rest_.substr(header, static_cast<size_t>(length));
    whole = rest_.substr(0, header + static_cast<size_t>(length));
    rest_.remove_prefix(whole.size());
    return true;
  }
  bool next_sequence() { return next() && is_universal && tag == V_ASN1_SEQUENCE; }

  int tag = 0;
  bool is_universal = false;
  std::string_view content;
  std::string_view whole;

 private:
  std::string_view rest_;
};

// RFC 5280 section 4.1: version [0], serialNumber, signature, issuer, validity, subject, ...
std::unique_ptr<X509_NAME, NameDeleter> subject_of(std::string_view der) {
  Elements certificate(der);
  if (!certificate.next_sequence()) return nullptr;
  Elements inner(certificate.content);
  if (!inner.next_sequence()) return nullptr;
  Elements fields(inner.content);
  if (!fields.next()) return nullptr;
  if (!fields.is_universal && !fields.next()) return nullptr;  // a certificate of version 1 has no version
  for (int field = 0; field < 4; ++field) {
    if (!fields.next_sequence()) return nullptr;
  }
  const auto* in = reinterpret_cast<const unsigned char*>(fields.whole.data());
  return std::unique_ptr<X509_NAME, NameDeleter>(d2i_X509_NAME(nullptr, &in, static_cast<long>(fields.whole.size())));
}

struct MethodDeleter {
  void operator()(X509_LOOKUP_METHOD* method) const { X509_LOOKUP_meth_free(method); }
};

}  // namespace

struct RootStore::Index {
  // By X509_NAME_hash_ex: of the canonical form, so that an issuer that is spelled otherwise is found.
  std::unordered_multimap<unsigned long, std::string_view> blocks;
  std::unique_ptr<X509_LOOKUP_METHOD, MethodDeleter> method;
};

RootStore::RootStore(std::string pem) : pem_(std::move(pem)), index_(std::make_unique<Index>()) {}

RootStore::~RootStore() = default;

Result<std::unique_ptr<RootStore>> RootStore::create(std::string pem) {
  std::unique_ptr<RootStore> roots(new RootStore(std::move(pem)));
  std::string_view rest = roots->pem_;
  while (const auto block = next_block(rest)) {
    const auto der = decode_block(*block);
    if (der && decode_certificate(*der) != nullptr) return roots;
  }
  ERR_clear_error();
  return Error("trust store has no certificate");
}

Result<void> RootStore::serve(X509_STORE* store) {
  index_->method.reset(X509_LOOKUP_meth_new("leash roots"));
  if (index_->method == nullptr || X509_LOOKUP_meth_set_get_by_subject(index_->method.get(), find) != 1) {
    return Error("trust store: " + openssl_error());
  }
  X509_LOOKUP* const lookup = X509_STORE_add_lookup(store, index_->method.get());
  if (lookup == nullptr || X509_LOOKUP_set_method_data(lookup, this) != 1) return Error("trust store: " + openssl_error());
  return {};
}

int RootStore::find(X509_LOOKUP* lookup, X509_LOOKUP_TYPE type, const X509_NAME* name, X509_OBJECT* found) {
  if (type != X509_LU_X509) return 0;
  auto* const self = static_cast<RootStore*>(X509_LOOKUP_get_method_data(lookup));
  return self->find(X509_LOOKUP_get_store(lookup), name, found);
}

int RootStore::find(X509_STORE* store, const X509_NAME* name, X509_OBJECT* found) {
  if (index_->blocks.empty()) {
    std::string_view rest = pem_;
    while (const auto block = next_block(rest)) {
      const auto der = decode_block(*block);
      if (!der) continue;
      const auto subject = subject_of(*der);
      if (subject != nullptr) index_->blocks.emplace(X509_NAME_hash_ex(subject.get(), nullptr, nullptr, nullptr), *block);
    }
    ERR_clear_error();
  }
  bool is_found = false;
  const auto [first, last] = index_->blocks.equal_range(X509_NAME_hash_ex(name, nullptr, nullptr, nullptr));
  for (auto entry = first; entry != last; ++entry) {
    const auto der = decode_block(entry->second);
    if (!der) continue;
    const Certificate certificate = decode_certificate(*der);
    if (certificate == nullptr || X509_NAME_cmp(X509_get_subject_name(certificate.get()), name) != 0) continue;
    // All of the name: the verifier goes on with what the store holds.
    if (X509_STORE_add_cert(store, certificate.get()) != 1) continue;
    if (is_found || X509_OBJECT_set1_X509(found, certificate.get()) != 1) continue;
    // The verifier takes a reference of its own to what it is handed (x509_lu.c); the store has one.
    X509_free(certificate.get());
    is_found = true;
  }
  ERR_clear_error();
  return is_found ? 1 : 0;
}

}  // namespace leash::proxy
