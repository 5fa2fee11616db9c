// leash policy check, leash policy explain.
#include <unistd.h>

#include "base/file.h"
#include "base/sys.h"
#include "cli/commands.h"
#include "cli/explain.h"
#include "cli/terminal.h"
#include "oci-spec/policy.h"

namespace leash::cli {

namespace {

constexpr size_t kMaxPolicy = size_t{1} << 20;

Result<std::string> read_policy(const std::string& path) {
  if (path == "-") return sys::read_all(STDIN_FILENO, kMaxPolicy).context("standard input");
  return file::read(path, kMaxPolicy);
}

std::string count(size_t number, const char* singular, const char* plural) {
  return std::to_string(number) + " " + (number == 1 ? singular : plural);
}

}  // namespace

Result<int> run_policy_check(const std::string& path) {
  TRY(const std::string text, read_policy(path));
  TRY(const oci::Policy policy, oci::parse_policy(path == "-" ? "standard input" : path, text));
  std::string out = escaped(policy.source) + ": valid, " +
                    (policy.mode == oci::PolicyMode::kEnforce ? "enforce" : "observe") + ", ";
  out += count(policy.allow.size(), "allow rule", "allow rules") + ", ";
  out += count(policy.deny.size(), "deny rule", "deny rules") + ", ";
  out += count(policy.ignore_hosts.size(), "ignored host", "ignored hosts") + ", ";
  out += count(policy.secrets.size(), "secret", "secrets") + "\n";
  TRY_VOID(write_out(out));
  return kExitOk;
}

Result<int> run_policy_explain(const Directories& directories, const ExplainOptions& options) {
  TRY(const Url url, parse_url(options.url));
  oci::PolicyText source;
  if (!options.policy_file.empty()) {
    source.source = options.policy_file == "-" ? "standard input" : options.policy_file;
    TRY(source.text, read_policy(options.policy_file));
  } else {
    TRY(const std::vector<Container> containers, list_containers(directories));
    TRY(const Container container, find_container(containers, options.container, &ask_engines));
    if (!container.is_running) {
      return Error("container '" + short_id(container.id) +
                   "' has ended; its policy ended with it: name the file with --policy");
    }
    // The shim has the text that was read at create: the file may have changed since.
    TRY(const oci::StatusReport report, ask_shim(directories, container.id));
    source = report.policy;
  }
  TRY(const oci::Policy policy, oci::parse_policy(source.source, source.text));
  const Explanation explanation = explain(policy, options.method, url);
  TRY_VOID(write_out(explanation.text));
  return explanation.allowed ? kExitOk : kExitBlocked;
}

Result<void> write_out(std::string_view text) { return sys::write_all(STDOUT_FILENO, text).context("standard output"); }

}  // namespace leash::cli
