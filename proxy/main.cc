// leash-proxy: the intercepting proxy of one container. It parses hostile bytes from both sides and so
// holds the least: started by the shim as a user of its own, without capabilities, with one descriptor
// (3, the control channel). Listeners, logs and sockets towards the world all come over that one.
#include <sys/prctl.h>

#include <csignal>
#include <cstdlib>

#include "base/log.h"
#include "proxy/confine.h"
#include "proxy/control.h"
#include "proxy/gate.h"

namespace {

constexpr int kControlFd = 3;

}  // namespace

int main() {
  // Before the first secret arrives: no ptrace, no core dump, no /proc/PID/mem for our own uid.
  if (::prctl(PR_SET_DUMPABLE, 0) < 0) return EXIT_FAILURE;
  if (const auto confined = leash::proxy::confine_self(); !confined) {
    leash::log::error(confined.error().message());
    return EXIT_FAILURE;
  }
  ::signal(SIGPIPE, SIG_IGN);
  leash::proxy::asio::io_context context(1);
  leash::proxy::Control control(context, leash::Channel(leash::Fd(kControlFd)));
  leash::proxy::spawn(context, "control", control.run(), [&context] { context.stop(); });
  context.run();
  // Coroutines under way refer to what `control` owns: nothing is taken apart piece by piece, the
  // kernel does it at once. Secrets are in memory that dies with the process and is never dumped.
  std::_Exit(EXIT_SUCCESS);
}
