// Substitution: placeholders in a request's headers become the real values, only towards the hosts of
// the secret and only over TLS. A placeholder on its way elsewhere is refused: it is worthless there,
// but somebody has tried. Pure code: says what to change, the exchange does it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "proxy/http1_head.h"
#include "proxy/secret_store.h"

namespace leash::proxy {

// Replace `length` bytes of the head at `offset` by `text`. Edits are in the order of their offsets.
struct Edit {
  size_t offset;
  size_t length;
  std::string text;
};

struct Substitution {
  std::string_view refused;  // a word of reasons.h, or empty
  std::string secret;        // refused: whose
  std::vector<Edit> edits;
  std::vector<std::string> names;  // of the secrets that are put in
};

[[nodiscard]] Substitution substitute(const RequestHead& head, std::string_view host, bool is_tls,
                                      const SecretStore& store);

}  // namespace leash::proxy
