#include "runtime/hidden_paths.h"

#include <sys/mount.h>
#include <sys/sysmacros.h>

#include "base/sys.h"

namespace leash::runtime {

namespace {

constexpr unsigned kEmptyPaths = MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH;

Result<void> set_readonly(int mount_fd) {
  struct mount_attr attributes = {};
  attributes.attr_set = MOUNT_ATTR_RDONLY;
  return sys::mount_setattr(mount_fd, "", AT_EMPTY_PATH, attributes);
}

// Read-only as a mount: writing to the device still works, but chown and chmod through the mask would
// reach the host's node.
Result<Fd> null_mount() {
  TRY(Fd null, sys::open_tree(AT_FDCWD, "/dev/null", OPEN_TREE_CLONE));
  TRY(const struct stat st, sys::fstat(null.get()));
  if (!S_ISCHR(st.st_mode) || st.st_rdev != ::makedev(1, 3)) return Error(ENODEV, "/dev/null is not the null device");
  TRY_VOID(set_readonly(null.get()));
  return null;
}

Result<Fd> empty_directory() {
  TRY(Fd fs, sys::fsopen("tmpfs"));
  TRY_VOID(sys::fsconfig_string(fs.get(), "size", "0"));
  TRY_VOID(sys::fsconfig_string(fs.get(), "mode", "755"));
  TRY_VOID(sys::fsconfig_create(fs.get()));
  return sys::fsmount(fs.get(), MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
}

Result<Fd> clone_of(const Fd& mount) { return sys::open_tree(mount.get(), "", OPEN_TREE_CLONE | AT_EMPTY_PATH); }

bool is_absent(const Error& error) { return error.code() == ENOENT || error.code() == ENOTDIR; }

}  // namespace

Result<void> mask_paths(int root_fd, const std::vector<std::string>& paths) {
  // Made on first use; every further mask is a mount of the same file system.
  Fd attached_null;
  Fd attached_directory;
  for (const std::string& path : paths) {
    auto target = sys::open_in_root(root_fd, path, O_PATH);
    if (!target) {
      if (is_absent(target.error())) continue;
      return std::move(target).error().context("mask path " + path);
    }
    TRY(const struct stat st, sys::fstat(target->get()));
    Fd& attached = S_ISDIR(st.st_mode) ? attached_directory : attached_null;
    Fd mask;
    if (attached.valid()) {
      TRY(mask, clone_of(attached));
    } else if (S_ISDIR(st.st_mode)) {
      TRY(mask, empty_directory());
    } else {
      TRY(mask, null_mount());
    }
    TRY_VOID(sys::move_mount(mask.get(), "", target->get(), "", kEmptyPaths).context("mask path " + path));
    if (!attached.valid()) attached = std::move(mask);
  }
  return {};
}

Result<void> make_paths_readonly(int root_fd, const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    auto target = sys::open_in_root(root_fd, path, O_PATH);
    if (!target) {
      if (is_absent(target.error())) continue;
      return std::move(target).error().context("read-only path " + path);
    }
    TRY(Fd self, sys::open_tree(target->get(), "", OPEN_TREE_CLONE | AT_RECURSIVE | AT_EMPTY_PATH));
    TRY_VOID(set_readonly(self.get()).context("read-only path " + path));
    TRY_VOID(sys::move_mount(self.get(), "", target->get(), "", kEmptyPaths).context("read-only path " + path));
  }
  return {};
}

}  // namespace leash::runtime
