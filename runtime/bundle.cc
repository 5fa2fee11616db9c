#include "runtime/bundle.h"

#include <unistd.h>

#include <array>
#include <climits>
#include <cstdlib>

#include "base/file.h"

namespace leash::runtime {

std::string absolute_path(const std::string& path) {
  if (path.empty() || path[0] == '/') return path;
  std::array<char, PATH_MAX> cwd{};
  if (::getcwd(cwd.data(), cwd.size()) == nullptr) return path;
  return std::string(cwd.data()) + "/" + path;
}

Result<Bundle> open_bundle(const std::string& path) {
  Bundle bundle;
  if (!path.empty() && ::chdir(path.c_str()) < 0) return Error::last_errno("chdir " + path);
  std::array<char, PATH_MAX> real{};
  if (::realpath(".", real.data()) == nullptr) return Error::last_errno("chdir " + path);
  bundle.directory = real.data();

  auto text = file::read("config.json");
  if (!text) {
    if (text.error().code() == ENOENT) return Error(ENOENT, "JSON specification file config.json not found");
    return Error::from_errno(text.error().code(), "open config.json");
  }
  bundle.text = std::move(text).value();
  TRY(bundle.config, oci::parse_config(bundle.text));
  TRY_VOID(oci::validate_for_create(bundle.config));

  const std::string& root = bundle.config.root.path;
  const std::string wanted = root.starts_with('/') ? root : bundle.directory + "/" + root;
  if (::realpath(wanted.c_str(), real.data()) == nullptr) {
    return Error::last_errno("invalid rootfs: stat " + wanted);
  }
  bundle.rootfs = real.data();
  return bundle;
}

}  // namespace leash::runtime
