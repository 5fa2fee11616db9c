#include "oci-spec/rules.h"

#include <algorithm>
#include <array>

namespace leash::oci {
namespace {

constexpr std::array<std::string_view, 7> kKnownMethods = {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"};

Verdict allow(std::string_view rule) {
  Verdict verdict;
  verdict.allowed = true;
  verdict.rule = rule;
  return verdict;
}

Verdict miss(const Policy& policy, std::string_view reason_word, std::string_view rule = {}) {
  Verdict verdict;
  verdict.reason = reason_word;
  verdict.rule = rule;
  if (const ReasonWord* entry = find_reason(reason_word)) verdict.advice = entry->advice;
  verdict.allowed = verdict.observed = policy.mode == PolicyMode::kObserve;
  return verdict;
}

bool is_narrowed(const PolicyRule& rule) { return !rule.methods.empty() || !rule.paths.empty(); }

bool covers_port(const PolicyRule& rule, uint16_t port, bool is_deny) {
  if (rule.ports.empty()) return is_deny || port == 80 || port == 443;
  return std::find(rule.ports.begin(), rule.ports.end(), port) != rule.ports.end();
}

// A deny rule for the host (and port) as a whole; nullptr if none. Without `port`: any port.
const PolicyRule* denying_rule(const Policy& policy, std::string_view host, const uint16_t* port) {
  for (const PolicyRule& rule : policy.deny) {
    if (is_narrowed(rule) || !rule.host.matches(host)) continue;
    if (port == nullptr ? rule.ports.empty() : covers_port(rule, *port, true)) return &rule;
  }
  return nullptr;
}

const PolicyRule* narrowed_deny(const Policy& policy, std::string_view host, uint16_t port) {
  for (const PolicyRule& rule : policy.deny) {
    if (is_narrowed(rule) && rule.host.matches(host) && covers_port(rule, port, true)) return &rule;
  }
  return nullptr;
}

const IgnoredHost* ignoring_rule(const Policy& policy, std::string_view host, uint16_t port) {
  for (const IgnoredHost& ignored : policy.ignore_hosts) {
    if (ignored.regex.matches(host, port)) return &ignored;
  }
  return nullptr;
}

// Which of two rules for a host decides whether it is inspected: the one that says more about it.
size_t specificity(const PolicyRule& rule, std::string_view host) {
  return rule.host.names(host) ? SIZE_MAX : rule.host.text().size();
}

bool is_public(const IpAddress& address) { return classify(address) == IpClass::kPublic; }

// The reason for a host that no rule names: an address that is not public gets the better word.
std::string_view unknown_host_reason(std::string_view host) {
  const auto address = parse_ip(host);
  return address && !is_public(*address) ? reason::kPrivateAddress : reason::kHostNotAllowed;
}

bool lists_method(const PolicyRule& rule, std::string_view method) {
  if (rule.methods.empty()) return is_known_method(method);
  return std::find(rule.methods.begin(), rule.methods.end(), method) != rule.methods.end();
}

bool lists_path(const PolicyRule& rule, std::string_view path, bool ignore_case) {
  return rule.paths.empty() || std::any_of(rule.paths.begin(), rule.paths.end(), [&](const PathPattern& pattern) {
           return pattern.matches(path, ignore_case);
         });
}

// A deny rule's methods: also in other letters, since some origins read them so.
bool denies_method(const PolicyRule& rule, std::string_view method) {
  const auto equal = [](char a, char b) { return a == (b >= 'a' && b <= 'z' ? static_cast<char>(b - 'a' + 'A') : b); };
  return rule.methods.empty() || std::any_of(rule.methods.begin(), rule.methods.end(), [&](const std::string& listed) {
           return std::equal(listed.begin(), listed.end(), method.begin(), method.end(), equal);
         });
}

// One method's verdict; judge_request() asks for the method and for its override.
Verdict judge_method_and_path(const Policy& policy, const RequestFacts& facts, std::string_view method,
                              const UrlPath& path) {
  const bool is_ambiguous = !path.ambiguity.empty();
  for (const PolicyRule& rule : policy.deny) {
    if (!rule.host.matches(facts.host) || !covers_port(rule, facts.port, true) || !denies_method(rule, method)) continue;
    if (!rule.paths.empty() && is_ambiguous) return miss(policy, reason::kAmbiguousPath, rule.label);
    if (!lists_path(rule, path.path, true)) continue;
    if (!is_narrowed(rule)) return miss(policy, reason::kHostDenied, rule.label);
    return miss(policy, rule.paths.empty() ? reason::kMethodNotAllowed : reason::kPathNotAllowed, rule.label);
  }

  // The closest miss names its rule, so that a person sees what to change.
  enum class Closest { kNothing, kPort, kMethod, kAmbiguous, kPath };
  Closest closest = Closest::kNothing;
  const PolicyRule* closest_rule = nullptr;
  const auto note = [&](Closest what, const PolicyRule& rule) {
    if (what <= closest) return;
    closest = what;
    closest_rule = &rule;
  };
  for (const PolicyRule& rule : policy.allow) {
    if (!rule.host.matches(facts.host)) continue;
    if (!covers_port(rule, facts.port, false)) note(Closest::kPort, rule);
    else if (!lists_method(rule, method)) note(Closest::kMethod, rule);
    else if (!rule.paths.empty() && is_ambiguous) note(Closest::kAmbiguous, rule);
    else if (!lists_path(rule, path.path, false)) note(Closest::kPath, rule);
    else return allow(rule.label);
  }
  switch (closest) {
    case Closest::kNothing: return miss(policy, unknown_host_reason(facts.host));
    case Closest::kPort: return miss(policy, reason::kPortNotAllowed, closest_rule->label);
    case Closest::kMethod: return miss(policy, reason::kMethodNotAllowed, closest_rule->label);
    case Closest::kAmbiguous: return miss(policy, reason::kAmbiguousPath, closest_rule->label);
    case Closest::kPath: return miss(policy, reason::kPathNotAllowed, closest_rule->label);
  }
  return miss(policy, reason::kHostNotAllowed);
}

}  // namespace

bool is_known_method(std::string_view method) {
  return std::find(kKnownMethods.begin(), kKnownMethods.end(), method) != kKnownMethods.end();
}

Verdict refuse(const Policy& policy, std::string_view reason_word) { return miss(policy, reason_word); }

Verdict judge_name(const Policy& policy, std::string_view host) {
  if (const PolicyRule* rule = denying_rule(policy, host, nullptr)) return miss(policy, reason::kHostDenied, rule->label);
  const PolicyRule* best = nullptr;
  for (const PolicyRule& rule : policy.allow) {
    if (!rule.host.matches(host)) continue;
    if (best == nullptr || specificity(rule, host) > specificity(*best, host)) best = &rule;
  }
  if (best != nullptr) return allow(best->label);
  if (const IgnoredHost* ignored = ignoring_rule(policy, host, 443)) return allow(ignored->label);
  return miss(policy, unknown_host_reason(host));
}

bool is_named(const Policy& policy, std::string_view host) {
  return std::any_of(policy.allow.begin(), policy.allow.end(),
                     [&](const PolicyRule& rule) { return rule.host.names(host); });
}

std::string_view free_labels(const Policy& policy, std::string_view host) {
  // A name that only a regex allows: its last two labels are taken for the zone.
  size_t zone = host.rfind('.');
  if (zone != std::string_view::npos && zone > 0) zone = host.rfind('.', zone - 1);
  std::string_view least = zone == std::string_view::npos ? std::string_view() : host.substr(0, zone);
  bool is_covered = false;
  for (const PolicyRule& rule : policy.allow) {
    if (!rule.host.matches(host)) continue;
    const std::string_view labels = rule.host.labels_before(host);
    if (!is_covered || labels.size() < least.size()) least = labels;
    is_covered = true;
  }
  return least;
}

Verdict judge_address(const Policy& policy, std::string_view host, const IpAddress& address) {
  if (is_never_destination(address)) {
    Verdict verdict = miss(policy, reason::kPrivateAddress);
    verdict.allowed = verdict.observed = false;
    return verdict;
  }
  for (const PolicyRule& rule : policy.deny) {
    if (!is_narrowed(rule) && rule.ports.empty() && rule.host.matches(address)) {
      return miss(policy, reason::kHostDenied, rule.label);
    }
  }
  const IpClass ip_class = classify(address);
  if (ip_class == IpClass::kPublic || policy.allow_private) return allow({});
  for (const PolicyRule& rule : policy.allow) {
    if (rule.host.matches(address)) return allow(rule.label);
  }
  // A name is in the hands of whoever runs its zone: it may lead into a private network that the rule's
  // author had in mind, but never to the credentials of the machine itself.
  if (ip_class == IpClass::kPrivate) {
    for (const PolicyRule& rule : policy.allow) {
      if (!rule.host.is_network() && rule.host.names(host)) return allow(rule.label);
    }
  }
  return miss(policy, reason::kPrivateAddress);
}

Verdict judge_connect(const Policy& policy, std::string_view host, uint16_t port) {
  if (const PolicyRule* rule = denying_rule(policy, host, &port)) return miss(policy, reason::kHostDenied, rule->label);

  const PolicyRule* best = nullptr;
  const PolicyRule* other_port = nullptr;
  bool is_wholly_allowed = false;  // by a rule without methods or paths
  for (const PolicyRule& rule : policy.allow) {
    if (!rule.host.matches(host)) continue;
    if (!covers_port(rule, port, false)) {
      other_port = &rule;
      continue;
    }
    is_wholly_allowed = is_wholly_allowed || !is_narrowed(rule);
    if (best == nullptr || specificity(rule, host) > specificity(*best, host)) best = &rule;
  }

  const IgnoredHost* ignored = ignoring_rule(policy, host, port);
  if (ignored != nullptr || (best != nullptr && !best->inspect)) {
    // A tunnel cannot be judged by method and path: what is only allowed or denied in part is refused.
    if (const PolicyRule* deny = narrowed_deny(policy, host, port)) return miss(policy, reason::kNeedsInspection, deny->label);
    if (best != nullptr && !is_wholly_allowed) return miss(policy, reason::kNeedsInspection, best->label);
    Verdict verdict = allow(ignored != nullptr ? std::string_view(ignored->label) : std::string_view(best->label));
    verdict.inspect = false;
    verdict.pass_reason = ignored != nullptr ? pass_reason::kIgnoreHosts : pass_reason::kInspectFalse;
    return verdict;
  }
  if (best != nullptr) return allow(best->label);
  if (other_port != nullptr) return miss(policy, reason::kPortNotAllowed, other_port->label);
  return miss(policy, unknown_host_reason(host));
}

bool is_ruled_port(const Policy& policy, uint16_t port) {
  if (port == 80 || port == 443) return true;
  return std::any_of(policy.allow.begin(), policy.allow.end(),
                     [port](const PolicyRule& rule) { return covers_port(rule, port, false); });
}

Verdict judge_plain(const Policy& policy, std::span<const std::string> names, const IpAddress& address, uint16_t port,
                    std::string* name) {
  const std::string address_text = print(unmapped(address));
  name->clear();
  const PolicyRule* other_port = nullptr;
  const PolicyRule* denied = denying_rule(policy, address_text, &port);
  if (denied != nullptr) return miss(policy, reason::kHostDenied, denied->label);

  for (const std::string& candidate : names) {
    if (const PolicyRule* deny = denying_rule(policy, candidate, &port)) {
      denied = deny;
      continue;
    }
    const Verdict verdict = judge_connect(policy, candidate, port);
    // ignore_hosts is for TLS: its host must come from the SNI, not from an address that others share.
    if (verdict.allowed && !verdict.inspect && verdict.pass_reason == pass_reason::kInspectFalse) {
      *name = candidate;
      return verdict;
    }
  }
  for (const PolicyRule& rule : policy.allow) {
    if (!rule.host.matches(address)) continue;
    if (!covers_port(rule, port, false)) {
      other_port = &rule;
      continue;
    }
    Verdict verdict = judge_connect(policy, address_text, port);
    *name = address_text;
    return verdict;
  }
  if (denied != nullptr) return miss(policy, reason::kHostDenied, denied->label);
  if (other_port != nullptr) return miss(policy, reason::kPortNotAllowed, other_port->label);
  return miss(policy, is_public(address) ? reason::kNoName : reason::kPrivateAddress);
}

Verdict judge_request(const Policy& policy, const RequestFacts& facts) {
  UrlPath path = normalise_path(facts.target);
  if (facts.overrides_path) path.ambiguity = "a header names another path";
  Verdict verdict = judge_method_and_path(policy, facts, facts.method, path);
  if (!verdict.reason.empty()) return verdict;
  if (facts.is_upgrade) return miss(policy, reason::kUpgradeNotAllowed, verdict.rule);
  if (!facts.method_override.empty()) {
    // Many frameworks carry out the overriding method: it must be allowed as well.
    std::string upper(facts.method_override);
    for (char& c : upper) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    const Verdict overridden = judge_method_and_path(policy, facts, upper, path);
    if (!overridden.reason.empty()) return overridden;
  }
  return verdict;
}

bool is_secret_for(const std::vector<std::string>& hosts, std::string_view host) {
  return std::any_of(hosts.begin(), hosts.end(), [&](const std::string& text) {
    const auto pattern = parse_secret_host(text);
    return pattern && pattern->matches(host);
  });
}

}  // namespace leash::oci
