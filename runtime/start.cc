#include "runtime/start.h"

#include <signal.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sys.h"
#include "oci-spec/config.h"
#include "runtime/hooks.h"
#include "runtime/init_protocol.h"
#include "runtime/init_socket.h"
#include "runtime/seccomp.h"

namespace leash::runtime {

namespace {

Result<Channel> connect_to_waiting_init(const Container& container) {
  auto channel = connect_to_init(container.directory);
  if (channel) return channel;
  const int code = channel.error().code();
  if (code != ECONNREFUSED && code != ENOENT) return channel;
  if (container.is_alive()) return Error("cannot start an already running container");
  return Error("cannot start a container that has stopped");
}

Result<oci::Config> kept_config(const Container& container) {
  TRY(const std::string text, file::read(container.directory + "/config.json"));
  return oci::parse_config(text);
}

Result<void> hand_over_listener(const Container& container, const oci::Config& config, const Message& message) {
  if (message.fds.size() != 1 || !config.linux.seccomp) return Error(EPROTO, "init sent no seccomp listener");
  oci::ContainerProcessState state;
  state.oci_version = container.record.oci_version;
  state.fds = {"seccompFd"};
  state.pid = container.record.init_pid;
  state.metadata = config.linux.seccomp->listener_metadata;
  TRY(state.state, container.state());
  return send_seccomp_listener(config.linux.seccomp->listener_path, message.fds[0].get(), state);
}

// Follows init to its execve.
Result<void> follow_init(const Container& container, const oci::Config& config, const Channel& init) {
  TRY_VOID(init.send(message::kStart));
  bool is_executing = false;
  for (;;) {
    TRY(auto message, init.receive());
    if (!message) break;
    if (message->kind == message::kExec) is_executing = true;
    if (message->kind == message::kFailed) return Error(message->body);
    if (message->kind == message::kListener) TRY_VOID(hand_over_listener(container, config, *message));
  }
  if (!is_executing) return Error("the container's init process ended before it could start the program");
  return {};
}

Result<void> run_poststart(const Container& container, const oci::Config& config) {
  if (config.hooks.poststart.empty()) return {};
  oci::State state;
  state.oci_version = container.record.oci_version;
  state.id = container.record.id;
  state.status = oci::Status::kRunning;
  state.pid = container.record.init_pid;
  state.bundle = container.record.bundle;
  state.annotations = container.record.annotations;
  auto done = run_hooks(config.hooks.poststart, oci::print_for_hook(state));
  if (!done) ::kill(container.record.init_pid, SIGKILL);
  return done;
}

}  // namespace

Result<void> start_container(const Container& container) {
  TRY(const Channel init, connect_to_waiting_init(container));
  TRY(const oci::Config config, kept_config(container));
  TRY_VOID(follow_init(container, config, init));
  if (::unlink(container.init_socket().c_str()) < 0 && errno != ENOENT) return Error::last_errno("remove init.sock");
  return run_poststart(container, config);
}

}  // namespace leash::runtime
