#include "cli/explain.h"

#include <algorithm>
#include <charconv>

#include "cli/table.h"
#include "cli/terminal.h"
#include "oci-spec/ip_class.h"
#include "oci-spec/rules.h"

namespace leash::cli {

namespace {

void add_line(std::string& text, std::string_view label, const std::string& value) {
  text += padded(label, 11) + value + "\n";
}

std::string by_rule(const oci::Verdict& verdict) {
  return verdict.rule.empty() ? std::string() : " by " + escaped(verdict.rule);
}

std::string describe(const oci::Verdict& verdict) {
  if (verdict.allowed && !verdict.observed) return "allowed" + by_rule(verdict);
  const oci::ReasonWord* reason = oci::find_reason(verdict.reason);
  std::string text = verdict.observed ? "observed (enforce mode would block): " : "blocked: ";
  text += escaped(verdict.reason);
  if (reason != nullptr) text += " (" + std::string(reason->meaning) + ")";
  return text + by_rule(verdict);
}

std::string advice_of(const oci::Verdict& verdict) {
  if (!verdict.advice.empty()) return escaped(verdict.advice);
  const oci::ReasonWord* reason = oci::find_reason(verdict.reason);
  return reason == nullptr ? std::string() : std::string(reason->advice);
}

}  // namespace

Result<Url> parse_url(std::string_view text) {
  Url url{.scheme = "https", .host = {}, .port = 0, .target = {}};
  if (const size_t end = text.find("://"); end != std::string_view::npos && end < text.find('/')) {
    url.scheme = text.substr(0, end);
    std::transform(url.scheme.begin(), url.scheme.end(), url.scheme.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    text.remove_prefix(end + 3);
  }
  if (url.scheme != "http" && url.scheme != "https") {
    return Error("'" + escaped(url.scheme) + "' is neither http nor https");
  }
  const size_t begin = std::min(text.find_first_of("/?#"), text.size());
  std::string_view authority = text.substr(0, begin);
  std::string_view target = text.substr(begin);
  target = target.substr(0, target.find('#'));  // a fragment is never sent
  url.target = (target.starts_with('/') ? "" : "/") + std::string(target);
  if (authority.find('@') != std::string_view::npos) return Error("a user name in the URL: leave it out");

  std::string_view port;
  std::string_view host = authority;
  if (authority.starts_with('[')) {
    const size_t close = authority.find(']');
    if (close == std::string_view::npos) return Error("'[' without ']' in the URL");
    host = authority.substr(1, close - 1);
    if (close + 1 < authority.size() && authority[close + 1] != ':') return Error("text after ']' in the URL");
    if (close + 2 <= authority.size()) port = authority.substr(close + 2);
  } else if (const size_t colon = authority.rfind(':'); colon != std::string_view::npos) {
    host = authority.substr(0, colon);
    port = authority.substr(colon + 1);
  }
  url.port = url.scheme == "https" ? 443 : 80;
  if (!port.empty()) {
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), url.port);
    if (error != std::errc() || end != port.data() + port.size() || url.port == 0) {
      return Error("'" + escaped(port) + "' is not a port");
    }
  }
  TRY(url.host, oci::normalise_host(host).context("host of the URL"));
  return url;
}

Explanation explain(const oci::Policy& policy, std::string_view method, const Url& url) {
  std::string text;
  add_line(text, "policy", escaped(policy.source) + (policy.mode == oci::PolicyMode::kObserve ? " (observe: nothing is blocked)" : ""));
  add_line(text, "request", escaped(method, 32) + " " + url.scheme + "://" + escaped(url.host) +
                                (url.port == (url.scheme == "https" ? 443 : 80) ? "" : ":" + std::to_string(url.port)) +
                                escaped(url.target));
  const auto stop = [&](const oci::Verdict& verdict) {
    add_line(text, "verdict", "blocked" + by_rule(verdict));
    if (const std::string advice = advice_of(verdict); !advice.empty()) add_line(text, "advice", advice);
    return Explanation{false, std::move(text)};
  };

  const auto address = oci::parse_ip(url.host);
  if (address) {
    const oci::Verdict verdict = oci::judge_address(policy, url.host, *address);
    add_line(text, "address", std::string(oci::word(oci::classify(*address))) + ", " + describe(verdict));
    if (!verdict.allowed) return stop(verdict);
  } else {
    const oci::Verdict verdict = oci::judge_name(policy, url.host);
    add_line(text, "name", describe(verdict) + (verdict.allowed ? "" : "; DNS answers NXDOMAIN"));
    if (!verdict.allowed) return stop(verdict);
  }

  const oci::Verdict connection = oci::judge_connect(policy, url.host, url.port);
  add_line(text, "connection", describe(connection));
  if (!connection.allowed) return stop(connection);
  if (!connection.inspect) {
    add_line(text, "verdict", "allowed" + by_rule(connection) + ", passed on without inspection (" +
                                  escaped(connection.pass_reason) + "): method and path are not seen");
    return {true, std::move(text)};
  }

  oci::RequestFacts facts;
  facts.method = method;
  facts.host = url.host;
  facts.port = url.port;
  facts.target = url.target;
  const oci::Verdict request = oci::judge_request(policy, facts);
  add_line(text, "content", describe(request));
  if (!request.allowed) return stop(request);
  for (const oci::PolicySecret& secret : policy.secrets) {
    if (secret.is_for(url.host)) add_line(text, "secret", "the value of " + escaped(secret.env) + " may go here");
  }
  if (!address) {
    add_line(text, "note", policy.allow_private ? "the address is checked when the name is resolved"
                                                : "refused all the same if the name resolves to a private address");
  }
  add_line(text, "verdict", request.observed ? "allowed, because the mode is observe" : "allowed" + by_rule(request));
  return {true, std::move(text)};
}

}  // namespace leash::cli
