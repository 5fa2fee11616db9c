#include "runtime/console.h"

#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "base/sys.h"
#include "runtime/root_paths.h"

#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif

namespace leash::runtime {

Result<Console> open_console(int root_fd, const std::optional<oci::ConsoleSize>& size) {
  Console console;
  // Looked at before it is opened for good: opening a device node of another kind may already do harm.
  TRY(Fd path, sys::open_in_root(root_fd, "/dev/pts/ptmx", O_PATH | O_NOFOLLOW));
  struct statfs fs = {};
  if (::fstatfs(path.get(), &fs) < 0) return Error::last_errno("statfs /dev/pts");
  TRY(const struct stat st, sys::fstat(path.get()));
  if (fs.f_type != DEVPTS_SUPER_MAGIC || !S_ISCHR(st.st_mode) || st.st_rdev != ::makedev(5, 2)) {
    return Error(ENODEV, "/dev/pts/ptmx is not the multiplexer of a devpts");
  }
  TRY(console.master, sys::open("/proc/self/fd/" + std::to_string(path.get()), O_RDWR | O_NOCTTY));
  const int unlock = 0;
  if (::ioctl(console.master.get(), TIOCSPTLCK, &unlock) < 0) return Error::last_errno("unlock terminal");
  console.slave = Fd(::ioctl(console.master.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!console.slave.valid()) return Error::last_errno("open terminal");
  if (size && (size->height != 0 || size->width != 0)) {
    struct winsize window = {};
    window.ws_row = static_cast<unsigned short>(size->height);
    window.ws_col = static_cast<unsigned short>(size->width);
    if (::ioctl(console.slave.get(), TIOCSWINSZ, &window) < 0) return Error::last_errno("set terminal size");
  }
  return console;
}

Result<void> mount_console(int root_fd, const Console& console) {
  TRY(auto place, make_parent_in_root(root_fd, "/dev/console"));
  auto made = sys::openat(place.first.get(), place.second, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0666);
  if (!made && made.error().code() != EEXIST) return std::move(made).error();
  TRY(Fd target, sys::openat(place.first.get(), place.second, O_PATH | O_NOFOLLOW));
  TRY(const struct stat st, sys::fstat(target.get()));
  if (S_ISLNK(st.st_mode) || S_ISDIR(st.st_mode)) return Error(EINVAL, "/dev/console is not a file");
  TRY(Fd tree, sys::open_tree(console.slave.get(), "", OPEN_TREE_CLONE | AT_EMPTY_PATH));
  return sys::move_mount(tree.get(), "", target.get(), "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH)
      .context("mount /dev/console");
}

Result<void> attach_console(const Console& console) {
  if (::ioctl(console.slave.get(), TIOCSCTTY, 0) < 0) return Error::last_errno("set controlling terminal");
  for (int fd = 0; fd < 3; ++fd) {
    if (::dup2(console.slave.get(), fd) < 0) return Error::last_errno("dup2 terminal");
  }
  return {};
}

Result<Fd> connect_console_socket(const std::string& path) {
  TRY(Fd socket, sys::socket(AF_UNIX, SOCK_STREAM, 0));
  struct sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string text = "dial unix " + path + ": connect";
  if (path.size() >= sizeof address.sun_path) return Error::from_errno(EINVAL, text);
  std::memcpy(address.sun_path, path.data(), path.size());
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0) {
    return Error::last_errno(text);
  }
  return socket;
}

Result<void> send_console(int socket_fd, int master_fd) {
  static char name[] = "/dev/ptmx";
  struct iovec part = {name, sizeof name - 1};
  alignas(struct cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  struct msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  struct cmsghdr* item = CMSG_FIRSTHDR(&header);
  item->cmsg_level = SOL_SOCKET;
  item->cmsg_type = SCM_RIGHTS;
  item->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(item), &master_fd, sizeof master_fd);
  if (::sendmsg(socket_fd, &header, MSG_NOSIGNAL) < 0) return Error::last_errno("send terminal");
  return {};
}

Result<Fd> receive_console(int socket_fd) {
  std::array<char, 64> name{};
  struct iovec part = {name.data(), name.size()};
  alignas(struct cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  struct msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  ssize_t length = 0;
  do {
    length = ::recvmsg(socket_fd, &header, MSG_CMSG_CLOEXEC);
  } while (length < 0 && errno == EINTR);
  if (length < 0) return Error::last_errno("receive terminal");
  const struct cmsghdr* item = CMSG_FIRSTHDR(&header);
  if (item == nullptr || item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) {
    return Error(EPROTO, "no terminal was sent");
  }
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(item), sizeof fd);
  struct winsize window = {};
  if (::ioctl(STDIN_FILENO, TIOCGWINSZ, &window) == 0) ::ioctl(fd, TIOCSWINSZ, &window);
  // What goes on to a file or a pipe shall have the program's own newlines; a terminal of ours adds the CR.
  struct termios settings = {};
  if (::tcgetattr(fd, &settings) == 0) {
    settings.c_oflag &= ~static_cast<tcflag_t>(ONLCR);
    ::tcsetattr(fd, TCSANOW, &settings);
  }
  return Fd(fd);
}

}  // namespace leash::runtime
