#include "proxy/substitution.h"

#include <algorithm>
#include <array>

#include "oci-spec/reasons.h"
#include "proxy/base64.h"

namespace leash::proxy {

namespace {

// Where APIs take credentials, when the policy does not say.
constexpr std::array<std::string_view, 6> kCredentialHeaders = {"authorization", "x-api-key",  "api-key",
                                                                "x-goog-api-key", "x-auth-token", "private-token"};
constexpr std::array<std::string_view, 5> kCredentialParameters = {"key", "api_key", "apikey", "api-key", "access_token"};

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

bool is_listed(const Header& header, const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return equals_ignoring_case(header.name, name); });
}

// Also the usual ones when the policy lists others: an API may take either.
bool is_credential(const Header& header, const Secret& secret) {
  return is_listed(header, secret.headers) ||
         std::any_of(kCredentialHeaders.begin(), kCredentialHeaders.end(),
                     [&](std::string_view name) { return equals_ignoring_case(header.name, name); });
}

// The decoded "user:password" of Basic credentials, or empty.
std::string basic_credentials(const Header& header) {
  constexpr std::string_view kScheme = "basic ";
  if (header.value.size() <= kScheme.size() || !equals_ignoring_case(header.value.substr(0, kScheme.size()), kScheme)) {
    return {};
  }
  if (!equals_ignoring_case(header.name, "authorization") && !equals_ignoring_case(header.name, "proxy-authorization")) {
    return {};
  }
  return base64_decode(header.value.substr(kScheme.size())).value_or(std::string());
}

// A parameter's name as the origin reads it: "k%65y" is "key".
std::string plain_name(std::string_view text) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  };
  std::string name;
  for (size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? digit(text[i + 1]) : -1;
    const int low = high >= 0 ? digit(text[i + 2]) : -1;
    if (low >= 0) i += 2;
    const char c = low >= 0 ? static_cast<char>(high * 16 + low) : text[i];
    name += c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
  }
  return name;
}

bool query_has_credential(std::string_view target) {
  const size_t mark = target.find('?');
  if (mark == std::string_view::npos) return false;
  std::string_view query = target.substr(mark + 1);
  while (!query.empty()) {
    const size_t end = query.find('&');
    const std::string name = plain_name(query.substr(0, std::min(query.find('='), end)));
    if (std::find(kCredentialParameters.begin(), kCredentialParameters.end(), name) != kCredentialParameters.end()) {
      return true;
    }
    if (end == std::string_view::npos) return false;
    query.remove_prefix(end + 1);
  }
  return false;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

size_t offset_of(const RequestHead& head, std::string_view part) {
  return static_cast<size_t>(part.data() - head.bytes.data());
}

// Puts `secret` into one header. True if it was there.
bool edit_header(const RequestHead& head, const Header& header, const Secret& secret, std::vector<Edit>& edits) {
  bool found = false;
  for (size_t at = header.value.find(secret.placeholder); at != std::string_view::npos;
       at = header.value.find(secret.placeholder, at + secret.placeholder.size())) {
    edits.push_back({offset_of(head, header.value) + at, secret.placeholder.size(), std::string(secret.value.view())});
    found = true;
  }
  std::string basic = basic_credentials(header);
  if (!contains(basic, secret.placeholder)) return found;
  replace_all(basic, secret.placeholder, secret.value.view());
  constexpr size_t kSchemeLength = 6;
  edits.push_back({offset_of(head, header.value) + kSchemeLength, header.value.size() - kSchemeLength, base64_encode(basic)});
  wipe(basic);
  return true;
}

bool head_has(const RequestHead& head, const Secret& secret) {
  if (contains(head.bytes, secret.placeholder)) return true;
  return std::any_of(head.headers.begin(), head.headers.end(), [&](const Header& header) {
    return contains(basic_credentials(header), secret.placeholder);
  });
}

// The placeholder alone, or behind one word ("Bearer"): beside another credential it would be a fig leaf.
bool is_placeholder_alone(std::string_view value, std::string_view placeholder) {
  if (!value.ends_with(placeholder)) return false;
  value.remove_suffix(placeholder.size());
  const size_t word = std::min(value.find(' '), value.size());
  return value.find_first_not_of(' ', word) == std::string_view::npos && (value.empty() || word < value.size());
}

bool is_foreign(const Header& header, std::string_view host, const SecretStore& store) {
  const std::string basic = basic_credentials(header);
  return std::none_of(store.all().begin(), store.all().end(), [&](const Secret& secret) {
    return secret.is_for(host) &&
           (is_placeholder_alone(header.value, secret.placeholder) || contains(basic, secret.placeholder));
  });
}

}  // namespace

Substitution substitute(const RequestHead& head, std::string_view host, bool is_tls, const SecretStore& store) {
  Substitution result;
  for (const Secret& secret : store.all()) {
    if (!is_tls || !secret.is_for(host)) {
      if (!head_has(head, secret)) continue;
      result.refused = oci::reason::kPlaceholderMisused;
      result.secret = secret.name;
      return result;
    }
    if (secret.exclusive) {
      const bool foreign = std::any_of(head.headers.begin(), head.headers.end(), [&](const Header& header) {
        return is_credential(header, secret) && is_foreign(header, host, store);
      });
      if (foreign || query_has_credential(head.target)) {
        result.refused = oci::reason::kForeignCredential;
        result.secret = secret.name;
        return result;
      }
    }
    bool used = false;
    for (const Header& header : head.headers) {
      if (!secret.headers.empty() && !is_listed(header, secret.headers)) continue;
      // Never into Host: it would name another origin.
      if (equals_ignoring_case(header.name, "host")) continue;
      used = edit_header(head, header, secret, result.edits) || used;
    }
    if (used) result.names.push_back(secret.name);
  }
  std::sort(result.edits.begin(), result.edits.end(),
            [](const Edit& left, const Edit& right) { return left.offset < right.offset; });
  return result;
}

}  // namespace leash::proxy
