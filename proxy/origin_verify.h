// How an origin proves that it is who its name says, and the words for when it does not. Nothing is
// vouched for by a leaf of ours before this has passed, and there is no switch to do without.
#pragma once

#include <openssl/ssl.h>

#include <string>
#include <string_view>

#include "base/result.h"

namespace leash::proxy {

// Strict chains, security level 2 (no SHA-1, no short keys), TLS 1.2 and up.
[[nodiscard]] Result<void> require_verification(SSL_CTX* context);

// The name, DNS or address literal, that the certificate must be for.
[[nodiscard]] Result<void> expect_origin(SSL* ssl, const std::string& name);

// After a failed handshake: why the certificate was refused, or empty if it was not the certificate.
[[nodiscard]] std::string certificate_problem(SSL* ssl);

}  // namespace leash::proxy
