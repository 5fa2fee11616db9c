#include "runtime/command_table.h"

#include <algorithm>

#include "runtime/seccomp.h"

namespace leash::runtime {

namespace {

constexpr args::Flag kGlobalFlags[] = {
    {"debug", args::Kind::kBool, "enable debug logging"},
    {"log", args::Kind::kValue, "set the log file to write leash-runtime logs to (default is '/dev/stderr')"},
    {"log-format", args::Kind::kValue, "set the log format ('text' (default), or 'json')", "\"text\""},
    {"root", args::Kind::kValue, "root directory for storage of container state (this should be located in tmpfs)", "\"/run/leash-runtime\""},
    {"criu", args::Kind::kValue, "accepted and ignored"},
    {"systemd-cgroup", args::Kind::kBool, "enable systemd cgroup support, expects cgroupsPath to be of form \"slice:prefix:name\" for e.g. \"system.slice:leash:434234\""},
    {"rootless", args::Kind::kValue, "ignore cgroup permission errors ('true', 'false', or 'auto')", "\"auto\""},
    {"policy", args::Kind::kValue, "policy file for containers that name none, or 'none' for no lock-in at all"},
    {"trust-store", args::Kind::kValue, "PEM file of the roots against which origins are verified, instead of the host's"},
    {"help, h", args::Kind::kBool, "show help"},
    {"version, v", args::Kind::kBool, "print the version"},
};

}  // namespace

const std::vector<const Command*>& command_table() {
  static const std::vector<const Command*> table = {
      &kCreateCommand, &kDeleteCommand, &kEventsCommand, &kExecCommand,  &kFeaturesCommand,
      &kKillCommand,   &kListCommand,   &kPauseCommand,  &kPsCommand,    &kResumeCommand,
      &kRunCommand,    &kSpecCommand,   &kStartCommand,  &kStateCommand, &kUpdateCommand,
  };
  return table;
}

const Command* find_command(std::string_view name) {
  for (const Command* command : command_table()) {
    if (command->name == name) return command;
  }
  return nullptr;
}

std::span<const args::Flag> global_flags() { return kGlobalFlags; }

std::string program_help() {
  std::string text =
      "NAME:\n   leash-runtime - Open Container Initiative runtime that locks containers into their own proxy\n\n"
      "USAGE:\n   leash-runtime [global options] command [command options] [arguments...]\n\n"
      "VERSION:\n   " LEASH_VERSION "\n\nCOMMANDS:\n";
  size_t width = 0;
  for (const Command* command : command_table()) width = std::max(width, command->name.size());
  for (const Command* command : command_table()) {
    text += "   " + std::string(command->name) + std::string(width - command->name.size() + 2, ' ') +
            std::string(command->summary) + "\n";
  }
  return text + "\nGLOBAL OPTIONS:\n" + args::describe(global_flags());
}

std::string command_help(const Command& command) {
  std::string text = "NAME:\n   leash-runtime " + std::string(command.name) + " - " + std::string(command.summary) +
                     "\n\nUSAGE:\n   leash-runtime " + std::string(command.name) + " " + std::string(command.synopsis) + "\n";
  if (!command.description.empty()) text += "\nDESCRIPTION:\n" + std::string(command.description) + "\n";
  if (!command.flags.empty()) text += "\nOPTIONS:\n" + args::describe(command.flags);
  return text;
}

std::string version_text() {
  return "leash-runtime version " LEASH_VERSION "\nspec: 1.3.0\nlibseccomp: " + libseccomp_version() + "\n";
}

}  // namespace leash::runtime
