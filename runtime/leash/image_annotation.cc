#include "runtime/leash/image_annotation.h"

#include <dirent.h>
#include <sys/stat.h>

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/sys.h"
#include "oci-spec/json_search.h"

namespace leash::runtime {

namespace {

constexpr std::string_view kAnnotation = "leash.policy";
constexpr std::string_view kContainers = "-containers";
constexpr size_t kMaxDocument = size_t{8} << 20;

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

// "/store/overlay-images" for a bundle of Podman's.
std::optional<std::string> images_beside(std::string_view bundle) {
  const size_t id_end = bundle.rfind('/');
  if (id_end == std::string_view::npos || bundle.substr(id_end) != "/userdata") return std::nullopt;
  const size_t containers_end = bundle.substr(0, id_end).rfind('/');
  if (containers_end == std::string_view::npos) return std::nullopt;
  const std::string_view containers = bundle.substr(0, containers_end);
  if (!containers.ends_with(kContainers)) return std::nullopt;
  return std::string(containers.substr(0, containers.size() - kContainers.size())) + "-images";
}

Result<std::vector<std::string>> names_in(const std::string& path) {
  const std::unique_ptr<DIR, CloseDirectory> directory(::opendir(path.c_str()));
  if (!directory) return Error::last_errno("open '" + path + "'");
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* const entry = ::readdir(directory.get());
    if (entry == nullptr && errno != 0) return Error::last_errno("read '" + path + "'");
    if (entry == nullptr) return names;
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
}

// Manifests, and what else is kept of an image: its configuration, signatures.
Result<bool> document_has(const std::string& path, const std::string& value) {
  TRY(Fd fd, sys::open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  TRY(const struct stat st, sys::fstat(fd.get()));
  if (!S_ISREG(st.st_mode)) return false;
  TRY(const std::string text, sys::read_all(fd.get(), kMaxDocument).context("'" + path + "'"));
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || text[first] != '{') return false;
  return oci::json_has_pair(text, kAnnotation, value).context("'" + path + "'");
}

Result<void> check_images(const std::string& images, const std::string& value) {
  TRY(const std::vector<std::string> ids, names_in(images));
  for (const std::string& id : ids) {
    const std::string image = images + "/" + id;
    struct stat st = {};
    if (::lstat(image.c_str(), &st) < 0 || !S_ISDIR(st.st_mode)) continue;
    TRY(const std::vector<std::string> files, names_in(image));
    for (const std::string& file : files) {
      TRY(const bool has, document_has(image + "/" + file, value));
      if (has) {
        return Error(EPERM, "image " + id + " has this annotation, and an image may not choose its policy: mount the policy at "
                                          "/etc/leash/policy.yaml instead");
      }
    }
  }
  return {};
}

}  // namespace

Result<void> check_not_from_image(const std::string& bundle, const oci::Config& config) {
  const auto annotation = config.annotations.find(std::string(kAnnotation));
  if (annotation == config.annotations.end()) return {};
  const auto images = images_beside(bundle);
  if (!images) return {};
  return check_images(*images, annotation->second).context("annotation leash.policy='" + annotation->second + "'");
}

}  // namespace leash::runtime
