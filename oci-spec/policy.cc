#include "oci-spec/policy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>

#include "oci-spec/yaml_tree.h"

namespace leash::oci {
namespace {

using Kind = YamlNode::Kind;
using std::chrono::milliseconds;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }

// RFC 9110, token.
bool is_token_character(char c) {
  return is_digit(c) || is_upper(c) || is_lower(c) || std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

template <class Predicate>
bool all_of(std::string_view text, Predicate predicate) {
  return !text.empty() && std::all_of(text.begin(), text.end(), predicate);
}

bool is_variable_name(std::string_view text) {
  return all_of(text, [](char c) { return is_digit(c) || is_upper(c) || is_lower(c) || c == '_'; }) && !is_digit(text[0]);
}

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// A whole number with an optional unit, e.g. 64MiB: nullopt unless the number fits and the unit is
// one of `units`.
struct Unit {
  std::string_view name;
  uint64_t factor = 1;
};
std::optional<uint64_t> parse_quantity(std::string_view text, std::initializer_list<Unit> units) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  const std::string_view rest(end, static_cast<size_t>(text.data() + text.size() - end));
  for (const Unit& unit : units) {
    if (rest == unit.name && number <= UINT64_MAX / unit.factor) return number * unit.factor;
  }
  return std::nullopt;
}

// What the keys of a map may be, and what to do with the value of each.
struct Key {
  std::string_view name;
  std::function<Result<void>(const YamlNode&)> read;
};

class PolicyReader {
 public:
  explicit PolicyReader(const std::string& source) : source_(source) { policy_.source = source; }

  Result<Policy> read(const YamlNode& root) {
    if (root.kind == Kind::kNull) return policy_;  // an empty file: nothing is allowed
    if (root.kind != Kind::kMap) return expected(root, "a map of policy keys such as 'mode' and 'allow'");
    TRY_VOID(read_map(root, {
        {"version", [&](const YamlNode& n) { return read_version(n); }},
        {"mode", [&](const YamlNode& n) { return read_mode(n); }},
        {"allow", [&](const YamlNode& n) { return read_rules(n, RuleKind::kAllow, policy_.allow); }},
        {"deny", [&](const YamlNode& n) { return read_rules(n, RuleKind::kDeny, policy_.deny); }},
        {"ask", [&](const YamlNode& n) { return read_held(n, RuleKind::kAsk); }},
        {"delay", [&](const YamlNode& n) { return read_held(n, RuleKind::kDelay); }},
        {"ignore_hosts", [&](const YamlNode& n) { return read_ignore_hosts(n); }},
        {"private", [&](const YamlNode& n) { return read_private(n); }},
        {"dns", [&](const YamlNode& n) { return read_dns(n); }},
        {"secrets", [&](const YamlNode& n) { return read_secrets(n); }},
        {"writes", [&](const YamlNode& n) { return read_writes(n); }},
        {"syscalls", [&](const YamlNode& n) { return read_syscalls(n); }},
        {"capabilities", [&](const YamlNode& n) { return read_capabilities(n); }},
        {"monitor", [&](const YamlNode& n) { return read_monitor(n); }},
        {"log", [&](const YamlNode& n) { return read_log(n); }},
    }));
    return std::move(policy_);
  }

 private:
  enum class RuleKind { kAllow, kDeny, kAsk, kDelay };

  [[nodiscard]] Error error_at(const YamlNode& node, std::string_view text) const {
    return yaml_error(source_, node, text);
  }
  [[nodiscard]] Error expected(const YamlNode& node, std::string_view what) const {
    return error_at(node, "expected " + std::string(what) + ", found " + node.description());
  }
  [[nodiscard]] Error not_available(const YamlNode& node, std::string_view what) const {
    return error_at(node, std::string(what) + " is not available in this version of leash");
  }

  Result<void> read_map(const YamlNode& node, const std::vector<Key>& keys) {
    if (node.kind != Kind::kMap) return expected(node, "a map");
    for (size_t i = 0; i < node.keys.size(); ++i) {
      const YamlNode& name = node.keys[i];
      const auto key = std::find_if(keys.begin(), keys.end(), [&](const Key& k) { return k.name == name.text; });
      if (key == keys.end()) {
        std::string known;
        for (const Key& k : keys) known += (known.empty() ? "" : ", ") + std::string(k.name);
        return error_at(name, "unknown key '" + name.text + "': expected one of " + known);
      }
      TRY_VOID(key->read(node.items[i]));
    }
    return {};
  }

  // A list, or nothing at all ("allow:" whose items are commented out).
  Result<void> read_list(const YamlNode& node, std::string_view what,
                         const std::function<Result<void>(const YamlNode&)>& read_item) {
    if (node.kind == Kind::kNull) return {};
    if (node.kind != Kind::kList) return expected(node, "a list of " + std::string(what));
    for (const YamlNode& item : node.items) TRY_VOID(read_item(item));
    return {};
  }

  Result<std::string> read_text(const YamlNode& node, std::string_view what) const {
    if (node.kind != Kind::kScalar) return expected(node, what);
    if (node.text.empty()) return error_at(node, "expected " + std::string(what) + ", found an empty string");
    return node.text;
  }

  Result<std::vector<std::string>> read_texts(const YamlNode& node, std::string_view what) {
    std::vector<std::string> texts;
    TRY_VOID(read_list(node, what, [&](const YamlNode& item) -> Result<void> {
      TRY(std::string text, read_text(item, what));
      texts.push_back(std::move(text));
      return {};
    }));
    return texts;
  }

  Result<bool> read_bool(const YamlNode& node) const {
    if (node.kind == Kind::kScalar && node.is_plain) {
      if (node.text == "true") return true;
      if (node.text == "false") return false;
    }
    return expected(node, "true or false");
  }

  Result<uint64_t> read_number(const YamlNode& node, uint64_t minimum, uint64_t maximum) const {
    std::optional<uint64_t> number;
    if (node.kind == Kind::kScalar && node.is_plain) number = parse_quantity(node.text, {{"", 1}});
    if (!number || *number < minimum || *number > maximum) {
      return expected(node, "a number from " + std::to_string(minimum) + " to " + std::to_string(maximum));
    }
    return *number;
  }

  Result<milliseconds> read_duration(const YamlNode& node) const {
    std::optional<uint64_t> amount;
    if (node.kind == Kind::kScalar) amount = parse_quantity(node.text, {{"ms", 1}, {"s", 1000}, {"m", 60000}});
    if (!amount || *amount == 0 || *amount > 3600000) return expected(node, "a duration such as 300ms, 55s or 5m, at most 60m");
    return milliseconds(*amount);
  }

  Result<size_t> read_word(const YamlNode& node, std::initializer_list<std::string_view> words) const {
    if (node.kind == Kind::kScalar) {
      const auto found = std::find(words.begin(), words.end(), node.text);
      if (found != words.end()) return static_cast<size_t>(found - words.begin());
    }
    std::string list;
    for (const std::string_view word : words) list += (list.empty() ? "" : " or ") + std::string(word);
    return expected(node, list);
  }

  // ---- the keys, in the order of the manual ----

  Result<void> read_version(const YamlNode& node) {
    if (node.kind != Kind::kScalar || !node.is_plain || node.text != "1") return expected(node, "version 1");
    return {};
  }

  Result<void> read_mode(const YamlNode& node) {
    TRY(const size_t word, read_word(node, {"enforce", "observe"}));
    policy_.mode = word == 0 ? PolicyMode::kEnforce : PolicyMode::kObserve;
    return {};
  }

  Result<void> read_rules(const YamlNode& node, RuleKind kind, std::vector<PolicyRule>& rules) {
    return read_list(node, "hosts", [&](const YamlNode& item) -> Result<void> {
      TRY(PolicyRule rule, read_rule(item, kind, rules.size()));
      rules.push_back(std::move(rule));
      return {};
    });
  }

  // `ask` and `delay` are checked like any rule, so that a file with a mistake says so first.
  Result<void> read_held(const YamlNode& node, RuleKind kind) {
    std::vector<PolicyRule> rules;
    TRY_VOID(read_rules(node, kind, rules));
    if (!rules.empty()) return not_available(node.items.front(), kind == RuleKind::kAsk ? "'ask'" : "'delay'");
    return {};
  }

  [[nodiscard]] std::string label(std::string_view list, size_t index, const std::string& text, int line) const {
    return std::string(list) + "[" + std::to_string(index) + "] " + text + " (" + std::string(base_name(source_)) + ":" +
           std::to_string(line) + ")";
  }

  Result<PolicyRule> read_rule(const YamlNode& node, RuleKind kind, size_t index) {
    static constexpr std::array<std::string_view, 4> kLists = {"allow", "deny", "ask", "delay"};
    PolicyRule rule;
    rule.line = node.line;
    const YamlNode* host = nullptr;
    bool exact = false;
    bool has_duration = false;
    const YamlNode* inspect = nullptr;
    if (node.kind == Kind::kScalar) {
      host = &node;
    } else if (node.kind == Kind::kMap) {
      std::vector<Key> keys = {
          {"host", [&](const YamlNode& n) -> Result<void> { host = &n; return {}; }},
          {"exact", [&](const YamlNode& n) -> Result<void> { TRY(exact, read_bool(n)); return {}; }},
          {"ports", [&](const YamlNode& n) { return read_ports(n, rule.ports); }},
          {"methods", [&](const YamlNode& n) { return read_methods(n, rule.methods); }},
          {"paths", [&](const YamlNode& n) { return read_paths(n, rule.paths); }},
      };
      const auto read_hold = [&](const YamlNode& n) -> Result<void> {
        has_duration = true;
        TRY_VOID(read_duration(n));
        return {};
      };
      if (kind == RuleKind::kAllow) {
        keys.push_back({"inspect", [&](const YamlNode& n) -> Result<void> {
          inspect = &n;
          TRY(rule.inspect, read_bool(n));
          return {};
        }});
      }
      if (kind == RuleKind::kAsk) keys.push_back({"timeout", read_hold});
      if (kind == RuleKind::kDelay) keys.push_back({"for", read_hold});
      TRY_VOID(read_map(node, keys));
    } else {
      return expected(node, "a host, or a map with 'host'");
    }
    if (host == nullptr) return error_at(node, "expected 'host' in this rule");
    if (kind == RuleKind::kDelay && !has_duration) return error_at(node, "expected 'for' in this rule, e.g. for: 300ms");
    TRY(const std::string text, read_text(*host, "a host"));
    auto pattern = HostPattern::parse(text, exact);
    if (!pattern) return error_at(*host, pattern.error().message() + ": '" + text + "'");
    rule.host = std::move(pattern).value();
    if (!rule.inspect && (!rule.methods.empty() || !rule.paths.empty())) {
      return error_at(*inspect, "'inspect: false' cannot be combined with 'methods' or 'paths': they need inspection");
    }
    rule.label = label(kLists[static_cast<size_t>(kind)], index, rule.host.text(), rule.line);
    return rule;
  }

  // A list that narrows a rule must say something: an empty one could mean "none" or "any".
  Result<void> read_narrowing(const YamlNode& node, std::string_view what,
                              const std::function<Result<void>(const YamlNode&)>& read_item) {
    if (node.kind != Kind::kList || node.items.empty()) return expected(node, "a list of " + std::string(what) + " that is not empty");
    return read_list(node, what, read_item);
  }

  Result<void> read_ports(const YamlNode& node, std::vector<uint16_t>& ports) {
    return read_narrowing(node, "ports", [&](const YamlNode& item) -> Result<void> {
      TRY(const uint64_t port, read_number(item, 1, 65535));
      ports.push_back(static_cast<uint16_t>(port));
      return {};
    });
  }

  Result<void> read_methods(const YamlNode& node, std::vector<std::string>& methods) {
    return read_narrowing(node, "methods", [&](const YamlNode& item) -> Result<void> {
      TRY(std::string method, read_text(item, "a method such as GET"));
      if (!all_of(method, [](char c) { return is_token_character(c) && !is_lower(c); }) || method.size() > 20) {
        return expected(item, "a method in upper case such as GET");
      }
      methods.push_back(std::move(method));
      return {};
    });
  }

  Result<void> read_paths(const YamlNode& node, std::vector<PathPattern>& paths) {
    return read_narrowing(node, "paths", [&](const YamlNode& item) -> Result<void> {
      TRY(const std::string text, read_text(item, "a path such as /owner/repo/**"));
      auto pattern = PathPattern::parse(text);
      if (!pattern) return error_at(item, pattern.error().message() + ": '" + text + "'");
      paths.push_back(std::move(pattern).value());
      return {};
    });
  }

  Result<void> read_ignore_hosts(const YamlNode& node) {
    return read_list(node, "regexes", [&](const YamlNode& item) -> Result<void> {
      TRY(const std::string text, read_text(item, "a regex"));
      auto regex = HostRegex::compile(text);
      if (!regex) return error_at(item, "bad " + regex.error().message() + ": '" + text + "'");
      const size_t index = policy_.ignore_hosts.size();
      policy_.ignore_hosts.push_back({std::move(regex).value(), item.line, label("ignore_hosts", index, text, item.line)});
      return {};
    });
  }

  Result<void> read_private(const YamlNode& node) {
    TRY(const size_t word, read_word(node, {"deny", "allow"}));
    policy_.allow_private = word == 1;
    return {};
  }

  Result<void> read_dns(const YamlNode& node) {
    return read_map(node, {
        {"servers", [&](const YamlNode& n) -> Result<void> {
          if (n.kind == Kind::kScalar && n.text == "container") return {};
          if (n.kind != Kind::kList || n.items.empty()) return expected(n, "container, or a list of addresses");
          return read_list(n, "addresses", [&](const YamlNode& item) -> Result<void> {
            TRY(const std::string text, read_text(item, "an address"));
            const auto address = parse_ip(text);
            if (!address || is_never_destination(*address)) return expected(item, "the address of a DNS server");
            policy_.dns.servers.push_back(*address);
            return {};
          });
        }},
        {"rate", [&](const YamlNode& n) -> Result<void> {
          std::optional<uint64_t> rate;
          if (n.kind == Kind::kScalar) rate = parse_quantity(n.text, {{"/s", 1}});
          if (!rate || *rate == 0 || *rate > 100000) return expected(n, "a rate such as 50/s");
          policy_.dns.rate_per_second = static_cast<uint32_t>(*rate);
          return {};
        }},
    });
  }

  Result<void> read_secrets(const YamlNode& node) {
    return read_list(node, "secrets", [&](const YamlNode& item) { return read_secret(item); });
  }

  Result<void> read_secret(const YamlNode& node) {
    PolicySecret secret;
    secret.line = node.line;
    TRY_VOID(read_map(node, {
        {"env", [&](const YamlNode& n) -> Result<void> {
          TRY(secret.env, read_text(n, "the name of an environment variable"));
          if (!is_variable_name(secret.env)) return expected(n, "the name of an environment variable");
          for (const PolicySecret& other : policy_.secrets) {
            if (other.env == secret.env) return error_at(n, "a second secret for '" + secret.env + "' (first on line " + std::to_string(other.line) + ")");
          }
          return {};
        }},
        {"hosts", [&](const YamlNode& n) -> Result<void> {
          return read_narrowing(n, "hosts", [&](const YamlNode& item) -> Result<void> {
            TRY(const std::string text, read_text(item, "a host"));
            auto pattern = parse_secret_host(text);
            if (!pattern) return error_at(item, pattern.error().message() + ": '" + text + "'");
            secret.hosts.push_back(std::move(pattern).value());
            return {};
          });
        }},
        {"headers", [&](const YamlNode& n) -> Result<void> {
          return read_narrowing(n, "header names", [&](const YamlNode& item) -> Result<void> {
            TRY(std::string header, read_text(item, "a header name"));
            if (!all_of(header, is_token_character)) return expected(item, "a header name");
            for (char& c : header) c = is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c;
            if (header == "host" || header == "content-length" || header == "transfer-encoding" || header == "connection") {
              return error_at(item, "a secret cannot be put into the header '" + header + "'");
            }
            secret.headers.push_back(std::move(header));
            return {};
          });
        }},
        {"from", [&](const YamlNode& n) { return read_secret_source(n, secret); }},
        {"exclusive", [&](const YamlNode& n) -> Result<void> { TRY(secret.exclusive, read_bool(n)); return {}; }},
    }));
    if (secret.env.empty()) return error_at(node, "expected 'env' in this secret");
    if (secret.hosts.empty()) return error_at(node, "expected 'hosts' in this secret");
    policy_.secrets.push_back(std::move(secret));
    return {};
  }

  // container | host-env: NAME | file: /path | command: [argv]; the latter three as a map, or the
  // first two of them quoted in one string.
  Result<void> read_secret_source(const YamlNode& node, PolicySecret& secret) {
    static constexpr std::string_view kForms =
        "container, {host-env: NAME}, {file: /path} or {command: [program, arguments]}";
    if (node.kind == Kind::kMap && node.keys.size() == 1) {
      return read_map(node, {
          {"host-env", [&](const YamlNode& n) { return read_host_env(n, n.text, secret); }},
          {"file", [&](const YamlNode& n) { return read_secret_file(n, n.text, secret); }},
          {"command", [&](const YamlNode& n) -> Result<void> {
            secret.source = PolicySecret::Source::kCommand;
            TRY(secret.command, read_texts(n, "the words of a command"));
            if (secret.command.empty() || secret.command[0][0] != '/') {
              return expected(n, "a command that starts with an absolute path");
            }
            return {};
          }},
      });
    }
    if (node.kind != Kind::kScalar) return expected(node, kForms);
    if (node.text == "container") return {};
    const std::string_view text(node.text);
    const auto value_of = [&](std::string_view key) {
      std::string_view value = text.substr(key.size());
      while (value.starts_with(' ')) value.remove_prefix(1);
      return std::string(value);
    };
    if (text.starts_with("host-env:")) return read_host_env(node, value_of("host-env:"), secret);
    if (text.starts_with("file:")) return read_secret_file(node, value_of("file:"), secret);
    return expected(node, kForms);
  }

  Result<void> read_host_env(const YamlNode& node, const std::string& name, PolicySecret& secret) {
    if (node.kind != Kind::kScalar || !is_variable_name(name)) return expected(node, "the name of an environment variable");
    secret.source = PolicySecret::Source::kHostEnv;
    secret.source_name = name;
    return {};
  }

  Result<void> read_secret_file(const YamlNode& node, const std::string& path, PolicySecret& secret) {
    if (node.kind != Kind::kScalar || !path.starts_with('/')) return expected(node, "an absolute path");
    secret.source = PolicySecret::Source::kFile;
    secret.source_name = path;
    return {};
  }

  // Bind mounts are written straight through in this version: a file that says so, or says nothing, is
  // true; one that asks for more protection must not be believed to have it.
  Result<void> read_writes(const YamlNode& node) {
    return read_map(node, {
        {"default", [&](const YamlNode& n) -> Result<void> {
          TRY(const size_t word, read_word(n, {"overlay", "readonly", "direct"}));
          if (word != 2) return not_available(n, "'writes.default: " + n.text + "'");
          return {};
        }},
        {"volumes", [&](const YamlNode& n) -> Result<void> {
          TRY(const size_t word, read_word(n, {"direct", "overlay", "readonly"}));
          if (word != 0) return not_available(n, "'writes.volumes: " + n.text + "'");
          return {};
        }},
        {"direct", [&](const YamlNode& n) -> Result<void> {
          return read_list(n, "container paths", [&](const YamlNode& item) -> Result<void> {
            TRY(const std::string path, read_text(item, "a container path"));
            if (!path.starts_with('/')) return expected(item, "an absolute container path");
            return {};
          });
        }},
        {"hide", [&](const YamlNode& n) -> Result<void> {
          TRY(const auto paths, read_texts(n, "paths to hide"));
          if (!paths.empty()) return not_available(n, "'writes.hide'");
          return {};
        }},
    });
  }

  Result<void> read_syscalls(const YamlNode& node) {
    const auto read_names = [this](const YamlNode& n, std::vector<std::string>& names) -> Result<void> {
      return read_list(n, "system calls", [&](const YamlNode& item) -> Result<void> {
        TRY(std::string name, read_text(item, "the name of a system call"));
        if (!all_of(name, [](char c) { return is_lower(c) || is_digit(c) || c == '_'; })) {
          return expected(item, "the name of a system call");
        }
        names.push_back(std::move(name));
        return {};
      });
    };
    TRY_VOID(read_map(node, {
        {"allow", [&](const YamlNode& n) { return read_names(n, policy_.syscalls_allow); }},
        {"deny", [&](const YamlNode& n) { return read_names(n, policy_.syscalls_deny); }},
    }));
    return {};
  }

  Result<void> read_capabilities(const YamlNode& node) {
    return read_map(node, {{"allow", [&](const YamlNode& n) -> Result<void> {
      return read_list(n, "capabilities", [&](const YamlNode& item) -> Result<void> {
        TRY(std::string name, read_text(item, "the name of a capability"));
        if (name.starts_with("CAP_")) name.erase(0, 4);
        if (!all_of(name, [](char c) { return is_upper(c) || c == '_'; })) {
          return expected(item, "the name of a capability such as NET_RAW");
        }
        policy_.capabilities_allow.push_back(std::move(name));
        return {};
      });
    }}});
  }

  Result<void> read_monitor(const YamlNode& node) {
    const auto unavailable = [this](const YamlNode& n) -> Result<void> {
      TRY_VOID(read_text(n, "default"));
      return not_available(n, "'monitor'");
    };
    return read_map(node, {{"rules", unavailable}, {"honeypots", unavailable}});
  }

  Result<void> read_log(const YamlNode& node) {
    return read_map(node, {
        {"body_preview", [&](const YamlNode& n) -> Result<void> {
          // The line that holds it is under 16 KiB, and a byte may need six characters.
          TRY(const uint64_t bytes, read_number(n, 0, 1536));
          policy_.log.body_preview = static_cast<uint32_t>(bytes);
          return {};
        }},
        {"directory", [&](const YamlNode& n) -> Result<void> {
          TRY(std::string directory, read_text(n, "default, or an absolute path"));
          if (directory == "default") return {};
          if (!directory.starts_with('/')) return expected(n, "default, or an absolute path");
          policy_.log.directory = std::move(directory);
          return {};
        }},
        {"max_size", [&](const YamlNode& n) -> Result<void> {
          std::optional<uint64_t> size;
          if (n.kind == Kind::kScalar) {
            size = parse_quantity(n.text, {{"KiB", uint64_t{1} << 10}, {"MiB", uint64_t{1} << 20}, {"GiB", uint64_t{1} << 30}});
          }
          if (!size || *size < (uint64_t{64} << 10)) return expected(n, "a size such as 64MiB, at least 64KiB");
          policy_.log.max_size = *size;
          return {};
        }},
    });
  }

  const std::string& source_;
  Policy policy_;
};

}  // namespace

Result<HostPattern> parse_secret_host(std::string_view text) { return HostPattern::parse(text, !text.starts_with("*.") && text.find('/') == std::string_view::npos); }

bool PolicySecret::is_for(std::string_view host) const {
  return std::any_of(hosts.begin(), hosts.end(), [&](const HostPattern& pattern) { return pattern.matches(host); });
}

Result<Policy> parse_policy(const std::string& source, std::string_view text) {
  TRY(const YamlNode root, parse_yaml(source, text));
  return PolicyReader(source).read(root);
}

}  // namespace leash::oci
