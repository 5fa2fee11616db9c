// Whatever a file holds, parse_policy() says yes or "SOURCE:LINE:COLUMN: ..."; and whatever it accepted
// gives verdicts that hold together.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "oci-spec/rules.h"

namespace {

void require(bool claim) {
  if (!claim) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace leash::oci;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto policy = parse_policy("p.yaml", text);
  if (!policy) {
    require(policy.error().message().starts_with("p.yaml:"));
  } else {
    for (const char* host : {"ok.test", "a.b.ok.test", "10.0.0.1", "169.254.169.254", "evil.test"}) {
      RequestFacts facts;
      facts.method = "GET";
      facts.host = host;
      facts.port = 443;
      facts.target = "/a/b";
      const Verdict request = judge_request(*policy, facts);
      const Verdict name = judge_name(*policy, host);
      // What can be fetched can be resolved, and observe mode never blocks.
      require(!(request.allowed && !request.observed) || (name.allowed && !name.observed));
      require(policy->mode == PolicyMode::kEnforce ? !request.observed : request.allowed);
    }
  }

  // The same bytes as a host, a path, a pattern and a regex.
  const auto host = normalise_host(text);
  if (host) {
    const auto again = normalise_host(*host);
    require(again.has_value() && *again == *host);
  }
  const UrlPath path = normalise_path(text.substr(0, 2048));
  require(!path.path.empty() && path.path.front() == '/');
  const size_t half = text.size() / 2;
  if (const auto pattern = PathPattern::parse(text.substr(0, std::min<size_t>(half, 64)))) (void)pattern->matches(path.path);
  if (const auto regex = HostRegex::compile(text.substr(0, half))) (void)regex->matches("api.example.com", 443);
  return 0;
}
