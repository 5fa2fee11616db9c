// leash: the operator's command. It looks at what the other programs publish (the registry, the logs,
// the shims' sockets) and changes nothing.
//
//   main       the command line, and nothing else
//   ps.cc      logs.cc      policy_commands.cc      doctor.cc      one command each
#include <cstdio>

#include <CLI/CLI.hpp>

#include "cli/commands.h"

using namespace leash;

namespace {

int finish(const Result<int>& result) {
  if (result) return *result;
  std::fprintf(stderr, "leash: %s\n", result.error().message().c_str());
  return cli::kExitFailed;
}

int run(int argc, char** argv) {
  CLI::App app{"See what leashed containers send, what was refused and why.", "leash"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "leash " LEASH_VERSION);
  cli::PsOptions ps_options;
  CLI::App* ps = app.add_subcommand("ps", "List leashed containers");
  ps->add_flag("-a,--all", ps_options.all, "Also those that have ended and left logs");
  ps->add_flag("-q,--quiet", ps_options.quiet, "Ids alone, in full");

  cli::LogsOptions logs_options;
  CLI::App* logs = app.add_subcommand("logs", "Show what containers sent and what was refused");
  logs->add_option("CONTAINER", logs_options.container, "Of this one alone, running or ended (default: all)");
  logs->add_flag("-f,--follow", logs_options.follow, "Go on with what is written from now on");
  logs->add_option("--state", logs_options.state,
                   "Lines of one state alone: inspected (decrypted and judged), passed (allowed, not decrypted), blocked")
      ->check(CLI::IsMember({"inspected", "passed", "blocked"}));
  logs->add_flag("--json", logs_options.json, "The lines as they stand in the files, one JSON object each");

  CLI::App* policy = app.add_subcommand("policy", "Check a policy file, or ask what a policy says");
  policy->require_subcommand(1);
  std::string policy_path;
  CLI::App* check = policy->add_subcommand("check", "Is this file a valid policy? Errors are FILE:LINE:COLUMN: text");
  check->add_option("FILE", policy_path, "The file, or - for standard input")->required();
  cli::ExplainOptions explain_options;
  CLI::App* explain = policy->add_subcommand("explain", "Which rule decides about a request, and why");
  auto* of = explain->add_option_group("policy", "Whose policy");
  of->add_option("-c,--container", explain_options.container, "The policy that this running container has");
  of->add_option("-p,--policy", explain_options.policy_file, "The policy in this file (- for standard input)");
  of->require_option(1);
  explain->add_option("METHOD", explain_options.method, "GET, POST ...")->required();
  explain->add_option("URL", explain_options.url, "https://HOST[:PORT][/PATH]")->required();

  CLI::App* doctor = app.add_subcommand("doctor", "Can this machine hold leashed containers? Checks every control");
  CLI::App* version = app.add_subcommand("version", "Print the version");

  // Last, since a command that is added takes the footer over.
  app.footer(
      "A container is named by its id, by the beginning of its id, or by the engine's name for it.\n"
      "Exit codes: 0 fine, 1 an error, 2 a wrong command line, 3 the request would be blocked (policy explain).\n"
      "\n"
      "Examples:\n"
      "  leash ps                               which containers are leashed\n"
      "  leash logs -f web                      what 'web' sends, as it happens\n"
      "  leash logs --state blocked             what was refused, of all containers\n"
      "  leash policy check ./leash.yaml        is this file a valid policy\n"
      "  leash policy explain --container web GET https://example.com/x\n"
      "                                         would this request pass, and by which rule");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? cli::kExitOk : cli::kExitUsage;
  }

  const cli::Directories directories = cli::Directories::standard();
  if (ps->parsed()) return finish(cli::run_ps(directories, ps_options));
  if (logs->parsed()) return finish(cli::run_logs(directories, logs_options));
  if (check->parsed()) return finish(cli::run_policy_check(policy_path));
  if (explain->parsed()) return finish(cli::run_policy_explain(directories, explain_options));
  if (doctor->parsed()) return finish(cli::run_doctor(directories));
  if (version->parsed()) std::puts("leash " LEASH_VERSION);
  return cli::kExitOk;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {  // CLI11's own, and memory
    std::fprintf(stderr, "leash: %s\n", error.what());
    return cli::kExitFailed;
  }
}
