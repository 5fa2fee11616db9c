#include "runtime/hooks.h"

#include "base/log.h"
#include "base/process.h"

namespace leash::runtime {

namespace {

Result<void> run_hook(const oci::Hook& hook, const std::string& state) {
  process::Command command;
  command.path = hook.path;
  command.args = hook.args;
  command.env = hook.env;
  command.stdin_text = state;
  if (hook.timeout_seconds) command.timeout = std::chrono::seconds(*hook.timeout_seconds);
  TRY(const process::Output output, process::run(command));
  if (output.is_timed_out) {
    return Error(ETIMEDOUT, "hook ran past specified timeout of " + std::to_string(*hook.timeout_seconds) + ".0s");
  }
  if (output.wait_status != 0) {
    return Error("error running hook: " + process::describe_status(output.wait_status) + ", stdout: " + output.out +
                 ", stderr: " + output.err);
  }
  return {};
}

}  // namespace

Result<void> run_hooks(const std::vector<oci::Hook>& hooks, const std::string& state) {
  for (size_t i = 0; i < hooks.size(); ++i) {
    TRY_VOID(run_hook(hooks[i], state).context("error running hook #" + std::to_string(i)));
  }
  return {};
}

void run_hooks_logging_errors(const std::vector<oci::Hook>& hooks, const std::string& state) {
  for (size_t i = 0; i < hooks.size(); ++i) {
    auto done = run_hook(hooks[i], state);
    if (!done) log::error("error running hook #" + std::to_string(i) + ": " + done.error().message());
  }
}

}  // namespace leash::runtime
