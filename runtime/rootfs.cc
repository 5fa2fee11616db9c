#include "runtime/rootfs.h"

#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <sstream>
#include <vector>

#include "base/file.h"
#include "base/sys.h"

namespace leash::runtime {

namespace {

// pivot_root(2) refuses a new root whose parent mount is shared: the mount that `path` lies on becomes
// private, in this mount namespace only.
Result<void> make_parent_mount_private(std::string path) {
  for (;;) {
    struct statx st = {};
    if (::statx(AT_FDCWD, path.c_str(), 0, STATX_TYPE, &st) < 0) return Error::last_errno("statx " + path);
    if ((st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0 || path == "/") break;
    const size_t slash = path.rfind('/');
    path = slash == 0 ? "/" : path.substr(0, slash);
  }
  if (::mount(nullptr, path.c_str(), nullptr, MS_PRIVATE, nullptr) < 0) return Error::last_errno("make private " + path);
  return {};
}

// Without pivot_root the host's mounts stay beneath the new root. Full views of procfs and sysfs among
// them would let a user namespace inside mount fresh ones without the masks (mount_too_revealing), so
// they go, as in runc.
Result<void> unmount_host_proc_and_sys(const std::string& root_path) {
  TRY(const std::string table, file::read("/proc/self/mountinfo"));
  std::vector<std::string> points;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string skip;
    std::string point;
    words >> skip >> skip >> skip >> skip >> point;
    while (words >> skip && skip != "-") {
    }
    std::string type;
    words >> type;
    const bool is_inside = point == root_path || point.starts_with(root_path + "/");
    if (!is_inside && (type == "proc" || type == "sysfs")) points.push_back(point);
  }
  for (const std::string& point : points) {
    if (::mount(nullptr, point.c_str(), nullptr, MS_SLAVE | MS_REC, nullptr) < 0) continue;  // hidden by another mount
    if (::umount2(point.c_str(), MNT_DETACH) == 0) continue;
    if (errno != EINVAL && errno != EPERM) return Error::last_errno("unmount " + point);
    // A locked mount cannot go, but it can be covered.
    if (::mount("tmpfs", point.c_str(), "tmpfs", 0, nullptr) < 0) return Error::last_errno("cover " + point);
  }
  return {};
}

}  // namespace

Result<Fd> prepare_root(const std::string& path, unsigned long propagation, bool is_mount_namespace_own) {
  if (is_mount_namespace_own) {
    const unsigned long flags = propagation == 0 ? MS_SLAVE | MS_REC : propagation;
    if (::mount(nullptr, "/", nullptr, flags, nullptr) < 0) return Error::last_errno("set propagation of /");
    if ((flags & (MS_SHARED | MS_UNBINDABLE | MS_PRIVATE)) != 0 || propagation == MS_SLAVE) {
      TRY_VOID(make_parent_mount_private(path));
    }
  }
  TRY(Fd root, sys::open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | AT_RECURSIVE));
  TRY_VOID(sys::move_mount(root.get(), "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH).context("mount rootfs"));
  return root;
}

Result<void> enter_root(int root_fd, RootChange how) {
  if (how == RootChange::kChroot) {
    if (::fchdir(root_fd) < 0 || ::chroot(".") < 0 || ::chdir("/") < 0) return Error::last_errno("chroot");
    return {};
  }
  if (how == RootChange::kMove) {
    TRY(const std::string path, sys::fd_path(root_fd));
    TRY_VOID(unmount_host_proc_and_sys(path));
    if (::fchdir(root_fd) < 0) return Error::last_errno("fchdir rootfs");
    if (::mount(".", "/", nullptr, MS_MOVE, nullptr) < 0) return Error::last_errno("move rootfs to /");
    if (::chroot(".") < 0 || ::chdir("/") < 0) return Error::last_errno("chroot");
    return {};
  }
  TRY(Fd old_root, sys::open("/", O_PATH | O_DIRECTORY));
  if (::fchdir(root_fd) < 0) return Error::last_errno("fchdir rootfs");
  // "." for both: the old root is stacked on the new one and needs no directory in the image.
  if (::syscall(SYS_pivot_root, ".", ".") < 0) return Error::last_errno("pivot_root");
  if (::fchdir(old_root.get()) < 0) return Error::last_errno("fchdir old root");
  // Slave, so that the unmount below does not reach the host; not private, so that it is not pinned.
  if (::mount(nullptr, ".", nullptr, MS_SLAVE | MS_REC, nullptr) < 0) return Error::last_errno("make old root slave");
  if (::umount2(".", MNT_DETACH) < 0) return Error::last_errno("unmount old root");
  if (::chdir("/") < 0) return Error::last_errno("chdir /");
  return {};
}

Result<void> set_root_propagation(unsigned long flags) {
  if (::mount(nullptr, "/", nullptr, flags, nullptr) < 0) return Error::last_errno("set propagation of the root");
  return {};
}

Result<void> make_root_readonly() {
  struct mount_attr attributes = {};
  attributes.attr_set = MOUNT_ATTR_RDONLY;
  return sys::mount_setattr(AT_FDCWD, "/", 0, attributes).context("make root read-only");
}

}  // namespace leash::runtime
