// leash-runtime: an OCI runtime (runtime-spec 1.3) with runc's command line.
//
// What it is built against, beside the specification. Each of these let a container out of, or a caller
// into, some runtime once; where the answer is one place, the file is named.
//
//   CVE-2016-9962   a container's process attaches to the runtime's while it enters: the memory is not
//                   dumpable from before the clone, descriptors close before the namespaces are joined
//   CVE-2019-5736   /proc/PID/exe of the entering process is overwritten: sealed_self.cc
//   CVE-2019-16884  a volume over /proc hides where the runtime reads and writes: mounts.cc, sysctl.cc
//   CVE-2021-30465  a mount's destination is swapped for a link: root_paths.cc, mounts.cc
//   CVE-2022-0492, -29162  inheritable capabilities that nobody asked for: only the five sets as given
//   CVE-2024-21626  a leaked descriptor as working directory: init.cc, process_setup.cc
//   CVE-2024-45310  files made through links outside of the root: root_paths.cc
//   CVE-2025-31133  /dev/null of the container as the mask of a path: hidden_paths.cc
//   CVE-2025-52565  /dev/console bound through a link: console.cc
//   CVE-2025-52881  writes to a procfs that is none: sysctl.cc
//
// main reads like a table of contents: options, log, command, seal, run. It is single-threaded
// throughout: setns(2) into a user namespace refuses threads, and a clone takes one along only.

#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "base/log.h"
#include "runtime/command_table.h"
#include "runtime/sealed_self.h"

namespace leash::runtime {
namespace {

constexpr int kUsageError = 1;
constexpr int kUnknownCommand = 3;  // urfave/cli's

struct CommandLine {
  args::Parsed global;
  std::vector<std::string> words;  // the command and what follows
};

std::string default_root() {
  if (::geteuid() == 0) return "/run/leash-runtime";
  const char* directory = std::getenv("XDG_RUNTIME_DIR");
  return std::string(directory == nullptr ? "/tmp" : directory) + "/leash-runtime";
}

Result<GlobalOptions> read_options(const args::Parsed& flags) {
  GlobalOptions options;
  options.root = flags.value("root", default_root());
  if (!options.root.starts_with('/')) {
    char* cwd = ::getcwd(nullptr, 0);
    if (cwd != nullptr) options.root = std::string(cwd) + "/" + options.root;
    std::free(cwd);
  }
  options.log_path = flags.value("log");
  options.is_debug = flags.is_set("debug");
  options.use_systemd_cgroup = flags.is_set("systemd-cgroup");
  const std::string rootless = flags.value("rootless", "auto");
  options.is_rootless = rootless == "true" || (rootless != "false" && ::geteuid() != 0);
  options.policy = flags.value("policy");
  options.trust_store = flags.value("trust-store");
  const std::string format = flags.value("log-format", "text");
  if (format != "text" && format != "json") return Error(EINVAL, "invalid log-format: " + format);
  TRY_VOID(log::open(options.log_path, format == "json" ? log::Format::kJson : log::Format::kText, options.is_debug));
  return options;
}

int fail(const Error& error, int code) {
  log::fatal(error.message());
  return code;
}

int wrong_usage(const Error& error, const std::string& help) {
  std::cout << "Incorrect Usage: " << error.message() << "\n\n" << help << "\n";
  return fail(error, kUsageError);
}

Result<void> check_argument_count(const Command& command, size_t count) {
  const int given = static_cast<int>(count);
  const std::string prefix = "leash-runtime: \"" + std::string(command.name) + "\" requires ";
  if (command.min_arguments == command.max_arguments && given != command.min_arguments) {
    return Error(EINVAL, prefix + "exactly " + std::to_string(command.min_arguments) + " argument(s)");
  }
  if (given < command.min_arguments) {
    return Error(EINVAL, prefix + "a minimum of " + std::to_string(command.min_arguments) + " argument(s)");
  }
  if (command.max_arguments >= 0 && given > command.max_arguments) {
    return Error(EINVAL, prefix + "a maximum of " + std::to_string(command.max_arguments) + " argument(s)");
  }
  return {};
}

// Does the command bring a process of ours into a container?
bool enters_container(const Command& command) {
  return command.name == "create" || command.name == "run" || command.name == "exec";
}

int run_command(const Command& command, GlobalOptions& options, std::span<const std::string> words, char** argv) {
  for (const std::string& word : words) {
    if (word == "--help" || word == "-h") {
      std::cout << command_help(command);
      return 0;
    }
    if (word == "--" || (command.stops_at_positional && !word.starts_with('-'))) break;
  }
  auto parsed = args::parse(command.flags, words, command.stops_at_positional);
  if (!parsed) return wrong_usage(parsed.error(), command_help(command));
  if (auto counted = check_argument_count(command, parsed->positionals().size()); !counted) {
    std::cout << "Incorrect Usage.\n\n" << command_help(command) << "\n";
    return fail(counted.error(), kUsageError);
  }
  auto directory = enters_container(command) ? seal_self(argv) : own_directory();
  if (!directory) return fail(directory.error(), command.failure_code);
  options.program_directory = std::move(directory).value();
  auto code = command.run(options, *parsed);
  if (!code) return fail(code.error(), command.failure_code);
  return *code;
}

int run(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  auto global = args::parse(global_flags(), words, true);
  if (!global) return wrong_usage(global.error(), program_help());
  if (global->is_set("version")) {
    std::cout << version_text();
    return 0;
  }
  const std::vector<std::string>& rest = global->positionals();
  if (global->is_set("help") || rest.empty() || rest[0] == "help" || rest[0] == "h") {
    const Command* about = rest.size() > 1 ? find_command(rest[1]) : nullptr;
    std::cout << (about != nullptr ? command_help(*about) : program_help());
    return 0;
  }
  auto options = read_options(*global);
  if (!options) return fail(options.error(), kUsageError);
  const Command* command = find_command(rest[0]);
  if (command == nullptr) return fail(Error(EINVAL, "No help topic for '" + rest[0] + "'"), kUnknownCommand);
  return run_command(*command, *options, std::span(rest).subspan(1), argv);
}

}  // namespace
}  // namespace leash::runtime

int main(int argc, char** argv) { return leash::runtime::run(argc, argv); }
