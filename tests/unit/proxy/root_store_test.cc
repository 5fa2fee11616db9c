#include "proxy/root_store.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "proxy/leaf_mint.h"
#include "tests/unit/catch.h"

namespace leash::proxy {
namespace {

struct StoreDeleter {
  void operator()(X509_STORE* store) const { X509_STORE_free(store); }
};
struct StoreContextDeleter {
  void operator()(X509_STORE_CTX* context) const { X509_STORE_CTX_free(context); }
};

struct Authority {
  KeyPointer key = KeyPointer(EVP_EC_gen("P-256"));
  X509Pointer certificate;
};

void set_name(X509_NAME* name, const char* common_name, int kind) {
  X509_NAME_add_entry_by_NID(name, NID_commonName, kind, reinterpret_cast<const unsigned char*>(common_name), -1, -1, 0);
}

X509Pointer signed_certificate(EVP_PKEY* key, EVP_PKEY* issuer_key, const char* subject, const char* issuer, bool is_ca,
                               int issuer_kind = MBSTRING_ASC) {
  X509Pointer made(X509_new());
  X509_set_version(made.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(made.get()), 7);
  X509_gmtime_adj(X509_getm_notBefore(made.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(made.get()), 3600);
  set_name(X509_get_subject_name(made.get()), subject, MBSTRING_ASC);
  const std::unique_ptr<X509_NAME, decltype(&X509_NAME_free)> name(X509_NAME_new(), X509_NAME_free);
  set_name(name.get(), issuer, issuer_kind);
  X509_set_issuer_name(made.get(), name.get());
  X509_set_pubkey(made.get(), key);
  X509V3_CTX context = {};
  X509V3_set_ctx(&context, made.get(), made.get(), nullptr, nullptr, 0);
  X509_EXTENSION* const extension =
      X509V3_EXT_conf_nid(nullptr, &context, NID_basic_constraints, is_ca ? "critical,CA:TRUE" : "critical,CA:FALSE");
  X509_add_ext(made.get(), extension, -1);
  X509_EXTENSION_free(extension);
  X509_sign(made.get(), issuer_key, EVP_sha256());
  return made;
}

Authority authority(const char* name) {
  Authority made;
  made.certificate = signed_certificate(made.key.get(), made.key.get(), name, name, true);
  return made;
}

std::string pem_of(X509* certificate, bool is_trusted_form = false) {
  BIO* const bio = BIO_new(BIO_s_mem());
  if (is_trusted_form) PEM_write_bio_X509_AUX(bio, certificate);
  else PEM_write_bio_X509(bio, certificate);
  char* data = nullptr;
  const long length = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<size_t>(length));
  BIO_free(bio);
  return text;
}

int verify(X509_STORE* store, X509* leaf) {
  const std::unique_ptr<X509_STORE_CTX, StoreContextDeleter> context(X509_STORE_CTX_new());
  X509_STORE_CTX_init(context.get(), store, leaf, nullptr);
  X509_STORE_CTX_set_flags(context.get(), X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_TRUSTED_FIRST);
  X509_verify_cert(context.get());
  return X509_STORE_CTX_get_error(context.get());
}

struct House {
  explicit House(std::string pem) {
    auto made = RootStore::create(std::move(pem));
    REQUIRE(made.has_value());
    roots = std::move(made).value();
    const auto served = roots->serve(store.get());
    REQUIRE(served.has_value());
  }
  std::unique_ptr<RootStore> roots;
  std::unique_ptr<X509_STORE, StoreDeleter> store{X509_STORE_new()};
};

TEST_CASE("root store: a chain ends at its root among others, and at no root that is not there") {
  const Authority one = authority("one");
  const Authority two = authority("two");
  const Authority other = authority("other");
  const KeyPointer key(EVP_EC_gen("P-256"));
  House house(pem_of(one.certificate.get()) + "text between\n" + pem_of(two.certificate.get()));
  for (int round = 0; round < 3; ++round) {
    REQUIRE(verify(house.store.get(), signed_certificate(key.get(), two.key.get(), "leaf", "two", false).get()) == X509_V_OK);
    REQUIRE(verify(house.store.get(), signed_certificate(key.get(), other.key.get(), "leaf", "other", false).get()) ==
            X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY);
  }
}

TEST_CASE("root store: the name of a root does not do without its key") {
  const Authority real = authority("root");
  const Authority false_one = authority("root");
  const KeyPointer key(EVP_EC_gen("P-256"));
  House house(pem_of(real.certificate.get()));
  const int result = verify(house.store.get(), signed_certificate(key.get(), false_one.key.get(), "leaf", "root", false).get());
  REQUIRE(result == X509_V_ERR_CERT_SIGNATURE_FAILURE);
}

TEST_CASE("root store: an issuer that is spelled otherwise is the same name") {
  const Authority root = authority("Root  Of Trust");
  const KeyPointer key(EVP_EC_gen("P-256"));
  House house(pem_of(root.certificate.get()));
  const X509Pointer leaf = signed_certificate(key.get(), root.key.get(), "leaf", "root of trust", false, V_ASN1_UTF8STRING);
  REQUIRE(verify(house.store.get(), leaf.get()) == X509_V_OK);
}

TEST_CASE("root store: a trusted leaf needs no root, and the trusted form counts") {
  const Authority root = authority("root");
  const KeyPointer key(EVP_EC_gen("P-256"));
  const X509Pointer leaf = signed_certificate(key.get(), root.key.get(), "leaf", "root", false);
  House pinned(pem_of(leaf.get()));
  REQUIRE(verify(pinned.store.get(), leaf.get()) == X509_V_OK);
  House trusted(pem_of(root.certificate.get(), true));
  REQUIRE(verify(trusted.store.get(), leaf.get()) == X509_V_OK);
}

TEST_CASE("root store: a broken block is left out, a store without a certificate is an error") {
  const Authority root = authority("root");
  const KeyPointer key(EVP_EC_gen("P-256"));
  const std::string broken = "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIBBzAK\n-----END CERTIFICATE-----\n";
  House house(broken + pem_of(root.certificate.get()));
  REQUIRE(verify(house.store.get(), signed_certificate(key.get(), root.key.get(), "leaf", "root", false).get()) == X509_V_OK);
  REQUIRE_FALSE(RootStore::create(broken).has_value());
  REQUIRE_FALSE(RootStore::create("").has_value());
  REQUIRE_FALSE(RootStore::create("-----BEGIN CERTIFICATE-----").has_value());
}

}  // namespace
}  // namespace leash::proxy
