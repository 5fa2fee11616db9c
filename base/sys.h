// One thin function per system call: no policy, errors with the object in their text, descriptors as
// Fd and close-on-exec from birth. Calls newer than our oldest libc go through syscall(2).
#pragma once

#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace leash::sys {

// ---- files ----

// open(2), openat(2); O_CLOEXEC is always added.
[[nodiscard]] Result<Fd> open(const std::string& path, int flags, mode_t mode = 0);
[[nodiscard]] Result<Fd> openat(int dir_fd, const std::string& path, int flags, mode_t mode = 0);
// openat2(2). `resolve` is a set of RESOLVE_* flags. Retries EAGAIN (a racing rename) a few times.
[[nodiscard]] Result<Fd> openat2(int dir_fd, const std::string& path, int flags, uint64_t resolve, mode_t mode = 0);
// Opens `path` as a container sees it: symlinks and ".." never leave `root_fd` (RESOLVE_IN_ROOT),
// magic links are refused.
[[nodiscard]] Result<Fd> open_in_root(int root_fd, const std::string& path, int flags, mode_t mode = 0);

[[nodiscard]] Result<struct stat> fstat(int fd);
[[nodiscard]] Result<std::string> readlinkat(int dir_fd, const std::string& path);
// The path the kernel knows an open descriptor by (/proc/self/fd/N).
[[nodiscard]] Result<std::string> fd_path(int fd);

// Reads to end of file; more than `limit` bytes is EFBIG.
[[nodiscard]] Result<std::string> read_all(int fd, size_t limit = size_t{64} << 20);
// Writes everything, retrying EINTR and short writes.
[[nodiscard]] Result<void> write_all(int fd, std::string_view data);

[[nodiscard]] Result<Fd> memfd_create(const char* name, unsigned flags);
[[nodiscard]] Result<std::pair<Fd, Fd>> pipe();  // first: read end, second: write end
[[nodiscard]] Result<void> set_cloexec(int fd, bool on);
[[nodiscard]] Result<void> set_nonblocking(int fd, bool on);

// ---- sockets ----

[[nodiscard]] Result<std::pair<Fd, Fd>> socketpair(int type);  // AF_UNIX
[[nodiscard]] Result<Fd> socket(int domain, int type, int protocol);

// ---- processes and namespaces ----

[[nodiscard]] Result<Fd> pidfd_open(pid_t pid);
[[nodiscard]] Result<void> pidfd_send_signal(int pidfd, int signal);
// True once the process behind `pidfd` has exited.
[[nodiscard]] bool pidfd_exited(int pidfd);
[[nodiscard]] Result<void> setns(int fd, int nstype);
[[nodiscard]] Result<void> unshare(int flags);

// ---- mounts by descriptor (mount_setattr(2), open_tree, move_mount, fsopen) ----

[[nodiscard]] Result<Fd> open_tree(int dir_fd, const std::string& path, unsigned flags);
[[nodiscard]] Result<void> move_mount(int from_dir, const std::string& from, int to_dir, const std::string& to,
                                      unsigned flags);
[[nodiscard]] Result<Fd> fsopen(const std::string& type);
[[nodiscard]] Result<void> fsconfig_string(int fs_fd, const std::string& key, const std::string& value);
[[nodiscard]] Result<void> fsconfig_flag(int fs_fd, const std::string& key);
[[nodiscard]] Result<void> fsconfig_fd(int fs_fd, const std::string& key, int fd);
[[nodiscard]] Result<void> fsconfig_create(int fs_fd);
[[nodiscard]] Result<Fd> fsmount(int fs_fd, unsigned attributes);
[[nodiscard]] Result<void> mount_setattr(int dir_fd, const std::string& path, unsigned flags,
                                         const struct mount_attr& attributes);

}  // namespace leash::sys
