// Owners for the OpenSSL objects of leash_trust, and its errors as ours.
#pragma once

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/evp.h>
#include <openssl/pkcs12.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace leash::hooks {

template <auto kFree>
struct Release {
  template <class T>
  void operator()(T* object) const {
    kFree(object);
  }
};

using BignumPtr = std::unique_ptr<BIGNUM, Release<&BN_free>>;
using BioPtr = std::unique_ptr<BIO, Release<&BIO_free_all>>;
using PkeyPtr = std::unique_ptr<EVP_PKEY, Release<&EVP_PKEY_free>>;
using X509Ptr = std::unique_ptr<X509, Release<&X509_free>>;
using BasicConstraintsPtr = std::unique_ptr<BASIC_CONSTRAINTS, Release<&BASIC_CONSTRAINTS_free>>;
using BitStringPtr = std::unique_ptr<ASN1_BIT_STRING, Release<&ASN1_BIT_STRING_free>>;
using OctetStringPtr = std::unique_ptr<ASN1_OCTET_STRING, Release<&ASN1_OCTET_STRING_free>>;
using Pkcs12Ptr = std::unique_ptr<PKCS12, Release<&PKCS12_free>>;

// "<what>: <OpenSSL's reason>"; empties OpenSSL's error queue.
[[nodiscard]] Error openssl_error(std::string_view what);

[[nodiscard]] std::string bio_text(BIO* bio);

// The first certificate of a PEM text.
[[nodiscard]] Result<X509Ptr> parse_certificate(std::string_view pem);
[[nodiscard]] Result<std::string> certificate_der(const X509* certificate);

}  // namespace leash::hooks
