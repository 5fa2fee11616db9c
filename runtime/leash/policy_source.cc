#include "runtime/leash/policy_source.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <memory>

#include "base/file.h"
#include "runtime/mount_options.h"

namespace leash::runtime {

namespace {

constexpr std::string_view kAnnotation = "leash.policy";
constexpr std::string_view kMountPoint = "/etc/leash/policy.yaml";
constexpr std::string_view kFolder = "/etc/leash/policies/";
constexpr size_t kMaxPolicy = size_t{4} << 20;

std::string real_path(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr), &std::free);
  return real ? std::string(real.get()) : path;
}

bool is_below(const std::string& path, const std::string& directory) {
  if (directory == "/") return true;
  return path == directory || path.starts_with(directory + "/");
}

bool is_policy_mount(const oci::Mount& mount) {
  std::string destination = mount.destination;
  while (destination.size() > 1 && destination.back() == '/') destination.pop_back();
  return destination == kMountPoint && (mount.type == "bind" || parse_mount_options(mount.options).is_bind);
}

// "/path", "name" or "name.yaml".
Result<std::string> annotated_file(const std::string& value) {
  if (value.starts_with('/')) return value;
  if (value.empty() || value.find('/') != std::string::npos || value.starts_with('.')) {
    return Error(EINVAL, "annotation leash.policy: '" + value + "' is neither a path nor a name");
  }
  const std::string path = std::string(kFolder) + value;
  if (::access(path.c_str(), F_OK) == 0) return path;
  return path + ".yaml";
}

Result<PolicyChoice> read_policy(const std::string& file, bool is_explicit, const std::string& rootfs,
                                 const oci::Config& config) {
  TRY_VOID(check_out_of_reach(file, rootfs, config));
  PolicyChoice choice;
  choice.is_explicit = is_explicit;
  choice.policy.source = file;
  TRY(choice.policy.text, file::read(file, kMaxPolicy).context("policy"));
  // An empty text means the built-in profile to the shim; an empty file is one without rules.
  if (choice.policy.text.empty()) choice.policy.text = "{}\n";
  return choice;
}

std::string default_file(bool is_rootless) {
  if (is_rootless) {
    const char* config_home = std::getenv("XDG_CONFIG_HOME");
    const char* home = std::getenv("HOME");
    std::string directory = config_home != nullptr ? config_home : home != nullptr ? std::string(home) + "/.config" : "";
    if (!directory.empty()) {
      const std::string own = directory + "/leash/policy.yaml";
      if (::access(own.c_str(), F_OK) == 0) return own;
    }
  }
  return "/etc/leash/policy.yaml";
}

}  // namespace

Result<void> check_out_of_reach(const std::string& file, const std::string& rootfs, const oci::Config& config) {
  const std::string real = real_path(file);
  if (is_below(real, rootfs)) return Error(EINVAL, "policy file " + file + " lies in the container's own rootfs");
  for (const oci::Mount& mount : config.mounts) {
    const MountOptions options = parse_mount_options(mount.options);
    if (!options.is_bind && mount.type != "bind") continue;
    if ((options.set & MOUNT_ATTR_RDONLY) != 0 || (options.recursive_set & MOUNT_ATTR_RDONLY) != 0) continue;
    const std::string source = real_path(mount.source);
    if (is_below(real, source) || is_below(file, source)) {
      return Error(EINVAL, "policy file " + file + " lies in " + mount.source + ", which the container can write to at " +
                               mount.destination);
    }
  }
  return {};
}

Result<PolicyChoice> choose_policy(const GlobalOptions& options, const std::string& rootfs, oci::Config& config) {
  // The mount is left out in any case: a policy is nothing for the container to read.
  const auto mount = std::find_if(config.mounts.begin(), config.mounts.end(), is_policy_mount);
  std::string mounted;
  if (mount != config.mounts.end()) {
    mounted = mount->source;
    config.mounts.erase(mount);
  }
  const auto annotation = config.annotations.find(std::string(kAnnotation));
  if (annotation != config.annotations.end()) {
    TRY(const std::string file, annotated_file(annotation->second));
    return read_policy(file, true, rootfs, config);
  }
  if (!mounted.empty()) return read_policy(mounted, true, rootfs, config);
  PolicyChoice choice;
  if (options.policy == "none") {
    choice.is_none = true;
    choice.policy.source = "none";
    return choice;
  }
  if (!options.policy.empty()) return read_policy(options.policy, false, rootfs, config);
  const std::string file = default_file(options.is_rootless);
  if (::access(file.c_str(), F_OK) == 0) return read_policy(file, false, rootfs, config);
  choice.policy.source = "built-in";
  return choice;
}

}  // namespace leash::runtime
