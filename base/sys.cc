#include "base/sys.h"

#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

namespace leash::sys {

namespace {

std::string quoted(std::string_view verb, std::string_view object) {
  std::string text(verb);
  text += " '";
  text += object;
  text += '\'';
  return text;
}

Result<void> done(long rc, std::string_view verb, std::string_view object) {
  if (rc < 0) {
    const int code = errno;
    return Error::from_errno(code, quoted(verb, object));
  }
  return {};
}

Result<Fd> opened(long rc, std::string_view verb, std::string_view object) {
  if (rc < 0) {
    const int code = errno;
    return Error::from_errno(code, quoted(verb, object));
  }
  return Fd(static_cast<int>(rc));
}

}  // namespace

Result<Fd> open(const std::string& path, int flags, mode_t mode) { return openat(AT_FDCWD, path, flags, mode); }

Result<Fd> openat(int dir_fd, const std::string& path, int flags, mode_t mode) {
  long rc = 0;
  do {
    rc = ::openat(dir_fd, path.c_str(), flags | O_CLOEXEC, mode);
  } while (rc < 0 && errno == EINTR);
  return opened(rc, "open", path);
}

Result<Fd> openat2(int dir_fd, const std::string& path, int flags, uint64_t resolve, mode_t mode) {
  struct open_how how = {};
  how.flags = static_cast<uint64_t>(static_cast<unsigned>(flags | O_CLOEXEC));
  how.mode = mode;
  how.resolve = resolve;
  long rc = -1;
  // EAGAIN: a rename or mount raced with a ".." that RESOLVE_IN_ROOT had to check (openat2(2)).
  for (int attempt = 0; attempt < 128; ++attempt) {
    rc = ::syscall(SYS_openat2, dir_fd, path.c_str(), &how, sizeof how);
    if (rc >= 0 || (errno != EAGAIN && errno != EINTR)) break;
  }
  return opened(rc, "open", path);
}

Result<Fd> open_in_root(int root_fd, const std::string& path, int flags, mode_t mode) {
  return openat2(root_fd, path.empty() ? "." : path, flags, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS, mode);
}

Result<struct stat> fstat(int fd) {
  struct stat st = {};
  if (::fstat(fd, &st) < 0) return Error::last_errno("fstat");
  return st;
}

Result<std::string> readlinkat(int dir_fd, const std::string& path) {
  std::array<char, 4096> buffer{};
  const ssize_t length = ::readlinkat(dir_fd, path.c_str(), buffer.data(), buffer.size());
  if (length < 0) return Error::last_errno(quoted("readlink", path));
  return std::string(buffer.data(), static_cast<size_t>(length));
}

Result<std::string> fd_path(int fd) { return readlinkat(AT_FDCWD, "/proc/self/fd/" + std::to_string(fd)); }

Result<std::string> read_all(int fd, size_t limit) {
  std::string data;
  std::array<char, 16384> buffer;
  for (;;) {
    const ssize_t length = ::read(fd, buffer.data(), buffer.size());
    if (length < 0) {
      if (errno == EINTR) continue;
      return Error::last_errno("read");
    }
    if (length == 0) return data;
    if (data.size() + static_cast<size_t>(length) > limit) return Error::from_errno(EFBIG, "read");
    data.append(buffer.data(), static_cast<size_t>(length));
  }
}

Result<void> write_all(int fd, std::string_view data) {
  while (!data.empty()) {
    const ssize_t length = ::write(fd, data.data(), data.size());
    if (length < 0) {
      if (errno == EINTR) continue;
      return Error::last_errno("write");
    }
    data.remove_prefix(static_cast<size_t>(length));
  }
  return {};
}

Result<Fd> memfd_create(const char* name, unsigned flags) {
  return opened(::memfd_create(name, flags | MFD_CLOEXEC), "memfd_create", name);
}

Result<std::pair<Fd, Fd>> pipe() {
  std::array<int, 2> fds{};
  if (::pipe2(fds.data(), O_CLOEXEC) < 0) return Error::last_errno("pipe2");
  return std::pair(Fd(fds[0]), Fd(fds[1]));
}

Result<void> set_cloexec(int fd, bool on) {
  if (::fcntl(fd, F_SETFD, on ? FD_CLOEXEC : 0) < 0) return Error::last_errno("fcntl F_SETFD");
  return {};
}

Result<void> set_nonblocking(int fd, bool on) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0) return Error::last_errno("fcntl F_GETFL");
  if (::fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK) < 0) {
    return Error::last_errno("fcntl F_SETFL");
  }
  return {};
}

Result<std::pair<Fd, Fd>> socketpair(int type) {
  std::array<int, 2> fds{};
  if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds.data()) < 0) return Error::last_errno("socketpair");
  return std::pair(Fd(fds[0]), Fd(fds[1]));
}

Result<Fd> socket(int domain, int type, int protocol) {
  return opened(::socket(domain, type | SOCK_CLOEXEC, protocol), "socket", std::to_string(domain));
}

Result<Fd> pidfd_open(pid_t pid) {
  return opened(::syscall(SYS_pidfd_open, pid, 0), "pidfd_open", std::to_string(pid));
}

Result<void> pidfd_send_signal(int pidfd, int signal) {
  return done(::syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0), "pidfd_send_signal",
              std::to_string(signal));
}

bool pidfd_exited(int pidfd) {
  struct pollfd entry = {pidfd, POLLIN, 0};
  return ::poll(&entry, 1, 0) > 0;
}

Result<void> setns(int fd, int nstype) { return done(::setns(fd, nstype), "setns", std::to_string(fd)); }

Result<void> unshare(int flags) { return done(::unshare(flags), "unshare", std::to_string(flags)); }

Result<Fd> open_tree(int dir_fd, const std::string& path, unsigned flags) {
  return opened(::syscall(SYS_open_tree, dir_fd, path.c_str(), flags | OPEN_TREE_CLOEXEC), "open_tree", path);
}

Result<void> move_mount(int from_dir, const std::string& from, int to_dir, const std::string& to, unsigned flags) {
  return done(::syscall(SYS_move_mount, from_dir, from.c_str(), to_dir, to.c_str(), flags), "move_mount", to);
}

Result<Fd> fsopen(const std::string& type) {
  return opened(::syscall(SYS_fsopen, type.c_str(), FSOPEN_CLOEXEC), "fsopen", type);
}

Result<void> fsconfig_string(int fs_fd, const std::string& key, const std::string& value) {
  return done(::syscall(SYS_fsconfig, fs_fd, FSCONFIG_SET_STRING, key.c_str(), value.c_str(), 0), "fsconfig", key);
}

Result<void> fsconfig_flag(int fs_fd, const std::string& key) {
  return done(::syscall(SYS_fsconfig, fs_fd, FSCONFIG_SET_FLAG, key.c_str(), nullptr, 0), "fsconfig", key);
}

Result<void> fsconfig_fd(int fs_fd, const std::string& key, int fd) {
  return done(::syscall(SYS_fsconfig, fs_fd, FSCONFIG_SET_FD, key.c_str(), nullptr, fd), "fsconfig", key);
}

Result<void> fsconfig_create(int fs_fd) {
  return done(::syscall(SYS_fsconfig, fs_fd, FSCONFIG_CMD_CREATE, nullptr, nullptr, 0), "fsconfig", "create");
}

Result<Fd> fsmount(int fs_fd, unsigned attributes) {
  return opened(::syscall(SYS_fsmount, fs_fd, FSMOUNT_CLOEXEC, attributes), "fsmount", std::to_string(fs_fd));
}

Result<void> mount_setattr(int dir_fd, const std::string& path, unsigned flags, const struct mount_attr& attributes) {
  return done(::syscall(SYS_mount_setattr, dir_fd, path.c_str(), flags, &attributes, sizeof attributes),
              "mount_setattr", path);
}

}  // namespace leash::sys
