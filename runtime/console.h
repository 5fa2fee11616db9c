// The container's terminal: a pair from the container's own devpts, never from the host's.
#pragma once

#include <optional>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "oci-spec/config.h"

namespace leash::runtime {

struct Console {
  Fd master;
  Fd slave;
};

// Opens <root>/dev/pts/ptmx after checking that it is the multiplexer of a devpts, and the slave by the
// master's own descriptor (TIOCGPTPEER), so that no path in the container decides which terminal it is
// (CVE-2025-52565).
[[nodiscard]] Result<Console> open_console(int root_fd, const std::optional<oci::ConsoleSize>& size);
// Binds the slave over /dev/console.
[[nodiscard]] Result<void> mount_console(int root_fd, const Console& console);
// The slave becomes the controlling terminal of this session, and stdin, stdout and stderr.
[[nodiscard]] Result<void> attach_console(const Console& console);

// Connects to --console-socket. Error as Go's: "dial unix /x: connect: no such file or directory".
[[nodiscard]] Result<Fd> connect_console_socket(const std::string& path);
// One message: the terminal's name and the master's descriptor, as engines expect it.
[[nodiscard]] Result<void> send_console(int socket_fd, int master_fd);
// The other side of a socket pair, for `run` and `exec` in the foreground: the master, in the size of our
// own terminal before the program can ask for it.
[[nodiscard]] Result<Fd> receive_console(int socket_fd);

}  // namespace leash::runtime
