#include "proxy/origin_verify.h"

#include <openssl/x509v3.h>

#include "oci-spec/ip_class.h"
#include "proxy/tls_stream.h"

namespace leash::proxy {

Result<void> require_verification(SSL_CTX* context) {
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_security_level(context, 2);
  if (SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1) return Error("tls version: " + openssl_error());
  X509_VERIFY_PARAM* const parameters = SSL_CTX_get0_param(context);
  // PARTIAL_CHAIN: an operator may trust an intermediate alone. TRUSTED_FIRST: a cross-signed chain
  // ends at our root, not at the expired one that the origin sent.
  if (X509_VERIFY_PARAM_set_flags(parameters,
                                  X509_V_FLAG_X509_STRICT | X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_TRUSTED_FIRST) != 1) {
    return Error("verify flags: " + openssl_error());
  }
  // Names are in subjectAltName; the common name has not counted since RFC 6125.
  X509_VERIFY_PARAM_set_hostflags(parameters, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
  return {};
}

Result<void> expect_origin(SSL* ssl, const std::string& name) {
  if (const auto address = oci::parse_ip(name)) {
    // No SNI for addresses, RFC 6066 section 3.
    if (X509_VERIFY_PARAM_set1_ip(SSL_get0_param(ssl), address->bytes.data(), address->is_ipv6 ? 16 : 4) != 1) {
      return Error("expect '" + name + "': " + openssl_error());
    }
    return {};
  }
  if (SSL_set1_host(ssl, name.c_str()) != 1 || SSL_set_tlsext_host_name(ssl, name.c_str()) != 1) {
    return Error("expect '" + name + "': " + openssl_error());
  }
  return {};
}

std::string certificate_problem(SSL* ssl) {
  const long result = SSL_get_verify_result(ssl);
  return result == X509_V_OK ? std::string() : X509_verify_cert_error_string(result);
}

}  // namespace leash::proxy
