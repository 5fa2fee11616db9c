#include "runtime/sysctl.h"

#include <linux/magic.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>

#include "base/sys.h"

namespace leash::runtime {

Result<Fd> open_host_proc() {
  TRY(Fd proc, sys::open("/proc", O_PATH | O_DIRECTORY));
  struct statfs fs = {};
  if (::fstatfs(proc.get(), &fs) < 0) return Error::last_errno("statfs /proc");
  TRY(const struct stat st, sys::fstat(proc.get()));
  if (fs.f_type != PROC_SUPER_MAGIC || st.st_ino != 1) return Error(ENODEV, "/proc is not a procfs");
  return proc;
}

Result<Fd> open_in_proc(int proc_fd, const std::string& path, int flags) {
  return sys::openat2(proc_fd, path, flags, RESOLVE_BENEATH | RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS);
}

Result<void> write_sysctls(int proc_fd, const oci::StringMap& sysctls) {
  for (const auto& [name, value] : sysctls) {
    // "net.ipv4.conf.eth0/1.forwarding": a slash stands for a dot in a name (sysctl.d(5)).
    std::string path = name;
    if (path.find('/') == std::string::npos) {
      std::replace(path.begin(), path.end(), '.', '/');
    } else if (path.find('.') < path.find('/')) {
      for (char& c : path) c = c == '.' ? '/' : c == '/' ? '.' : c;
    }
    auto file = open_in_proc(proc_fd, "sys/" + path, O_WRONLY);
    if (!file) return Error::from_errno(file.error().code(), "open /proc/sys/" + path);
    if (::write(file->get(), value.data(), value.size()) < 0) return Error::last_errno("write /proc/sys/" + path);
  }
  return {};
}

}  // namespace leash::runtime
