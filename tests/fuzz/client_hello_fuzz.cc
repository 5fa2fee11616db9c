// Whatever the container sends first is read within its bounds, and the verdict on it does not depend on
// how it was cut: no beginning of a good hello is bad, no continuation makes a bad one good.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "proxy/client_hello.h"

namespace {

void require(bool claim) {
  if (!claim) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace leash::proxy;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  ClientHello whole;
  const HelloStatus status = parse_client_hello(bytes, whole);
  for (size_t length = 0; length < size; length += 1 + size / 64) {
    ClientHello part;
    const HelloStatus before = parse_client_hello(bytes.substr(0, length), part);
    if (before == HelloStatus::kMalformed) require(status == HelloStatus::kMalformed);
    if (before == HelloStatus::kComplete) require(status == HelloStatus::kComplete && part.server_name == whole.server_name);
    if (before == HelloStatus::kIncomplete && status == HelloStatus::kIncomplete) require(part.server_name.empty());
  }
  return 0;
}
