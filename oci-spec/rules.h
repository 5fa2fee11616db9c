// What a policy says about a name, a connection and a request: pure functions, no I/O, no state.
//
// deny wins over allow. Hosts are passed as normalise_host() gives them; what it refuses is refused
// with refuse(policy, reason::kAmbiguousHost). In observe mode a miss comes back as allowed, with
// `observed` set and the reason kept: nothing is ever "blocked" there.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "oci-spec/ip_class.h"
#include "oci-spec/policy.h"
#include "oci-spec/reasons.h"

namespace leash::oci {

struct Verdict {
  bool allowed = false;
  bool observed = false;  // allowed only because of observe mode: enforce would have blocked it
  bool inspect = true;    // false: pass the connection on as it is, state `passed`
  std::string_view reason;  // of reasons.h; empty if a rule allows it. Passed flows: see pass_reason
  std::string_view rule;    // the deciding rule's label (lives as long as the policy); empty if none
  std::string_view advice;  // of reasons.h
  std::string_view pass_reason;  // why not inspected: a word of namespace pass_reason
};

namespace pass_reason {
inline constexpr std::string_view kIgnoreHosts = "ignore_hosts";
inline constexpr std::string_view kInspectFalse = "inspect_false";
}  // namespace pass_reason

// For DNS: could any rule allow something at this name? deny rules for parts of a host (ports,
// methods, paths) do not hide its name.
[[nodiscard]] Verdict judge_name(const Policy& policy, std::string_view host);

// True if an allow rule names this very host or address (not just a parent domain).
[[nodiscard]] bool is_named(const Policy& policy, std::string_view host);

// The labels of an allowed `host` that no rule spells out: "a.b" of "a.b.ok.test" under the rule
// "ok.test". They are what a name under an allowed suffix can say to whoever runs its zone.
[[nodiscard]] std::string_view free_labels(const Policy& policy, std::string_view host);

// For an address that `host` resolved to, or that the client dialled (`host` is then the address):
// private, link-local and metadata addresses need a rule that names the host or the network, the
// latter two the address or network itself; loopback, multicast and 0/8 are never destinations
// (not even in observe mode: `allowed` is false there too, to be reported as a failed dial, not as
// `blocked`).
[[nodiscard]] Verdict judge_address(const Policy& policy, std::string_view host, const IpAddress& address);

// For a connection with a name (SNI or Host): may it be opened, and is it to be inspected?
[[nodiscard]] Verdict judge_connect(const Policy& policy, std::string_view host, uint16_t port);

// For a connection without a name (no SNI, or a port on which the first byte may be the server's):
// `address` is what the client dialled, `names` what DNS answered with this address before. Allowed by
// an `inspect: false` rule for one of the names, or by a rule for the address or network; *name is then
// the name (or address) to dial. To be asked before a byte is read: when it says `allowed` with
// `inspect` false, nothing of the connection needs to be parsed.
[[nodiscard]] Verdict judge_plain(const Policy& policy, std::span<const std::string> names,
                                  const IpAddress& address, uint16_t port, std::string* name);

struct RequestFacts {
  std::string_view method;  // as sent; methods are case-sensitive
  std::string_view host;    // normalised
  uint16_t port = 0;
  std::string_view target;  // path and query as sent
  bool is_upgrade = false;  // asks for another protocol: refused in this version; in observe mode to be
                            // sent on as a plain request
  std::string_view method_override;  // X-HTTP-Method-Override and kin; empty if absent
  bool overrides_path = false;       // X-Original-URL and kin: rules with paths cannot tell what is meant
};
[[nodiscard]] Verdict judge_request(const Policy& policy, const RequestFacts& facts);

// Is this 80, 443 or a port that an allow rule lists? If not, only `ignore_hosts` could let a connection
// pass, whose clients speak at once: one that stays silent there need not be waited for.
[[nodiscard]] bool is_ruled_port(const Policy& policy, uint16_t port);

// A refusal that no rule is behind (mismatching names, unknown protocol ...). In observe mode
// allowed and observed, as everything is.
[[nodiscard]] Verdict refuse(const Policy& policy, std::string_view reason_word);

// For ProxySecret::hosts: may the secret go to `host`? (See parse_secret_host.)
[[nodiscard]] bool is_secret_for(const std::vector<std::string>& hosts, std::string_view host);

// GET HEAD POST PUT DELETE PATCH OPTIONS: a method outside this list needs a rule that lists it.
[[nodiscard]] bool is_known_method(std::string_view method);

}  // namespace leash::oci
