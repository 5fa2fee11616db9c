#include "base/file.h"

#include <dirent.h>
#include <unistd.h>

#include <memory>

namespace leash::file {

namespace {

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

Result<void> remove_entry(int dir_fd, const std::string& name);

Result<void> empty_directory(Fd directory) {
  std::unique_ptr<DIR, CloseDir> stream(::fdopendir(directory.get()));
  if (!stream) return Error::last_errno("fdopendir");
  const int fd = directory.release();  // owned by `stream` from here
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    TRY_VOID(remove_entry(fd, name));
  }
  return {};
}

Result<void> remove_entry(int dir_fd, const std::string& name) {
  if (::unlinkat(dir_fd, name.c_str(), 0) == 0 || errno == ENOENT) return {};
  if (errno != EISDIR && errno != EPERM) return Error::last_errno("unlink '" + name + "'");
  auto child = sys::openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!child) return std::move(child).error();
  TRY_VOID(empty_directory(std::move(child).value()));
  if (::unlinkat(dir_fd, name.c_str(), AT_REMOVEDIR) < 0 && errno != ENOENT) {
    return Error::last_errno("rmdir '" + name + "'");
  }
  return {};
}

}  // namespace

Result<std::string> read(const std::string& path, size_t limit) {
  TRY(Fd fd, sys::open(path, O_RDONLY));
  return sys::read_all(fd.get(), limit).context("'" + path + "'");
}

Result<void> write_atomic(const std::string& path, std::string_view data, mode_t mode) {
  const std::string temporary = path + ".new." + std::to_string(::getpid());
  auto written = [&]() -> Result<void> {
    TRY(Fd fd, sys::open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, mode));
    TRY_VOID(sys::write_all(fd.get(), data).context("'" + temporary + "'"));
    if (::rename(temporary.c_str(), path.c_str()) < 0) return Error::last_errno("rename to '" + path + "'");
    return {};
  }();
  if (!written) ::unlink(temporary.c_str());
  return written;
}

Result<void> write_control(const std::string& path, std::string_view data) {
  TRY(Fd fd, sys::open(path, O_WRONLY));
  ssize_t length = 0;
  do {
    length = ::write(fd.get(), data.data(), data.size());
  } while (length < 0 && errno == EINTR);
  if (length < 0) return Error::last_errno("write '" + path + "'");
  return {};
}

Result<void> make_directories(const std::string& path, mode_t mode) {
  for (size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string prefix = path.substr(0, slash);
    if (!prefix.empty() && ::mkdir(prefix.c_str(), mode) < 0 && errno != EEXIST) {
      return Error::last_errno("mkdir '" + prefix + "'");
    }
    if (slash == std::string::npos) return {};
  }
}

Result<void> remove_tree(const std::string& path) {
  return remove_entry(AT_FDCWD, path).context("remove '" + path + "'");
}

}  // namespace leash::file
