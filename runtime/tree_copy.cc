#include "runtime/tree_copy.h"

#include <dirent.h>
#include <sys/sendfile.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/sys.h"

namespace leash::runtime {

namespace {

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

Result<void> copy_attributes(int from_fd, int to_fd) {
  std::array<char, 65536> names{};
  const ssize_t length = ::flistxattr(from_fd, names.data(), names.size());
  if (length < 0) {
    if (errno == ENOTSUP) return {};
    return Error::last_errno("flistxattr");
  }
  for (const char* name = names.data(); name < names.data() + length; name += std::char_traits<char>::length(name) + 1) {
    std::array<char, 65536> value{};
    const ssize_t size = ::fgetxattr(from_fd, name, value.data(), value.size());
    if (size < 0) continue;  // trusted.* and the like, not for this process to read
    // A tmpfs does not hold every class of attribute; what it cannot hold means nothing on it.
    if (::fsetxattr(to_fd, name, value.data(), static_cast<size_t>(size), 0) < 0 && errno != ENOTSUP && errno != EPERM) {
      return Error::last_errno(std::string("fsetxattr ") + name);
    }
  }
  return {};
}

Result<void> copy_owner_mode_times(const struct stat& st, int to_fd) {
  if (::fchown(to_fd, st.st_uid, st.st_gid) < 0) return Error::last_errno("fchown");
  if (::fchmod(to_fd, st.st_mode & 07777) < 0) return Error::last_errno("fchmod");
  const std::array<struct timespec, 2> times = {st.st_atim, st.st_mtim};
  if (::futimens(to_fd, times.data()) < 0) return Error::last_errno("futimens");
  return {};
}

Result<void> copy_file(int from_dir, int to_dir, const std::string& name, const struct stat& st) {
  TRY(Fd from, sys::openat(from_dir, name, O_RDONLY | O_NOFOLLOW));
  TRY(Fd to, sys::openat(to_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  for (;;) {
    const ssize_t length = ::sendfile(to.get(), from.get(), nullptr, size_t{1} << 20);
    if (length < 0) return Error::last_errno("copy " + name);
    if (length == 0) break;
  }
  TRY_VOID(copy_attributes(from.get(), to.get()));
  return copy_owner_mode_times(st, to.get());
}

Result<void> copy_entry(int from_dir, int to_dir, const std::string& name) {
  struct stat st = {};
  if (::fstatat(from_dir, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) < 0) return Error::last_errno("stat " + name);
  if (S_ISDIR(st.st_mode)) {
    if (::mkdirat(to_dir, name.c_str(), 0700) < 0) return Error::last_errno("mkdir " + name);
    TRY(Fd from, sys::openat(from_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    TRY(Fd to, sys::openat(to_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    TRY_VOID(copy_directory(from.get(), to.get()));
    TRY_VOID(copy_attributes(from.get(), to.get()));
    return copy_owner_mode_times(st, to.get());
  }
  if (S_ISREG(st.st_mode)) return copy_file(from_dir, to_dir, name, st);
  if (S_ISLNK(st.st_mode)) {
    TRY(const std::string target, sys::readlinkat(from_dir, name));
    if (::symlinkat(target.c_str(), to_dir, name.c_str()) < 0) return Error::last_errno("symlink " + name);
  } else if (S_ISSOCK(st.st_mode)) {
    return {};
  } else if (::mknodat(to_dir, name.c_str(), st.st_mode, st.st_rdev) < 0) {
    return Error::last_errno("mknod " + name);
  }
  if (::fchownat(to_dir, name.c_str(), st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW) < 0) {
    return Error::last_errno("chown " + name);
  }
  return {};
}

}  // namespace

Result<void> copy_directory(int from_fd, int to_fd) {
  TRY(Fd listing, sys::openat(from_fd, ".", O_RDONLY | O_DIRECTORY));
  std::unique_ptr<DIR, CloseDir> stream(::fdopendir(listing.get()));
  if (!stream) return Error::last_errno("fdopendir");
  static_cast<void>(listing.release());  // owned by `stream`
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    TRY_VOID(copy_entry(from_fd, to_fd, name));
  }
  return {};
}

}  // namespace leash::runtime
