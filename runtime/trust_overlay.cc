#include "runtime/trust_overlay.h"

#include <sys/mount.h>
#include <unistd.h>

#include <optional>
#include <string_view>
#include <utility>

#include "base/fd.h"
#include "base/sys.h"

namespace leash::runtime {

namespace {

struct Options {
  unsigned attributes = 0;  // MOUNT_ATTR_*
  std::string stage;
  std::string size;
  bool read_only = false;
};

Result<Options> parse_options(const oci::ExtraMount& mount) {
  Options options;
  for (const std::string& option : mount.options) {
    const size_t equals = option.find('=');
    const std::string key = option.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : option.substr(equals + 1);
    if (option == "ro") {
      options.read_only = true;
      options.attributes |= MOUNT_ATTR_RDONLY;
    } else if (option == "nosuid") {
      options.attributes |= MOUNT_ATTR_NOSUID;
    } else if (option == "nodev") {
      options.attributes |= MOUNT_ATTR_NODEV;
    } else if (option == "noexec") {
      options.attributes |= MOUNT_ATTR_NOEXEC;
    } else if (key == "stage") {
      options.stage = value;
    } else if (key == "size") {
      options.size = value;
    } else {
      return Error("unknown option '" + option + "'");
    }
  }
  if (!options.read_only && (options.stage.empty() || options.size.empty())) {
    return Error("options stage= and size= are missing");
  }
  return options;
}

std::string magic_link(const Fd& fd) { return "/proc/self/fd/" + std::to_string(fd.get()); }

// The tmpfs that holds upper and work. An overlay takes only directories of mounts that are attached
// in the caller's mount namespace (before Linux 6.15), so it lies over `stage` until the overlay,
// which keeps clones of its own, is made.
class Stage {
 public:
  static Result<Stage> create(const std::string& path, const std::string& size) {
    TRY(Fd context, sys::fsopen("tmpfs"));
    TRY_VOID(sys::fsconfig_string(context.get(), "source", "leash"));
    TRY_VOID(sys::fsconfig_string(context.get(), "size", size));
    TRY_VOID(sys::fsconfig_string(context.get(), "nr_inodes", "16384"));
    TRY_VOID(sys::fsconfig_string(context.get(), "mode", "0700"));
    TRY_VOID(sys::fsconfig_create(context.get()));
    TRY(Fd root, sys::fsmount(context.get(), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC));
    TRY(Fd where, sys::open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW));
    TRY_VOID(sys::move_mount(root.get(), "", where.get(), "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH));
    return Stage(path, std::move(root));
  }
  Stage(Stage&& other) noexcept : path_(std::exchange(other.path_, {})), root_(std::move(other.root_)) {}
  Stage& operator=(Stage&&) = delete;
  ~Stage() {
    root_.reset();
    if (!path_.empty()) ::umount2(path_.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
  }

  [[nodiscard]] Result<Fd> make_directory(const std::string& name) const {
    if (::mkdirat(root_.get(), name.c_str(), 0700) < 0) return Error::last_errno("mkdir '" + name + "'");
    return sys::openat(root_.get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  }

 private:
  Stage(std::string path, Fd root) : path_(std::move(path)), root_(std::move(root)) {}

  std::string path_;
  Fd root_;
};

Result<void> set_string(const Fd& context, const std::string& key, const std::string& value) {
  return sys::fsconfig_string(context.get(), key, value);
}

Result<void> mount_over(const oci::ExtraMount& mount, int destination_fd) {
  TRY(const Options options, parse_options(mount));
  TRY(Fd layer, sys::open(mount.source, O_PATH | O_DIRECTORY | O_NOFOLLOW));
  TRY(Fd context, sys::fsopen("overlay"));
  TRY_VOID(set_string(context, "source", "leash"));
  // Magic links instead of paths: nothing to escape (':' separates layers), nothing to race with.
  TRY_VOID(set_string(context, "lowerdir", magic_link(layer) + ":/proc/self/fd/" + std::to_string(destination_fd)));

  std::optional<Stage> stage;
  Fd upper;
  Fd work;
  if (!options.read_only) {
    TRY(Stage made, Stage::create(options.stage, options.size));
    stage.emplace(std::move(made));
    TRY(upper, stage->make_directory("upper"));
    TRY(work, stage->make_directory("work"));
    // The merged root shows the attributes of its uppermost layer.
    TRY(const struct stat original, sys::fstat(destination_fd));
    if (::fchown(upper.get(), original.st_uid, original.st_gid) < 0) return Error::last_errno("chown upper");
    if (::fchmod(upper.get(), original.st_mode & 07777U) < 0) return Error::last_errno("chmod upper");
    TRY_VOID(set_string(context, "upperdir", magic_link(upper)));
    TRY_VOID(set_string(context, "workdir", magic_link(work)));
    // Off by name, since kernels are built with different defaults.
    TRY_VOID(set_string(context, "index", "off"));
    TRY_VOID(set_string(context, "metacopy", "off"));
  }
  TRY_VOID(sys::fsconfig_create(context.get()));
  TRY(Fd overlay, sys::fsmount(context.get(), options.attributes));
  return sys::move_mount(overlay.get(), "", destination_fd, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
}

}  // namespace

Result<void> mount_trust_overlay(const oci::ExtraMount& mount, int destination_fd) {
  return mount_over(mount, destination_fd).context("mount the trust overlay over '" + mount.destination + "'");
}

}  // namespace leash::runtime
