// The ClientHello, read before OpenSSL sees it: who is meant (SNI), what is spoken (ALPN), and whether
// this is TLS at all decide what becomes of the connection. Pure code over the bytes so far, in
// whatever TCP segments and TLS records they came (RFC 8446 sections 4.1.2, 5.1; RFC 6066 section 3).
//
// What cannot be parsed is refused, never passed: a hello that we read differently from the origin
// would be a way around the policy.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace leash::proxy {

struct ClientHello {
  std::string server_name;         // as sent; empty if the extension is absent
  std::vector<std::string> alpn;   // in the client's order; empty if the extension is absent
  bool has_encrypted_hello = false;  // ECH (0xfe0d): server_name is then the outer name
  uint16_t legacy_version = 0;
};

enum class HelloStatus { kIncomplete, kComplete, kMalformed };

// The largest hello that is read, records included. Post-quantum key shares make 2 KB usual.
inline constexpr size_t kMaxHelloBytes = size_t{32} << 10;

// `bytes`: all that the client has sent so far. `hello` is filled when the hello is complete.
[[nodiscard]] HelloStatus parse_client_hello(std::string_view bytes, ClientHello& hello);

}  // namespace leash::proxy
