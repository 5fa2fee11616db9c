// The policy file (POLICY in the manual): what a leashed container may do, parsed and validated.
//
// A file is accepted whole or not at all: an unknown key, a wrong type, an empty host, a bad regex is
// an error "file:line:column: ...". A key whose enforcement this version does not have is an error
// too: enforcement never degrades in silence. What a Policy says is decided in rules.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "oci-spec/host_pattern.h"
#include "oci-spec/host_regex.h"
#include "oci-spec/url_path.h"

namespace leash::oci {

enum class PolicyMode { kEnforce, kObserve };

struct PolicyRule {
  HostPattern host;
  std::vector<uint16_t> ports;       // empty: 80 and 443 in `allow`, every port in `deny`
  std::vector<std::string> methods;  // empty: any known method
  std::vector<PathPattern> paths;    // empty: any path
  bool inspect = true;               // false: tunnelled, state `passed`
  int line = 0;
  std::string label;                 // "allow[2] github.com (policy.yaml:12)", the `rule` of a log line
};

struct IgnoredHost {
  HostRegex regex;
  int line = 0;
  std::string label;  // "ignore_hosts[0] pinned-api\.example\.com (policy.yaml:31)"
};

// A host that a secret may go to: the very host, or "*.name" for its subdomains. (Unlike a rule's host:
// whoever runs one subdomain should not be handed the key of all.)
[[nodiscard]] Result<HostPattern> parse_secret_host(std::string_view text);

struct PolicySecret {
  enum class Source { kContainer, kHostEnv, kFile, kCommand };

  std::string env;
  std::vector<HostPattern> hosts;
  std::vector<std::string> headers;  // lower case; empty: any header
  Source source = Source::kContainer;
  std::string source_name;           // kHostEnv: the variable; kFile: the path
  std::vector<std::string> command;  // kCommand
  bool exclusive = false;
  int line = 0;

  // `host` as normalise_host() gives it: whether the secret may go there.
  [[nodiscard]] bool is_for(std::string_view host) const;
};

struct DnsPolicy {
  std::vector<IpAddress> servers;  // empty: what the engine gave the container
  uint32_t rate_per_second = 50;
};

struct LogPolicy {
  uint32_t body_preview = 512;  // bytes
  std::string directory;        // empty: /var/lib/leash/<id>
  uint64_t max_size = uint64_t{64} << 20;
};

struct Policy {
  std::string source;  // path on the host, or "built-in"
  PolicyMode mode = PolicyMode::kEnforce;
  std::vector<PolicyRule> allow;
  std::vector<PolicyRule> deny;
  std::vector<IgnoredHost> ignore_hosts;
  bool allow_private = false;
  DnsPolicy dns;
  std::vector<PolicySecret> secrets;
  std::vector<std::string> syscalls_allow;  // names taken back out of the floor filter
  std::vector<std::string> syscalls_deny;
  std::vector<std::string> capabilities_allow;  // without CAP_, upper case
  LogPolicy log;
};

// `source` stands in front of the messages: "SOURCE:LINE:COLUMN: expected ...".
[[nodiscard]] Result<Policy> parse_policy(const std::string& source, std::string_view text);

// The policy of a container that nobody gave one: the hosts and keys of Claude Code, Codex, Gemini CLI
// and Grok, nothing else.
[[nodiscard]] std::string_view built_in_policy();
inline constexpr std::string_view kBuiltInSource = "built-in";

}  // namespace leash::oci
