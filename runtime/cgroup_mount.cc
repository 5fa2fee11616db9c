#include "runtime/cgroup_mount.h"

#include <unistd.h>

#include <algorithm>

#include "base/sys.h"
#include "runtime/cgroup.h"
#include "runtime/root_paths.h"

namespace leash::runtime {

namespace {

constexpr unsigned kEmptyPaths = MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH;

Result<void> set_attributes(int mount_fd, uint64_t set) {
  if (set == 0) return {};
  struct mount_attr attributes = {};
  attributes.attr_set = set;
  return sys::mount_setattr(mount_fd, "", AT_EMPTY_PATH, attributes);
}

// The container's own directory of that hierarchy, from the host's mount. Never by /proc/self/cgroup: in a
// cgroup namespace that says "/", which is the host's root in the host's mount.
Result<Fd> bound(const MountContext& context, const CgroupHierarchy& hierarchy, uint64_t attributes) {
  const auto own = std::find_if(context.cgroups.begin(), context.cgroups.end(), [&](const oci::CgroupPath& entry) {
    return entry.controllers == hierarchy.controllers;
  });
  if (own == context.cgroups.end()) return Error(ENOENT, "the container has no cgroup in " + hierarchy.mount_point);
  TRY(Fd tree, sys::open_tree(AT_FDCWD, own->path, OPEN_TREE_CLONE));
  TRY_VOID(set_attributes(tree.get(), attributes));
  return tree;
}

Result<Fd> fresh_v1(const CgroupHierarchy& hierarchy, uint64_t attributes) {
  TRY(Fd fs, sys::fsopen("cgroup"));
  TRY_VOID(sys::fsconfig_string(fs.get(), "source", "cgroup"));
  std::string_view rest = hierarchy.controllers;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string word(rest.substr(0, comma));
    if (word.starts_with("name=")) {
      TRY_VOID(sys::fsconfig_flag(fs.get(), "none"));
      TRY_VOID(sys::fsconfig_string(fs.get(), "name", word.substr(5)));
    } else {
      TRY_VOID(sys::fsconfig_flag(fs.get(), word));
    }
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  TRY_VOID(sys::fsconfig_create(fs.get()));
  return sys::fsmount(fs.get(), static_cast<unsigned>(attributes));
}

Result<Fd> fresh_v2(const MountOptions& options, uint64_t attributes) {
  TRY(Fd fs, sys::fsopen("cgroup2"));
  TRY_VOID(sys::fsconfig_string(fs.get(), "source", "cgroup"));
  for (const auto& [key, value] : options.fs_data) {
    TRY_VOID(value.empty() ? sys::fsconfig_flag(fs.get(), key) : sys::fsconfig_string(fs.get(), key, value));
  }
  TRY_VOID(sys::fsconfig_create(fs.get()));
  return sys::fsmount(fs.get(), static_cast<unsigned>(attributes));
}

Result<Fd> hierarchy_mount(const MountContext& context, const CgroupHierarchy& hierarchy, const MountOptions& options) {
  if (!context.has_cgroup_namespace) return bound(context, hierarchy, options.set);
  auto fresh = hierarchy.controllers.empty() ? fresh_v2({}, options.set) : fresh_v1(hierarchy, options.set);
  // In a user namespace v1 cannot be mounted anew; the bind is the same directory.
  if (!fresh && fresh.error().code() == EPERM) return bound(context, hierarchy, options.set);
  return fresh;
}

std::string directory_name(const CgroupHierarchy& hierarchy) {
  if (hierarchy.controllers.empty()) return "unified";
  return hierarchy.mount_point.substr(hierarchy.mount_point.rfind('/') + 1);
}

// A program looks for "cpu" where the hierarchy is "cpu,cpuacct".
Result<void> link_controllers(int directory, const CgroupHierarchy& hierarchy, const std::string& name) {
  std::string_view rest = hierarchy.controllers;
  if (rest.find(',') == std::string_view::npos) return {};
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string word(rest.substr(0, comma));
    if (word != name && ::symlinkat(name.c_str(), directory, word.c_str()) < 0 && errno != EEXIST) {
      return Error::last_errno("symlink " + word);
    }
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return {};
}

Result<void> mount_v2(const MountContext& context, const oci::Mount& mount, const MountOptions& options,
                      const CgroupHierarchy& hierarchy) {
  TRY(Fd target, make_directory_in_root(context.root_fd, mount.destination));
  Result<Fd> made = context.has_cgroup_namespace ? fresh_v2(options, options.set) : bound(context, hierarchy, options.set);
  if (!made && made.error().code() == EPERM) made = bound(context, hierarchy, options.set);
  if (!made) return std::move(made).error();
  return sys::move_mount(made->get(), "", target.get(), "", kEmptyPaths);
}

}  // namespace

Result<void> mount_cgroups(const MountContext& context, const oci::Mount& mount, const MountOptions& options) {
  TRY(const CgroupHost host, CgroupHost::discover());
  const auto v2 = std::find_if(host.hierarchies.begin(), host.hierarchies.end(),
                               [](const CgroupHierarchy& hierarchy) { return hierarchy.controllers.empty(); });
  if (host.mode == CgroupMode::kV2 || mount.type == "cgroup2") {
    if (v2 == host.hierarchies.end()) return Error(ENODEV, "the host has no cgroup v2 tree");
    return mount_v2(context, mount, options, *v2);
  }
  TRY(Fd target, make_directory_in_root(context.root_fd, mount.destination));
  TRY(Fd fs, sys::fsopen("tmpfs"));
  TRY_VOID(sys::fsconfig_string(fs.get(), "source", "tmpfs"));
  TRY_VOID(sys::fsconfig_string(fs.get(), "mode", "755"));
  TRY_VOID(sys::fsconfig_create(fs.get()));
  TRY(Fd base, sys::fsmount(fs.get(), static_cast<unsigned>(options.set & ~uint64_t{MOUNT_ATTR_RDONLY})));
  TRY_VOID(sys::move_mount(base.get(), "", target.get(), "", kEmptyPaths));
  for (const CgroupHierarchy& hierarchy : host.hierarchies) {
    const std::string name = directory_name(hierarchy);
    if (::mkdirat(base.get(), name.c_str(), 0755) < 0) return Error::last_errno("mkdir " + name);
    TRY(Fd made, hierarchy_mount(context, hierarchy, options).context("cgroup " + name));
    TRY(Fd place, sys::openat(base.get(), name, O_PATH | O_DIRECTORY | O_NOFOLLOW));
    TRY_VOID(sys::move_mount(made.get(), "", place.get(), "", kEmptyPaths));
    TRY_VOID(link_controllers(base.get(), hierarchy, name));
  }
  if ((options.set & MOUNT_ATTR_RDONLY) != 0) TRY_VOID(set_attributes(base.get(), MOUNT_ATTR_RDONLY));
  return {};
}

}  // namespace leash::runtime
