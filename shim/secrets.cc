#include "shim/secrets.h"

#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>

#include "base/process.h"
#include "base/sys.h"

namespace leash::shim {

namespace {

constexpr std::string_view kWhitespace = " \t\r\n";
constexpr size_t kMaxFile = size_t{64} << 10;
constexpr std::chrono::seconds kCommandTimeout{10};
// Shorter values are too likely to stand in other variables by chance ("1", "true", "root").
constexpr size_t kMinSharedLength = 8;
// Random characters that a placeholder has at least: enough that no other text is one.
constexpr size_t kMinRandom = 24;

// Prefixes by which clients and scanners know a key; longer ones before what they begin with.
constexpr std::array<std::string_view, 39> kPrefixes = {
    "sk-ant-api03-", "sk-ant-admin01-", "sk-ant-oat01-", "sk-ant-ort01-", "sk-ant-", "sk-proj-", "sk-svcacct-",
    "sk-admin-",     "sk-or-v1-",       "sk_live_",      "sk_test_",      "rk_live_", "sk-",     "AIza",
    "xai-",          "github_pat_",     "ghp_",          "gho_",          "ghu_",     "ghs_",    "ghr_",
    "glpat-",        "hf_",             "gsk_",          "pplx-",         "r8_",      "AKIA",    "ASIA",
    "xoxb-",         "xoxp-",           "xapp-",         "npm_",          "pypi-",    "dop_v1_", "SG.",
    "ya29.",         "lin_api_",        "ntn_",          "eyJ"};

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kWhitespace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kWhitespace) - begin + 1);
}

void wipe(std::string& text) { ::explicit_bzero(text.data(), text.size()); }

// The alphabet of the random part: the classes of characters that the key uses, hexadecimal as such.
std::string alphabet_of(std::string_view text) {
  constexpr std::string_view kHexLower = "0123456789abcdef";
  constexpr std::string_view kHexUpper = "0123456789ABCDEF";
  constexpr std::string_view kLower = "abcdefghijklmnopqrstuvwxyz";
  constexpr std::string_view kUpper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  constexpr std::string_view kDigits = "0123456789";
  std::string used;
  for (const char c : text) {
    if (kLower.find(c) != std::string_view::npos || kUpper.find(c) != std::string_view::npos ||
        kDigits.find(c) != std::string_view::npos) {
      used += c;
    }
  }
  // A key of digits alone gets all of hexadecimal: ten digits a place are too few to be unmistakable.
  if (used.find_first_not_of(kHexLower) == std::string::npos) return std::string(kHexLower);
  if (used.find_first_not_of(kHexUpper) == std::string::npos) return std::string(kHexUpper);
  std::string alphabet;
  for (const std::string_view set : {kLower, kUpper, kDigits}) {
    if (used.find_first_of(set) != std::string::npos) alphabet += set;
  }
  return alphabet;
}

bool is_replaced(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

class RandomText {
 public:
  explicit RandomText(std::string alphabet) : alphabet_(std::move(alphabet)) {}

  Result<char> next() {
    // Bytes beyond the last whole multiple would favour the alphabet's first letters.
    const size_t usable = 256 / alphabet_.size() * alphabet_.size();
    for (;;) {
      if (at_ == pool_.size()) {
        if (::getrandom(pool_.data(), pool_.size(), 0) != static_cast<ssize_t>(pool_.size())) {
          return Error::last_errno("getrandom");
        }
        at_ = 0;
      }
      const size_t value = pool_[at_++];
      if (value < usable) return alphabet_[value % alphabet_.size()];
    }
  }

 private:
  std::string alphabet_;
  std::array<unsigned char, 128> pool_{};
  size_t at_ = pool_.size();
};

Result<std::string> read_secret_file(const std::string& path) {
  TRY(Fd fd, sys::open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  TRY(const struct stat st, sys::fstat(fd.get()));
  if (!S_ISREG(st.st_mode)) return Error("'" + path + "' is not a regular file");
  if (st.st_uid != 0 || (st.st_mode & 0077U) != 0) {
    return Error("'" + path + "' must belong to root and have mode 0600: others could read the secret");
  }
  return sys::read_all(fd.get(), kMaxFile).context("'" + path + "'");
}

// Runs on the host as whoever runs the engine, since the policy is the operator's. Its standard error is
// not quoted: a helper that fails may print what it was asked for.
Result<std::string> run_secret_command(const std::vector<std::string>& words) {
  process::Command command;
  command.path = words.front();
  command.args = words;
  for (const char* name : {"PATH", "HOME", "LANG"}) {
    if (const char* value = ::secure_getenv(name)) command.env.push_back(std::string(name) + "=" + value);
  }
  command.timeout = kCommandTimeout;
  TRY(process::Output output, process::run(command));
  if (output.is_timed_out) return Error("'" + words.front() + "' did not end within ten seconds");
  if (output.wait_status != 0) {
    return Error("'" + words.front() + "' failed: " + process::describe_status(output.wait_status));
  }
  return std::move(output.out);
}

Result<std::string> value_from_host(const oci::PolicySecret& rule) {
  std::string value;
  switch (rule.source) {
    case oci::PolicySecret::Source::kContainer:
      return std::string();
    case oci::PolicySecret::Source::kHostEnv: {
      const char* found = ::secure_getenv(rule.source_name.c_str());
      if (found == nullptr) return Error("the host's environment has no '" + rule.source_name + "'");
      value = found;
      break;
    }
    case oci::PolicySecret::Source::kFile: {
      TRY(value, read_secret_file(rule.source_name));
      break;
    }
    case oci::PolicySecret::Source::kCommand: {
      TRY(value, run_secret_command(rule.command));
      break;
    }
  }
  const std::string core(trimmed(value));
  wipe(value);
  if (core.empty()) return Error("the value is empty");
  return core;
}

struct Variable {
  std::string_view name;
  std::string_view value;
};

Variable split(const std::string& entry) {
  const size_t equals = entry.find('=');
  if (equals == std::string::npos) return {entry, {}};
  return {std::string_view(entry).substr(0, equals), std::string_view(entry).substr(equals + 1)};
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

}  // namespace

Result<std::string> make_placeholder(std::string_view value) {
  std::string_view prefix;
  for (const std::string_view known : kPrefixes) {
    if (value.starts_with(known)) {
      prefix = known;
      break;
    }
  }
  const std::string_view body = value.substr(prefix.size());
  RandomText random(alphabet_of(body));
  for (;;) {
    std::string placeholder(prefix);
    size_t random_count = 0;
    for (const char c : body) {
      if (!is_replaced(c)) {
        // Punctuation stands where it stood ("-" and "_" group a key); what no header can carry as it
        // is does not belong to a shape.
        placeholder += c > ' ' && c < 0x7f ? c : '-';
        continue;
      }
      TRY(const char drawn, random.next());
      placeholder += drawn;
      ++random_count;
    }
    for (; random_count < kMinRandom; ++random_count) {
      TRY(const char drawn, random.next());
      placeholder += drawn;
    }
    if (placeholder != value) return placeholder;
  }
}

Result<SecretStore> SecretStore::create(const std::vector<oci::PolicySecret>& rules) {
  SecretStore store;
  for (const oci::PolicySecret& rule : rules) {
    auto value = value_from_host(rule);
    if (!value) return std::move(value).error().context("secret '" + rule.env + "'");
    store.sources_.push_back({rule, std::move(value).value()});
  }
  return store;
}

SecretStore::~SecretStore() {
  for (Source& source : sources_) wipe(source.value);
  for (oci::ProxySecret& secret : secrets_) wipe(secret.value);
}

Result<std::string> SecretStore::placeholder_for(const Source& source, const std::string& value,
                                                 std::vector<oci::ProxySecret>& added) {
  for (const oci::ProxySecret& secret : secrets_) {
    if (secret.name == source.rule.env && secret.value == value) return secret.placeholder;
  }
  // Put into a header, a line break would begin a header of its own, or a request.
  if (std::any_of(value.begin(), value.end(), [](char c) { return (c >= 0 && c < ' ') || c == 0x7f; })) {
    return Error("secret '" + source.rule.env + "': the value has a line break or another control character: no header can carry it");
  }
  oci::ProxySecret secret;
  secret.name = source.rule.env;
  secret.value = value;
  for (const oci::HostPattern& host : source.rule.hosts) secret.hosts.push_back(host.text());
  secret.headers = source.rule.headers;
  secret.exclusive = source.rule.exclusive;
  TRY(secret.placeholder, make_placeholder(value));
  secrets_.push_back(secret);
  added.push_back(std::move(secret));
  return secrets_.back().placeholder;
}

Result<SecretStore::Hidden> SecretStore::hide(const std::vector<std::string>& env) {
  Hidden hidden;
  hidden.env = env;
  const auto is_placeholder = [this](std::string_view text) {
    return std::any_of(secrets_.begin(), secrets_.end(),
                       [text](const oci::ProxySecret& secret) { return secret.placeholder == text; });
  };
  for (const Source& source : sources_) {
    bool is_present = false;
    for (std::string& entry : hidden.env) {
      const Variable variable = split(entry);
      if (variable.name != source.rule.env) continue;
      is_present = true;
      const std::string_view core = trimmed(variable.value);
      // Empty: there is nothing to hide, and an empty key means "none" to many programs. A
      // placeholder: whoever calls exec took it from inside.
      if (source.value.empty() && (core.empty() || is_placeholder(core))) continue;
      TRY(const std::string placeholder,
          placeholder_for(source, source.value.empty() ? std::string(core) : source.value, hidden.added));
      entry = source.rule.env + "=" + placeholder;
    }
    if (!is_present && !source.value.empty()) {
      TRY(const std::string placeholder, placeholder_for(source, source.value, hidden.added));
      hidden.env.push_back(source.rule.env + "=" + placeholder);
    }
  }

  // The same value under another name, or within a URL. Longest first: a value may contain another.
  std::vector<const oci::ProxySecret*> by_length;
  for (const oci::ProxySecret& secret : secrets_) {
    if (secret.value.size() >= kMinSharedLength) by_length.push_back(&secret);
  }
  std::stable_sort(by_length.begin(), by_length.end(), [](const oci::ProxySecret* a, const oci::ProxySecret* b) {
    return a->value.size() > b->value.size();
  });
  for (std::string& entry : hidden.env) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos) continue;
    std::string value = entry.substr(equals + 1);
    for (const oci::ProxySecret* secret : by_length) replace_all(value, secret->value, secret->placeholder);
    entry.replace(equals + 1, std::string::npos, value);
    wipe(value);
  }
  return hidden;
}

}  // namespace leash::shim
