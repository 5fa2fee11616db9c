// Documents of the runtime specification with bytes from anywhere: config.json is written by an engine, but
// a bundle may come from an image, and process.json and resources come on stdin. A parser either refuses
// with one line or gives a document that all validators can look at.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "oci-spec/config.h"
#include "oci-spec/state.h"

namespace {

template <class T>
void expect_one_line(const leash::Result<T>& result) {
  if (result) return;
  const std::string& text = result.error().message();
  if (text.empty() || text.find('\n') != std::string::npos) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace leash;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<oci::Config> config = oci::parse_config(text);
  expect_one_line(config);
  if (config) expect_one_line(oci::validate_for_create(*config));
  const Result<oci::Process> process = oci::parse_process(text);
  expect_one_line(process);
  if (process) expect_one_line(oci::validate_process(*process));
  expect_one_line(oci::parse_resources(text));
  expect_one_line(oci::redact_environment(text));
  const Result<oci::State> state = oci::parse_state(text);
  expect_one_line(state);
  // What was parsed can be printed, and the print is understood again.
  if (state && !oci::parse_state(oci::print(*state))) std::abort();
  const Result<oci::ContainerRecord> record = oci::parse_container_record(text);
  if (record && !oci::parse_container_record(oci::print(*record))) std::abort();
  return 0;
}
