// What a client is told instead of an answer: a whole HTTP response whose body a program and a
// language model can read, and an x-leash header.
#pragma once

#include <string>
#include <string_view>

#include "oci-spec/event.h"

namespace leash::proxy {

struct RefusalForm {
  int status = 403;
  bool close = false;      // the connection ends after it
  bool head_only = false;  // the answer to HEAD
};

// Policy has said no: {"error":"leash_blocked",...}.
[[nodiscard]] std::string refusal_response(const oci::Refusal& refusal, const RefusalForm& form);

// Policy has said yes and it failed: {"error":"leash_origin_error",...}. `detail` is the plain reason.
[[nodiscard]] std::string origin_error_response(std::string_view reason, std::string_view host,
                                                std::string_view detail, const RefusalForm& form);

}  // namespace leash::proxy
