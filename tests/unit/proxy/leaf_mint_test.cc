#include "proxy/leaf_mint.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "proxy/origin_verify.h"
#include "tests/unit/catch.h"

namespace leash::proxy {
namespace {

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long length = BIO_get_mem_data(bio, &data);
  return {data, static_cast<size_t>(length)};
}

struct Authority {
  std::string certificate;
  std::string key;
};

Authority authority() {
  const KeyPointer key(EVP_EC_gen("P-256"));
  const X509Pointer ca(X509_new());
  X509_set_version(ca.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(ca.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(ca.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(ca.get()), 3600L * 24 * 90);
  X509_NAME* const name = X509_get_subject_name(ca.get());
  X509_NAME_add_entry_by_NID(name, NID_commonName, MBSTRING_ASC, reinterpret_cast<const unsigned char*>("test ca"), -1, -1, 0);
  X509_set_issuer_name(ca.get(), name);
  X509_set_pubkey(ca.get(), key.get());
  X509V3_CTX context = {};
  X509V3_set_ctx(&context, ca.get(), ca.get(), nullptr, nullptr, 0);
  const std::pair<int, const char*> items[] = {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                                               {NID_key_usage, "critical,keyCertSign"},
                                               {NID_subject_key_identifier, "hash"}};
  for (const auto& [nid, value] : items) {
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value);
    X509_add_ext(ca.get(), extension, -1);
    X509_EXTENSION_free(extension);
  }
  X509_sign(ca.get(), key.get(), EVP_sha256());
  Authority made;
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(bio, ca.get());
  made.certificate = text_of(bio);
  BIO_free(bio);
  bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  made.key = text_of(bio);
  BIO_free(bio);
  return made;
}

// As a strict client verifies: OpenSSL's -x509_strict is what Python 3.13 sets.
int verify(X509* ca, X509* leaf, const char* host) {
  X509_STORE* const store = X509_STORE_new();
  X509_STORE_add_cert(store, ca);
  X509_STORE_CTX* const context = X509_STORE_CTX_new();
  X509_STORE_CTX_init(context, store, leaf, nullptr);
  X509_VERIFY_PARAM* const parameters = X509_STORE_CTX_get0_param(context);
  X509_VERIFY_PARAM_set_flags(parameters, X509_V_FLAG_X509_STRICT);
  X509_VERIFY_PARAM_set_purpose(parameters, X509_PURPOSE_SSL_SERVER);
  X509_VERIFY_PARAM_set_auth_level(parameters, 2);
  X509_VERIFY_PARAM_set_hostflags(parameters, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
  if (X509_VERIFY_PARAM_set1_ip_asc(parameters, host) != 1) X509_VERIFY_PARAM_set1_host(parameters, host, 0);
  (void)X509_verify_cert(context);
  const int error = X509_STORE_CTX_get_error(context);
  X509_STORE_CTX_free(context);
  X509_STORE_free(store);
  return error;
}

}  // namespace

TEST_CASE("leaf_mint: leaves pass strict verification for their name alone") {
  const Authority ca = authority();
  Result<std::unique_ptr<LeafMint>> mint = LeafMint::create(ca.certificate, ca.key);
  REQUIRE(mint);
  const std::string long_name = std::string(60, 'a') + "." + std::string(60, 'b') + ".test";
  for (const std::string& name : {std::string("ok.test"), std::string("203.0.113.9"), std::string("2001:db8::1"), long_name}) {
    INFO(name);
    const Result<X509*> leaf = (*mint)->leaf(name);
    REQUIRE(leaf);
    CHECK(verify((*mint)->ca(), *leaf, name.c_str()) == X509_V_OK);
    CHECK(verify((*mint)->ca(), *leaf, "other.test") != X509_V_OK);
  }
}

TEST_CASE("leaf_mint: a leaf is minted once and serials differ") {
  const Authority ca = authority();
  Result<std::unique_ptr<LeafMint>> mint = LeafMint::create(ca.certificate, ca.key);
  REQUIRE(mint);
  const Result<X509*> first = (*mint)->leaf("a.test");
  const Result<X509*> again = (*mint)->leaf("a.test");
  const Result<X509*> other = (*mint)->leaf("b.test");
  REQUIRE(first);
  REQUIRE(again);
  REQUIRE(other);
  CHECK(*first == *again);
  CHECK(ASN1_INTEGER_cmp(X509_get0_serialNumber(*first), X509_get0_serialNumber(*other)) != 0);
}

TEST_CASE("leaf_mint: a key that is not the CA's is refused") {
  CHECK_FALSE(LeafMint::create(authority().certificate, authority().key));
  CHECK_FALSE(LeafMint::create("", ""));
}

}  // namespace leash::proxy
