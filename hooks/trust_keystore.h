// Java's trust stores: a certificate added to a cacerts file in the format that it already has.
//
// JKS (FE ED FE ED) is a list of entries under a keyed SHA-1 digest; PKCS#12 is what Java writes since
// 9, and since 18 its cacerts has neither password nor encryption. A store with another password than
// Java's well-known one is left alone: the error says so.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace leash::hooks {

[[nodiscard]] Result<std::string> add_to_keystore(std::string_view keystore, std::string_view certificate_pem);

}  // namespace leash::hooks
