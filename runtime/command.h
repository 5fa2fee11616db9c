// The command table of leash-runtime: what each command is called, which flags it takes, and the one
// function behind it. Each lives in a file of its own under commands/ and holds no logic: parse, load
// the container, one call, add context.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/args.h"
#include "base/result.h"

namespace leash::runtime {

struct GlobalOptions {
  std::string root;             // where containers' states are kept
  std::string log_path;         // --log
  bool is_debug = false;
  bool use_systemd_cgroup = false;
  bool is_rootless = false;     // euid is not 0, or --rootless=true
  std::string policy;           // --policy: a file, "none", or empty
  std::string trust_store;      // --trust-store
  std::string program_directory;  // where leash-runtime was started from: leash-shim lies beside it
};

struct Command {
  std::string_view name;
  std::string_view summary;      // one line
  std::string_view synopsis;     // after the command's name: "[command options] <container-id>"
  std::string_view description;  // paragraphs, may be empty
  std::span<const args::Flag> flags;
  int min_arguments = 0;
  int max_arguments = -1;        // -1: any number
  bool stops_at_positional = false;  // a command line of the container's follows
  int failure_code = 1;          // the exit code of an error
  // The exit code, or the error that main logs.
  Result<int> (*run)(const GlobalOptions& options, const args::Parsed& arguments) = nullptr;
};

extern const Command kCreateCommand;
extern const Command kDeleteCommand;
extern const Command kEventsCommand;
extern const Command kExecCommand;
extern const Command kFeaturesCommand;
extern const Command kKillCommand;
extern const Command kListCommand;
extern const Command kPauseCommand;
extern const Command kPsCommand;
extern const Command kResumeCommand;
extern const Command kRunCommand;
extern const Command kSpecCommand;
extern const Command kStartCommand;
extern const Command kStateCommand;
extern const Command kUpdateCommand;

}  // namespace leash::runtime
