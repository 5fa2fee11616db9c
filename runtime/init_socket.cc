#include "runtime/init_socket.h"

#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "base/sys.h"

namespace leash::runtime {

namespace {

std::string short_path(const Fd& directory) { return "/proc/self/fd/" + std::to_string(directory.get()) + "/init.sock"; }

}  // namespace

Result<Fd> listen_for_start(const std::string& container_directory) {
  TRY(Fd directory, sys::open(container_directory, O_PATH | O_DIRECTORY));
  TRY(Fd socket, sys::socket(AF_UNIX, SOCK_SEQPACKET, 0));
  const std::string path = short_path(directory);
  struct sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0) {
    return Error::last_errno("bind " + container_directory + "/init.sock");
  }
  if (::chmod(path.c_str(), 0600) < 0) return Error::last_errno("chmod init.sock");
  if (::listen(socket.get(), 16) < 0) return Error::last_errno("listen at init.sock");
  return socket;
}

Result<Channel> connect_to_init(const std::string& container_directory) {
  TRY(Fd directory, sys::open(container_directory, O_PATH | O_DIRECTORY));
  return Channel::connect(short_path(directory));
}

}  // namespace leash::runtime
