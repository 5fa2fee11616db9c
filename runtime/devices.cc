#include "runtime/devices.h"

#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/sys.h"
#include "runtime/mount_options.h"
#include "runtime/root_paths.h"

namespace leash::runtime {

namespace {

struct DefaultDevice {
  const char* path;
  int64_t major;
  int64_t minor;
};

constexpr std::array kDefaultDevices = {
    DefaultDevice{"/dev/null", 1, 3},   DefaultDevice{"/dev/zero", 1, 5},    DefaultDevice{"/dev/full", 1, 7},
    DefaultDevice{"/dev/random", 1, 8}, DefaultDevice{"/dev/urandom", 1, 9}, DefaultDevice{"/dev/tty", 5, 0},
};

mode_t type_bits(char type) {
  if (type == 'b') return S_IFBLK;
  return type == 'p' ? S_IFIFO : S_IFCHR;
}

bool is_device(const struct stat& st, const oci::Device& device) {
  if ((st.st_mode & S_IFMT) != type_bits(device.type)) return false;
  return device.type == 'p' || (st.st_rdev == ::makedev(static_cast<unsigned>(device.major), static_cast<unsigned>(device.minor)));
}

// The host's node with the same path, if it is the device that was asked for.
Result<void> bind_host_device(int root_fd, const oci::Device& device) {
  TRY(Fd node, sys::open_tree(AT_FDCWD, device.path, OPEN_TREE_CLONE));
  TRY(const struct stat st, sys::fstat(node.get()));
  if (!is_device(st, device)) return Error(ENODEV, device.path + " on the host is another device");
  TRY(Fd target, make_file_in_root(root_fd, device.path));
  return sys::move_mount(node.get(), "", target.get(), "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
}

Result<void> make_node(int root_fd, const oci::Device& device) {
  TRY(auto place, make_parent_in_root(root_fd, device.path));
  const int parent = place.first.get();
  const char* name = place.second.c_str();
  const mode_t mode = static_cast<mode_t>(device.file_mode.value_or(0666)) & 07777;
  const dev_t number = device.type == 'p' ? 0 : ::makedev(static_cast<unsigned>(device.major), static_cast<unsigned>(device.minor));
  if (::mknodat(parent, name, type_bits(device.type) | mode, number) < 0) {
    if (errno != EEXIST) return Error::last_errno("mknod " + device.path);
    // From the image or a volume: only the very device is taken for it, never a link or a file.
    struct stat st = {};
    if (::fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0) return Error::last_errno("stat " + device.path);
    if (!is_device(st, device)) return Error(EEXIST, device.path + " exists and is another file");
  }
  if (::fchownat(parent, name, device.uid.value_or(0), device.gid.value_or(0), AT_SYMLINK_NOFOLLOW) < 0) {
    return Error::last_errno("chown " + device.path);
  }
  return {};
}

Result<void> make_device(int root_fd, const oci::Device& device, bool has_user_namespace) {
  if (has_user_namespace && device.type != 'p') return bind_host_device(root_fd, device);
  auto made = make_node(root_fd, device);
  if (made || made.error().code() != EPERM) return made;
  return bind_host_device(root_fd, device);
}

Result<void> make_link(int root_fd, const std::string& target, const std::string& name) {
  TRY(Fd dev, make_directory_in_root(root_fd, "/dev"));
  if (::symlinkat(target.c_str(), dev.get(), name.c_str()) == 0 || errno == EEXIST) return {};
  return Error::last_errno("symlink /dev/" + name);
}

}  // namespace

bool owns_dev(const oci::Config& config) {
  return std::none_of(config.mounts.begin(), config.mounts.end(), [](const oci::Mount& mount) {
    if (mount.destination != "/dev" && mount.destination != "/dev/") return false;
    return mount.type == "bind" || parse_mount_options(mount.options).is_bind;
  });
}

Result<void> make_devices(int root_fd, const std::vector<oci::Device>& devices, bool has_user_namespace) {
  // The modes of config.json are meant as they are.
  const mode_t umask_before = ::umask(0);
  auto made = [&]() -> Result<void> {
    for (const DefaultDevice& entry : kDefaultDevices) {
      const bool is_listed = std::any_of(devices.begin(), devices.end(),
                                         [&](const oci::Device& device) { return device.path == entry.path; });
      if (is_listed) continue;
      oci::Device device;
      device.path = entry.path;
      device.major = entry.major;
      device.minor = entry.minor;
      TRY_VOID(make_device(root_fd, device, has_user_namespace).context("error creating device nodes"));
    }
    for (const oci::Device& device : devices) {
      if (device.path == "/dev/ptmx") continue;  // the link to the container's own instance
      TRY_VOID(make_device(root_fd, device, has_user_namespace).context("error creating device nodes"));
    }
    return {};
  }();
  ::umask(umask_before);
  return made;
}

Result<void> make_device_links(int root_fd) {
  TRY_VOID(make_link(root_fd, "/proc/self/fd", "fd"));
  TRY_VOID(make_link(root_fd, "/proc/self/fd/0", "stdin"));
  TRY_VOID(make_link(root_fd, "/proc/self/fd/1", "stdout"));
  TRY_VOID(make_link(root_fd, "/proc/self/fd/2", "stderr"));
  if (sys::open_in_root(root_fd, "/proc/kcore", O_PATH)) TRY_VOID(make_link(root_fd, "/proc/kcore", "core"));
  // The image's own /dev/ptmx would be the host's multiplexer.
  TRY(Fd dev, make_directory_in_root(root_fd, "/dev"));
  if (::unlinkat(dev.get(), "ptmx", 0) < 0 && errno != ENOENT) return Error::last_errno("remove /dev/ptmx");
  return make_link(root_fd, "pts/ptmx", "ptmx");
}

}  // namespace leash::runtime
