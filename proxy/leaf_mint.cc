#include "proxy/leaf_mint.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <array>
#include <ctime>
#include <vector>

#include "oci-spec/ip_class.h"
#include "proxy/tls_stream.h"

namespace leash::proxy {

namespace {

constexpr long kBackdated = 24L * 3600;        // clocks of containers and hosts differ
constexpr long kLifetime = 30L * 24 * 3600;
constexpr long kRenewBefore = 2L * 24 * 3600;

Error failed(std::string_view what) { return Error(std::string(what) + ": " + openssl_error()); }

struct BioDeleter {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
using BioPointer = std::unique_ptr<BIO, BioDeleter>;

BioPointer reader(std::string_view pem) { return BioPointer(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()))); }

struct ExtensionDeleter {
  void operator()(X509_EXTENSION* extension) const { X509_EXTENSION_free(extension); }
};
using ExtensionPointer = std::unique_ptr<X509_EXTENSION, ExtensionDeleter>;

struct NamesDeleter {
  void operator()(GENERAL_NAMES* names) const { GENERAL_NAMES_free(names); }
};

// subjectAltName alone, as the DNS name or the address.
ExtensionPointer alternative_name(const std::string& name) {
  const std::unique_ptr<GENERAL_NAMES, NamesDeleter> names(sk_GENERAL_NAME_new_null());
  GENERAL_NAME* const entry = GENERAL_NAME_new();
  if (names == nullptr || entry == nullptr || sk_GENERAL_NAME_push(names.get(), entry) == 0) {
    GENERAL_NAME_free(entry);
    return nullptr;
  }
  ASN1_STRING* value = nullptr;
  if (const auto address = oci::parse_ip(name)) {
    value = ASN1_OCTET_STRING_new();
    if (value == nullptr || ASN1_STRING_set(value, address->bytes.data(), address->is_ipv6 ? 16 : 4) == 0) return nullptr;
    GENERAL_NAME_set0_value(entry, GEN_IPADD, value);
  } else {
    value = ASN1_IA5STRING_new();
    if (value == nullptr || ASN1_STRING_set(value, name.data(), static_cast<int>(name.size())) == 0) return nullptr;
    GENERAL_NAME_set0_value(entry, GEN_DNS, value);
  }
  // Critical only if the subject is empty (RFC 5280 section 4.2.1.6); ours may be.
  return ExtensionPointer(X509V3_EXT_i2d(NID_subject_alt_name, name.size() > 64 ? 1 : 0, names.get()));
}

}  // namespace

// Those that are the same in every leaf.
struct LeafMint::Extensions {
  std::vector<ExtensionPointer> list;
};

LeafMint::LeafMint() : extensions_(std::make_unique<Extensions>()) {}
LeafMint::~LeafMint() = default;

Result<std::unique_ptr<LeafMint>> LeafMint::create(std::string_view ca_pem, std::string_view ca_key_pem) {
  std::unique_ptr<LeafMint> mint(new LeafMint());
  const BioPointer certificate = reader(ca_pem);
  mint->ca_.reset(PEM_read_bio_X509(certificate.get(), nullptr, nullptr, nullptr));
  if (mint->ca_ == nullptr) return failed("ca certificate");
  const BioPointer key = reader(ca_key_pem);
  mint->ca_key_.reset(PEM_read_bio_PrivateKey(key.get(), nullptr, nullptr, nullptr));
  if (mint->ca_key_ == nullptr) return failed("ca key");
  if (X509_check_private_key(mint->ca_.get(), mint->ca_key_.get()) != 1) return failed("ca key");
  mint->leaf_key_.reset(EVP_EC_gen("P-256"));
  if (mint->leaf_key_ == nullptr) return failed("leaf key");
  TRY_VOID(mint->prepare());
  return mint;
}

Result<void> LeafMint::prepare() {
  X509Pointer subject(X509_new());
  if (subject == nullptr || X509_set_pubkey(subject.get(), leaf_key_.get()) != 1) return failed("leaf");
  X509V3_CTX context = {};
  X509V3_set_ctx(&context, ca_.get(), subject.get(), nullptr, nullptr, 0);
  struct Item {
    int nid;
    const char* text;
  };
  constexpr std::array<Item, 5> kItems = {{{NID_basic_constraints, "critical,CA:FALSE"},
                                           {NID_key_usage, "critical,digitalSignature"},
                                           {NID_ext_key_usage, "serverAuth"},
                                           {NID_subject_key_identifier, "hash"},
                                           {NID_authority_key_identifier, "keyid:always"}}};
  for (const Item& item : kItems) {
    ExtensionPointer extension(X509V3_EXT_conf_nid(nullptr, &context, item.nid, item.text));
    if (extension == nullptr) return failed("leaf extension");
    extensions_->list.push_back(std::move(extension));
  }
  return {};
}

Result<X509Pointer> LeafMint::mint(const std::string& name) const {
  X509Pointer leaf(X509_new());
  std::array<uint8_t, 16> serial{};
  if (leaf == nullptr || RAND_bytes(serial.data(), static_cast<int>(serial.size())) != 1) return failed("leaf");
  serial[0] = static_cast<uint8_t>((serial[0] & 0x7f) | 0x40);  // positive, always 16 bytes
  const std::unique_ptr<BIGNUM, decltype(&BN_free)> number(BN_bin2bn(serial.data(), static_cast<int>(serial.size()), nullptr),
                                                           &BN_free);
  bool made = number != nullptr && X509_set_version(leaf.get(), X509_VERSION_3) == 1 &&
              BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(leaf.get())) != nullptr &&
              X509_gmtime_adj(X509_getm_notBefore(leaf.get()), -kBackdated) != nullptr &&
              X509_gmtime_adj(X509_getm_notAfter(leaf.get()), kLifetime) != nullptr &&
              X509_set_issuer_name(leaf.get(), X509_get_subject_name(ca_.get())) == 1 &&
              X509_set_pubkey(leaf.get(), leaf_key_.get()) == 1;
  // A common name has at most 64 characters; the name that counts is the alternative one.
  if (made && name.size() <= 64) {
    made = X509_NAME_add_entry_by_NID(X509_get_subject_name(leaf.get()), NID_commonName, MBSTRING_ASC,
                                      reinterpret_cast<const uint8_t*>(name.data()), static_cast<int>(name.size()), -1,
                                      0) == 1;
  }
  for (const ExtensionPointer& extension : extensions_->list) {
    made = made && X509_add_ext(leaf.get(), extension.get(), -1) == 1;
  }
  const ExtensionPointer names = alternative_name(name);
  made = made && names != nullptr && X509_add_ext(leaf.get(), names.get(), -1) == 1;
  if (!made || X509_sign(leaf.get(), ca_key_.get(), EVP_sha256()) == 0) return failed("leaf for '" + name + "'");
  return leaf;
}

Result<X509*> LeafMint::leaf(const std::string& name) {
  const int64_t now = std::time(nullptr);
  const auto found = leaves_.find(name);
  if (found != leaves_.end() && now < found->second.renew_at) {
    by_age_.splice(by_age_.end(), by_age_, found->second.age);
    return found->second.certificate.get();
  }
  TRY(X509Pointer certificate, mint(name));
  X509* const made = certificate.get();
  const int64_t renew_at = now + kLifetime - kRenewBefore;
  if (found != leaves_.end()) {
    found->second.certificate = std::move(certificate);
    found->second.renew_at = renew_at;
    return made;
  }
  if (leaves_.size() >= kMaxLeaves) {
    leaves_.erase(by_age_.front());
    by_age_.pop_front();
  }
  by_age_.push_back(name);
  leaves_.emplace(name, Entry{std::move(certificate), renew_at, std::prev(by_age_.end())});
  return made;
}

}  // namespace leash::proxy
