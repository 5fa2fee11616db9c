#include "runtime/sealed_self.h"

#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdlib>

#include "base/sys.h"

namespace leash::runtime {

namespace {

// Set for the second execution: the directory of the original. The engine's environment is trusted, but
// that the seal holds is looked at all the same.
constexpr const char* kMarker = "LEASH_RUNTIME_SEALED";

Result<Fd> readonly_mount_of_self() {
  TRY(Fd self, sys::open("/proc/self/exe", O_PATH));
  TRY(Fd mount, sys::open_tree(self.get(), "", OPEN_TREE_CLONE | AT_EMPTY_PATH));
  struct mount_attr attributes = {};
  attributes.attr_set = MOUNT_ATTR_RDONLY;
  TRY_VOID(sys::mount_setattr(mount.get(), "", AT_EMPTY_PATH, attributes));
  return mount;
}

Result<Fd> sealed_copy_of_self() {
  TRY(Fd self, sys::open("/proc/self/exe", O_RDONLY));
  TRY(Fd copy, sys::memfd_create("leash-runtime", MFD_ALLOW_SEALING));
  TRY(const struct stat st, sys::fstat(self.get()));
  for (off_t done = 0; done < st.st_size;) {
    const ssize_t length = ::sendfile(copy.get(), self.get(), nullptr, static_cast<size_t>(st.st_size - done));
    if (length <= 0) return Error::last_errno("copy of /proc/self/exe");
    done += length;
  }
  if (::fcntl(copy.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0) {
    return Error::last_errno("seal the copy of /proc/self/exe");
  }
  return copy;
}

Result<bool> is_sealed() {
  TRY(Fd self, sys::open("/proc/self/exe", O_RDONLY));
  if (::fcntl(self.get(), F_GET_SEALS) > 0) return true;
  struct statvfs fs = {};
  if (::fstatvfs(self.get(), &fs) < 0) return Error::last_errno("statvfs /proc/self/exe");
  return (fs.f_flag & ST_RDONLY) != 0;
}

}  // namespace

Result<std::string> own_directory() {
  TRY(const std::string path, sys::readlinkat(AT_FDCWD, "/proc/self/exe"));
  return path.substr(0, path.rfind('/'));
}

Result<std::string> seal_self(char** argv) {
  if (const char* marker = std::getenv(kMarker)) {
    std::string directory = marker;
    ::unsetenv(kMarker);
    TRY(const bool is_done, is_sealed());
    if (!is_done) return Error(EPERM, "the sealed copy of leash-runtime is not sealed");
    return directory;
  }
  TRY(std::string directory, own_directory());
  auto image = readonly_mount_of_self();
  if (!image) image = sealed_copy_of_self();
  if (!image) return std::move(image).error().context("seal leash-runtime");
  if (::setenv(kMarker, directory.c_str(), 1) < 0) return Error::last_errno("setenv");
  ::execveat(image->get(), "", argv, environ, AT_EMPTY_PATH);
  return Error::last_errno("execute the sealed leash-runtime");
}

}  // namespace leash::runtime
