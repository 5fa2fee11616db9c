#include "runtime/leash/shim_client.h"

#include <unistd.h>

#include "base/channel.h"
#include "base/process.h"

namespace leash::runtime {

namespace {

constexpr std::chrono::seconds kDeadline{10};

std::string shim_directory(const Container& container) {
  return oci::registry_directory() + "/" + container.record.id;
}

// Nobody answers at the socket: the shim was killed, or is ending. What it left is removed by its own
// program.
Result<void> clean_up_after_shim(const GlobalOptions& options, const Container& container) {
  if (::access(shim_directory(container).c_str(), F_OK) < 0) return {};
  process::Command command;
  command.path = options.program_directory + "/leash-shim";
  command.args = {"leash-shim", "--cleanup", container.record.id};
  command.timeout = kDeadline;
  TRY(const process::Output output, process::run(command));
  if (output.wait_status == 0 && !output.is_timed_out) return {};
  return Error("leash-shim --cleanup: " + process::describe_status(output.wait_status) + ": " + output.err);
}

}  // namespace

Result<oci::PrepareReply> prepare_exec(const Container& container, const std::vector<std::string>& env) {
  TRY(const Channel shim, Channel::connect(shim_directory(container) + "/shim.sock").context("the shim does not answer"));
  oci::ExecRequest request;
  request.container_id = container.record.id;
  request.env = env;
  TRY_VOID(shim.send("exec", oci::print(request)));
  auto answer = shim.receive(kDeadline);
  if (!answer) return std::move(answer).error().context("the shim does not answer");
  if (!*answer) return Error("the shim has ended");
  if ((*answer)->kind != "prepared") return Error((*answer)->body);
  return oci::parse_prepare_reply((*answer)->body);
}

Result<void> end_shim(const GlobalOptions& options, const Container& container) {
  if (!container.record.is_leashed) return {};
  auto shim = Channel::connect(shim_directory(container) + "/shim.sock");
  if (shim) {
    oci::EndRequest request;
    request.container_id = container.record.id;
    static_cast<void>(shim->send("end", oci::print(request)));
    // Its end of the connection closes when everything is taken down.
    auto answer = shim->receive(kDeadline);
    if (!answer && answer.error().code() == ETIMEDOUT) return Error(ETIMEDOUT, "leash: the shim does not end");
  }
  return clean_up_after_shim(options, container);
}

}  // namespace leash::runtime
