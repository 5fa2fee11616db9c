#include "runtime/mounts.h"

#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/sys.h"
#include "runtime/cgroup_mount.h"
#include "runtime/idmap.h"
#include "runtime/mount_options.h"
#include "runtime/root_paths.h"
#include "runtime/tree_copy.h"

#ifndef PROC_SUPER_MAGIC
#define PROC_SUPER_MAGIC 0x9fa0
#endif

namespace leash::runtime {

namespace {

constexpr unsigned kEmptyPaths = MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH;
constexpr ino_t kProcRoot = 1;

// What engines and lxcfs bind over files of procfs. Anything else there would let a container's /proc
// lie to the runtime that reads and writes it (CVE-2019-16884).
constexpr std::array<std::string_view, 11> kMountableInProc = {
    "/proc/cpuinfo", "/proc/diskstats", "/proc/meminfo",  "/proc/stat",     "/proc/swaps",
    "/proc/uptime",  "/proc/loadavg",   "/proc/slabinfo", "/proc/net/dev", "/proc/sys/kernel/ns_last_pid",
    "/proc/sys/crypto/fips_enabled"};

std::string without_trailing_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

Result<void> check_target(int target_fd, const oci::Mount& mount) {
  struct statfs fs = {};
  if (::fstatfs(target_fd, &fs) < 0) return Error::last_errno("statfs");
  if (fs.f_type != PROC_SUPER_MAGIC) return {};
  TRY(const struct stat st, sys::fstat(target_fd));
  if (st.st_ino == kProcRoot && mount.type == "proc") return {};
  const std::string destination = without_trailing_slashes(mount.destination);
  if (st.st_ino != kProcRoot &&
      std::find(kMountableInProc.begin(), kMountableInProc.end(), destination) != kMountableInProc.end()) {
    return {};
  }
  if (st.st_ino == kProcRoot && mount.type != "proc") {
    return Error(EPERM, "\"" + destination + "\" cannot be mounted because it is not of type proc");
  }
  return Error(EPERM, "\"" + destination + "\" cannot be mounted because it is inside /proc");
}

Result<void> set_attributes(int mount_fd, uint64_t set, uint64_t clear, bool is_recursive) {
  if (set == 0 && clear == 0) return {};
  struct mount_attr attributes = {};
  attributes.attr_set = set;
  attributes.attr_clr = clear;
  const unsigned flags = AT_EMPTY_PATH | (is_recursive ? AT_RECURSIVE : 0U);
  auto done = sys::mount_setattr(mount_fd, "", flags, attributes);
  if (done || done.error().code() != EPERM || clear == 0) return done;
  // Flags that another user namespace owns are locked: what they forbid stays forbidden, which is what
  // the host wants; what was asked for on top is set.
  attributes.attr_clr = (set & MOUNT_ATTR__ATIME) != 0 ? MOUNT_ATTR__ATIME : 0;
  return sys::mount_setattr(mount_fd, "", flags, attributes);
}

Result<void> set_propagation(int mount_fd, const std::vector<unsigned long>& propagation) {
  for (const unsigned long flags : propagation) {
    struct mount_attr attributes = {};
    attributes.propagation = flags & ~static_cast<unsigned long>(MS_REC);
    const unsigned recursive = (flags & MS_REC) != 0 ? unsigned{AT_RECURSIVE} : 0U;
    TRY_VOID(sys::mount_setattr(mount_fd, "", AT_EMPTY_PATH | recursive, attributes));
  }
  return {};
}

std::string mount_text(const oci::Mount& mount) { return "mount " + mount.source + ":" + mount.destination; }

// ---- binds ----

Result<Fd> open_source(const MountContext& context, const oci::Mount& mount, const MountOptions& options) {
  TreeRequest request;
  request.path = mount.source;
  request.is_recursive = options.is_recursive;
  request.is_nofollow = options.source_nofollow || options.copies_symlink;
  if (options.is_idmap || !mount.uid_mappings.empty()) {
    request.is_idmap_recursive = options.is_recursive_idmap;
    TRY(const IdmapMappings mappings, idmap_mappings(mount, options.idmap_text, context.uid_mappings, context.gid_mappings));
    request.uid_mappings = mappings.uid;
    request.gid_mappings = mappings.gid;
    return context.has_user_namespace ? context.open_on_host(request) : open_tree_on_host(request);
  }
  auto tree = open_tree_on_host(request);
  const bool is_refused = !tree && (tree.error().code() == EACCES || tree.error().code() == EPERM);
  if (is_refused && context.has_user_namespace) return context.open_on_host(request);
  return tree;
}

// copy-symlink: the link itself appears in the container, not what it points to.
Result<bool> copied_symlink(const MountContext& context, const oci::Mount& mount, const Fd& source) {
  TRY(const struct stat st, sys::fstat(source.get()));
  if (!S_ISLNK(st.st_mode)) return false;
  TRY(const std::string target, sys::readlinkat(source.get(), ""));
  TRY(auto place, make_parent_in_root(context.root_fd, mount.destination));
  if (::symlinkat(target.c_str(), place.first.get(), place.second.c_str()) < 0 && errno != EEXIST) {
    return Error::last_errno("symlink " + mount.destination);
  }
  return true;
}

Result<void> make_bind(const MountContext& context, const oci::Mount& mount, const MountOptions& options) {
  TRY(Fd tree, open_source(context, mount, options));
  if (options.copies_symlink) {
    TRY(const bool is_done, copied_symlink(context, mount, tree));
    if (is_done) return {};
  }
  TRY(const struct stat st, sys::fstat(tree.get()));
  TRY_VOID(set_attributes(tree.get(), options.set, options.clear, false).context(mount_text(mount)));
  TRY_VOID(set_attributes(tree.get(), options.recursive_set, options.recursive_clear, true).context(mount_text(mount)));
  TRY_VOID(set_propagation(tree.get(), options.propagation).context(mount_text(mount)));

  auto opened = S_ISDIR(st.st_mode) ? sys::open_in_root(context.root_fd, mount.destination, O_PATH)
                                    : make_file_in_root(context.root_fd, mount.destination);
  if (!opened && opened.error().code() == ENOENT && S_ISDIR(st.st_mode)) {
    opened = make_directory_in_root(context.root_fd, mount.destination);
  }
  if (!opened) return std::move(opened).error();
  TRY_VOID(check_target(opened->get(), mount));
  // move_mount(2) says EINVAL; engines give their hint for mount(2)'s word.
  TRY(const struct stat target, sys::fstat(opened->get()));
  if (S_ISDIR(st.st_mode) != S_ISDIR(target.st_mode)) return Error::from_errno(ENOTDIR, mount_text(mount));
  auto attached = sys::move_mount(tree.get(), "", opened->get(), "", kEmptyPaths);
  if (!attached) return Error::from_errno(attached.error().code(), mount_text(mount));
  return {};
}

// ---- file systems ----

Result<Fd> make_filesystem(const oci::Mount& mount, const MountOptions& options, const std::string& default_mode) {
  const auto fail = [&](const Error& error) {
    std::string text = mount_text(mount);
    std::string data;
    for (const auto& [key, value] : options.fs_data) {
      data += (data.empty() ? "" : ",") + key + (value.empty() ? "" : "=" + value);
    }
    if (!data.empty()) text += ", data: " + data;
    return Error::from_errno(error.code(), text);
  };
  auto fs = sys::fsopen(mount.type);
  if (!fs) return fail(fs.error());
  const int fd = fs->get();
  if (!mount.source.empty()) {
    if (auto done = sys::fsconfig_string(fd, "source", mount.source); !done) return fail(done.error());
  }
  bool has_mode = false;
  for (const auto& [key, value] : options.fs_data) {
    has_mode = has_mode || key == "mode";
    // "name=" is a string of no characters for the kernel, "name" a flag.
    auto done = value.empty() ? sys::fsconfig_flag(fd, key) : sys::fsconfig_string(fd, key, value);
    if (!done) return fail(done.error());
  }
  if (!default_mode.empty() && !has_mode) {
    if (auto done = sys::fsconfig_string(fd, "mode", default_mode); !done) return fail(done.error());
  }
  for (const std::string& flag : options.fs_flags) {
    if (auto done = sys::fsconfig_flag(fd, flag); !done) return fail(done.error());
  }
  if (auto done = sys::fsconfig_create(fd); !done) return fail(done.error());
  auto made = sys::fsmount(fd, static_cast<unsigned>(options.set));
  if (!made) return fail(made.error());
  return made;
}

Result<void> make_filesystem_mount(const MountContext& context, const oci::Mount& mount, const MountOptions& options) {
  if (mount.type == "proc" || mount.type == "sysfs") {
    // The runtime trusts what it finds there: never through a link of the image.
    auto there = sys::open_in_root(context.root_fd, mount.destination, O_PATH | O_NOFOLLOW);
    if (there) {
      TRY(const struct stat st, sys::fstat(there->get()));
      if (!S_ISDIR(st.st_mode)) {
        return Error(ENOTDIR, "filesystem \"" + mount.type + "\" must be mounted on ordinary directory");
      }
    }
  }
  auto there = sys::open_in_root(context.root_fd, mount.destination, O_PATH);
  std::string default_mode;
  if (there && mount.type == "tmpfs") {
    TRY(const struct stat st, sys::fstat(there->get()));
    std::array<char, 8> text{};
    std::snprintf(text.data(), text.size(), "%04o", static_cast<unsigned>(st.st_mode & 07777));
    default_mode = text.data();
  }
  const bool existed = there.has_value();
  if (!there && there.error().code() == ENOENT) there = make_directory_in_root(context.root_fd, mount.destination);
  if (!there) return std::move(there).error();
  TRY_VOID(check_target(there->get(), mount));

  MountOptions first = options;
  const bool is_readonly_later = is_deferred_readonly(mount) || options.copies_up;
  if (is_readonly_later) first.set &= ~uint64_t{MOUNT_ATTR_RDONLY};
  TRY(Fd made, make_filesystem(mount, first, default_mode));
  if (options.copies_up && existed) TRY_VOID(copy_directory(there->get(), made.get()).context("tmpcopyup"));
  if (is_readonly_later && !is_deferred_readonly(mount)) TRY_VOID(set_attributes(made.get(), options.set, 0, false));
  TRY_VOID(set_attributes(made.get(), options.recursive_set, options.recursive_clear, true));
  TRY_VOID(set_propagation(made.get(), options.propagation));
  auto attached = sys::move_mount(made.get(), "", there->get(), "", kEmptyPaths);
  if (!attached) return Error::from_errno(attached.error().code(), mount_text(mount));
  return {};
}

}  // namespace

bool is_deferred_readonly(const oci::Mount& mount) {
  return mount.type == "tmpfs" && without_trailing_slashes(mount.destination) == "/dev" &&
         (parse_mount_options(mount.options).set & MOUNT_ATTR_RDONLY) != 0;
}

Result<void> make_mount_readonly(int root_fd, const std::string& destination) {
  TRY(Fd mount, sys::open_in_root(root_fd, destination, O_PATH));
  return set_attributes(mount.get(), MOUNT_ATTR_RDONLY, 0, false).context("make " + destination + " read-only");
}

Result<Fd> open_tree_on_host(const TreeRequest& request) {
  unsigned flags = OPEN_TREE_CLONE;
  if (request.is_recursive) flags |= AT_RECURSIVE;
  if (request.is_nofollow) flags |= AT_SYMLINK_NOFOLLOW;
  auto tree = sys::open_tree(AT_FDCWD, request.path, flags);
  if (!tree) {
    const char* verb = tree.error().code() == EINVAL ? "mount " : "stat ";
    return Error::from_errno(tree.error().code(), verb + request.path);
  }
  if (!request.uid_mappings.empty()) {
    TRY_VOID(apply_idmap(tree->get(), request.uid_mappings, request.gid_mappings, request.is_idmap_recursive));
  }
  return tree;
}

Result<void> make_mount(const MountContext& context, const oci::Mount& mount) {
  const MountOptions options = parse_mount_options(mount.options);
  auto made = [&]() -> Result<void> {
    if (options.is_bind || mount.type == "bind") {
      MountOptions bind = options;
      // The type alone is enough for a bind; config.md asks for an option, engines write both.
      return make_bind(context, mount, bind);
    }
    if (mount.type == "cgroup" || mount.type == "cgroup2") return mount_cgroups(context, mount, options);
    return make_filesystem_mount(context, mount, options);
  }();
  return std::move(made).context("error mounting \"" + mount.source + "\" to rootfs at \"" + mount.destination + "\"");
}

}  // namespace leash::runtime
