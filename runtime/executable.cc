#include "runtime/executable.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string_view>

namespace leash::runtime {

namespace {

// 0, or the errno of what stands against executing it.
int check_executable(const std::string& path, bool& is_stat_error) {
  struct stat st = {};
  is_stat_error = true;
  if (::stat(path.c_str(), &st) < 0) return errno;
  is_stat_error = false;
  if (S_ISDIR(st.st_mode)) return EACCES;
  // faccessat2(2) with AT_EACCESS asks for the file system ids and the effective capabilities, and says
  // no for a noexec mount, too. Before Linux 5.8 the mode bits must do.
  if (::syscall(SYS_faccessat2, AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0) return 0;
  if (errno != ENOSYS && errno != EPERM) return errno;
  return (st.st_mode & 0111) != 0 ? 0 : EACCES;
}

std::string_view search_path(const std::vector<std::string>& env) {
  for (const std::string& entry : env) {
    if (entry.starts_with("PATH=")) return std::string_view(entry).substr(5);
  }
  return {};
}

}  // namespace

Result<std::string> find_executable(const std::string& name, const std::vector<std::string>& env) {
  const std::string quoted = "exec: \"" + name + "\"";
  bool is_stat_error = false;
  if (name.find('/') != std::string::npos) {
    const int code = check_executable(name, is_stat_error);
    if (code == 0) return name;
    return Error::from_errno(code, is_stat_error ? quoted + ": stat " + name : quoted);
  }
  std::string_view rest = search_path(env);
  while (!name.empty() && !rest.empty()) {
    const size_t colon = rest.find(':');
    std::string directory(rest.substr(0, colon));
    if (directory.empty()) directory = ".";
    std::string candidate = directory + "/" + name;
    if (check_executable(candidate, is_stat_error) == 0) return candidate;
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  return Error(ENOENT, quoted + ": executable file not found in $PATH");
}

}  // namespace leash::runtime
