// The words in which Leash says why: `reason` and `layer` in blocked.jsonl and in the refusal body.
//
// People filter by these words and programs branch on them, so each is here once and is never renamed.
#pragma once

#include <array>
#include <string_view>

namespace leash::oci {

struct ReasonWord {
  std::string_view word;
  std::string_view meaning;  // one line, as the README and `leash policy explain` show it
  std::string_view advice;   // what the client (a program or a language model) may do about it
};

namespace reason {
inline constexpr std::string_view kHostNotAllowed = "host_not_allowed";
inline constexpr std::string_view kHostDenied = "host_denied";
inline constexpr std::string_view kPortNotAllowed = "port_not_allowed";
inline constexpr std::string_view kMethodNotAllowed = "method_not_allowed";
inline constexpr std::string_view kPathNotAllowed = "path_not_allowed";
inline constexpr std::string_view kAmbiguousPath = "ambiguous_path";
inline constexpr std::string_view kAmbiguousHost = "ambiguous_host";
inline constexpr std::string_view kHostMismatch = "host_mismatch";
inline constexpr std::string_view kNoName = "no_name";
inline constexpr std::string_view kUnknownProtocol = "unknown_protocol";
inline constexpr std::string_view kNeedsInspection = "needs_inspection";
inline constexpr std::string_view kPrivateAddress = "private_address";
inline constexpr std::string_view kUpgradeNotAllowed = "upgrade_not_allowed";
inline constexpr std::string_view kConnectNotAllowed = "connect_not_allowed";
inline constexpr std::string_view kBadRequest = "bad_request";
inline constexpr std::string_view kForeignCredential = "foreign_credential";
inline constexpr std::string_view kPlaceholderMisused = "placeholder_misused";
inline constexpr std::string_view kClientRefusedCa = "client_refused_ca";
inline constexpr std::string_view kDnsTypeNotAllowed = "dns_type_not_allowed";
inline constexpr std::string_view kDnsNameSuspicious = "dns_name_suspicious";
inline constexpr std::string_view kDnsRateExceeded = "dns_rate_exceeded";
inline constexpr std::string_view kDnsMalformed = "dns_malformed";
inline constexpr std::string_view kProtocolNotAllowed = "protocol_not_allowed";
// Not verdicts: the `error` of a flow that policy allowed and that failed all the same.
inline constexpr std::string_view kOriginUnresolved = "origin_unresolved";
inline constexpr std::string_view kOriginUnreachable = "origin_unreachable";
inline constexpr std::string_view kOriginCertificate = "origin_certificate";
inline constexpr std::string_view kOriginProtocol = "origin_protocol";
inline constexpr std::string_view kClientClosed = "client_closed";
inline constexpr std::string_view kTimeout = "timeout";
inline constexpr std::string_view kLogUnavailable = "log_unavailable";
inline constexpr std::string_view kProxyTerminated = "proxy_terminated";
}  // namespace reason

namespace layer {
inline constexpr std::string_view kDns = "dns";
inline constexpr std::string_view kTcp = "tcp";
inline constexpr std::string_view kTls = "tls";
inline constexpr std::string_view kHttp = "http";
inline constexpr std::string_view kWs = "ws";
inline constexpr std::string_view kIp = "ip";  // a packet that the lock-in refused: UDP, ICMP, other ports
}  // namespace layer

inline constexpr std::array kReasonWords = {
    ReasonWord{reason::kHostNotAllowed, "no rule of the policy names this host",
               "do not retry; ask the operator to add the host to `allow` in the policy"},
    ReasonWord{reason::kHostDenied, "a `deny` rule names this host",
               "do not retry; the operator has forbidden this on purpose"},
    ReasonWord{reason::kPortNotAllowed, "the host is allowed, this port is not",
               "use port 80 or 443, or ask the operator to add the port to the rule"},
    ReasonWord{reason::kMethodNotAllowed, "the host is allowed, this method is not",
               "do not retry with this method; ask the operator to add it to the rule's `methods`"},
    ReasonWord{reason::kPathNotAllowed, "the host is allowed, this path is not",
               "do not retry; ask the operator to add the path to the rule's `paths`"},
    ReasonWord{reason::kAmbiguousPath, "the path can be read in two ways (encoded slash, dot segment, NUL ...)",
               "send the plain, normalised form of the path"},
    ReasonWord{reason::kAmbiguousHost, "the host is spelt in a way that programs read differently",
               "send the plain name or the dotted address"},
    ReasonWord{reason::kHostMismatch, "the TLS name, the Host header and the request target do not agree",
               "use one and the same host for TLS and HTTP, and a connection for each host"},
    ReasonWord{reason::kNoName, "the connection names no host (no SNI) and no rule names its address",
               "connect by host name"},
    ReasonWord{reason::kUnknownProtocol, "neither TLS nor HTTP on a port that is inspected",
               "use HTTP or HTTPS, or ask the operator for a rule with `inspect: false`"},
    ReasonWord{reason::kNeedsInspection, "the rule has methods or paths, but the flow cannot be decrypted",
               "ask the operator to drop `ignore_hosts` or the narrowing for this host"},
    ReasonWord{reason::kPrivateAddress, "the destination is a private, loopback, link-local or metadata address",
               "do not retry; ask the operator to name the address or network in a rule"},
    ReasonWord{reason::kUpgradeNotAllowed, "protocol upgrades are refused", "use plain HTTP/1.1 requests"},
    ReasonWord{reason::kConnectNotAllowed, "CONNECT and proxy requests are refused",
               "connect to the host directly; no proxy setting is needed"},
    ReasonWord{reason::kBadRequest, "the request can be read in two ways (framing, headers)",
               "send a well-formed HTTP/1.1 request"},
    ReasonWord{reason::kForeignCredential, "the request carries a credential that Leash did not issue",
               "use the credential from the environment of the container"},
    ReasonWord{reason::kPlaceholderMisused, "a placeholder of a secret was sent to a host that it is not for",
               "send this credential only to the hosts it belongs to"},
    ReasonWord{reason::kClientRefusedCa, "the client does not trust this container's CA",
               "make the program trust /dev/leash/ca.pem, or ask the operator to list the host in `ignore_hosts`"},
    ReasonWord{reason::kDnsTypeNotAllowed, "only A and AAAA records are answered", "ask for A or AAAA"},
    ReasonWord{reason::kDnsNameSuspicious, "the name looks like data, not like a host (length, entropy)",
               "ask the operator to name the host itself in a rule"},
    ReasonWord{reason::kDnsRateExceeded, "too many different names in a short time", "slow down"},
    ReasonWord{reason::kDnsMalformed, "not a well-formed DNS query", "use the system's resolver"},
    ReasonWord{reason::kProtocolNotAllowed, "only TCP and DNS leave the container", "use TCP"},
    ReasonWord{reason::kOriginUnresolved, "the host has no address", "check the name"},
    ReasonWord{reason::kOriginUnreachable, "the host does not answer", "try again later"},
    ReasonWord{reason::kOriginCertificate, "the host's certificate is not valid for its name",
               "do not retry; the host is not who it says it is"},
    ReasonWord{reason::kOriginProtocol, "the host does not speak TLS or HTTP as it should", "try again later"},
    ReasonWord{reason::kClientClosed, "the client went away", ""},
    ReasonWord{reason::kTimeout, "a deadline passed", "try again later"},
    ReasonWord{reason::kLogUnavailable, "the log cannot be written, so nothing is forwarded", "try again later"},
    ReasonWord{reason::kProxyTerminated, "the proxy of this container was restarted", "try again"},
};

// nullptr for a word that is not in the table.
[[nodiscard]] constexpr const ReasonWord* find_reason(std::string_view word) {
  for (const ReasonWord& entry : kReasonWords) {
    if (entry.word == word) return &entry;
  }
  return nullptr;
}

}  // namespace leash::oci
