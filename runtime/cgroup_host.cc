// Where this host's cgroup hierarchies are.
#include <linux/magic.h>
#include <sys/vfs.h>

#include <algorithm>

#include "base/file.h"
#include "runtime/cgroup.h"

namespace leash::runtime {

namespace {

constexpr const char* kRoot = "/sys/fs/cgroup";

bool is_file_system(const std::string& path, unsigned long magic) {
  struct statfs info = {};
  return statfs(path.c_str(), &info) == 0 && static_cast<unsigned long>(info.f_type) == magic;
}

// Calls f(line) for each line.
template <class F>
void each_line(std::string_view text, F&& f) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    f(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// proc_pid_mountinfo(5): "36 35 98:0 /root /mount/point options [optional...] - type source super-options".
// A mount point with spaces is escaped there; nobody mounts cgroups at such a place, and if they do it is
// not found.
std::string find_mount(std::string_view mountinfo, std::string_view controllers) {
  std::string found;
  each_line(mountinfo, [&](std::string_view line) {
    const size_t separator = line.find(" - ");
    if (!found.empty() || separator == std::string_view::npos) return;
    const auto before = split(line.substr(0, separator), ' ');
    const auto after = split(line.substr(separator + 3), ' ');
    if (before.size() < 6 || after.size() < 3) return;
    if (controllers.empty()) {
      if (after[0] == "cgroup2") found = before[4];
      return;
    }
    if (after[0] != "cgroup") return;
    const auto options = split(after[2], ',');
    const auto wanted = split(controllers, ',');
    const auto has = [&](std::string_view name) { return std::find(options.begin(), options.end(), name) != options.end(); };
    if (std::all_of(wanted.begin(), wanted.end(), has)) found = before[4];
  });
  return found;
}

}  // namespace

Result<CgroupHost> CgroupHost::discover() {
  CgroupHost host;
  TRY(const std::string own, file::read("/proc/self/cgroup"));
  const bool is_v2 = is_file_system(kRoot, CGROUP2_SUPER_MAGIC);
  std::string mountinfo;
  bool has_v1 = false;
  bool has_v2 = false;
  Result<void> outcome;
  each_line(own, [&](std::string_view line) {  // "4:memory:/user.slice", "0::/user.slice"
    const auto fields = split(line, ':');
    if (fields.size() < 3 || !outcome) return;
    CgroupHierarchy hierarchy;
    hierarchy.controllers = fields[1];
    hierarchy.own_path = line.substr(fields[0].size() + fields[1].size() + 2);  // may itself have colons
    if (hierarchy.controllers.empty()) {
      hierarchy.mount_point = is_v2 ? kRoot : std::string(kRoot) + "/unified";
    } else {
      if (is_v2) return;  // v1 hierarchies that somebody has mounted elsewhere are not this host's way
      const std::string_view name = hierarchy.controllers;
      hierarchy.mount_point = std::string(kRoot) + '/' + std::string(name.starts_with("name=") ? name.substr(5) : name);
    }
    if (!is_file_system(hierarchy.mount_point, hierarchy.controllers.empty() ? CGROUP2_SUPER_MAGIC : CGROUP_SUPER_MAGIC)) {
      if (mountinfo.empty()) {
        Result<std::string> text = file::read("/proc/self/mountinfo");
        if (!text) {
          outcome = std::move(text).error();
          return;
        }
        mountinfo = *std::move(text);
      }
      hierarchy.mount_point = find_mount(mountinfo, hierarchy.controllers);
      if (hierarchy.mount_point.empty()) return;  // known to the kernel, mounted nowhere
    }
    (hierarchy.controllers.empty() ? has_v2 : has_v1) = true;
    host.hierarchies.push_back(std::move(hierarchy));
  });
  TRY_VOID(std::move(outcome));
  if (!has_v1 && !has_v2) return Error(ENODEV, "no cgroup file system is mounted");
  host.mode = !has_v1 ? CgroupMode::kV2 : has_v2 ? CgroupMode::kHybrid : CgroupMode::kV1;
  return host;
}

}  // namespace leash::runtime
