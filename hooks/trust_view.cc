#include "hooks/trust_view.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "base/sys.h"

namespace leash::hooks {

namespace {

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

bool is_bind(const oci::ExtraMount& mount) {
  return mount.type == "bind" || std::any_of(mount.options.begin(), mount.options.end(), [](const std::string& option) {
           return option == "bind" || option == "rbind";
         });
}

}  // namespace

std::string clean_path(const std::string& path) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < path.size();) {
    const size_t slash = std::min(path.find('/', begin), path.size());
    const std::string part = path.substr(begin, slash - begin);
    begin = slash + 1;
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      if (!parts.empty()) parts.pop_back();
    } else {
      parts.push_back(part);
    }
  }
  std::string clean;
  for (const std::string& part : parts) clean += "/" + part;
  return clean.empty() ? "/" : clean;
}

bool is_below(const std::string& path, const std::string& directory) {
  if (directory == "/") return path.size() > 1;
  return path.size() > directory.size() && path.starts_with(directory) && path[directory.size()] == '/';
}

std::string parent_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
}

Result<ContainerView> ContainerView::create(const std::string& rootfs, const std::vector<oci::ExtraMount>& mounts) {
  ContainerView view;
  TRY(view.root_, sys::open(rootfs, O_PATH | O_DIRECTORY));
  TRY(view.root_path_, sys::fd_path(view.root_.get()));
  if (view.root_path_ == "/") view.root_path_.clear();
  for (const oci::ExtraMount& mount : mounts) {
    std::string destination = clean_path(mount.destination);
    // /var/run/x lies at /run/x in most images: compared by where it really is.
    if (auto fd = sys::open_in_root(view.root_.get(), destination, O_PATH)) {
      if (auto real = view.real_path(fd->get())) destination = *real;
    }
    view.mounts_.push_back({std::move(destination), mount});
  }
  return view;
}

std::optional<std::string> ContainerView::real_path(int fd) const {
  auto path = sys::fd_path(fd);
  if (!path) return std::nullopt;
  if (*path == (root_path_.empty() ? "/" : root_path_)) return "/";
  if (!path->starts_with(root_path_ + "/")) return std::nullopt;
  return path->substr(root_path_.size());
}

const ContainerView::Mounted* ContainerView::covering(const std::string& path) const {
  const Mounted* found = nullptr;
  for (const Mounted& mounted : mounts_) {
    if (mounted.destination != path && !is_below(path, mounted.destination)) continue;
    // Of equal ones the last: it lies on top.
    if (found == nullptr || mounted.destination.size() >= found->destination.size()) found = &mounted;
  }
  return found;
}

std::optional<ContainerView::Place> ContainerView::find(const std::string& wanted) const {
  if (wanted.empty() || wanted.front() != '/') return std::nullopt;
  Place place;
  place.path = clean_path(wanted);
  const Mounted* mounted = covering(place.path);
  if (mounted == nullptr) {
    auto fd = sys::open_in_root(root_.get(), place.path, O_PATH);
    if (!fd) return std::nullopt;
    auto real = real_path(fd->get());
    if (!real) return std::nullopt;
    place.path = *real;
    place.fd = std::move(fd).value();
    // A symlink may have led below a mount point, where the rootfs shows nothing.
    mounted = covering(place.path);
  }
  if (mounted != nullptr) {
    if (!is_bind(mounted->mount)) return std::nullopt;  // a tmpfs or the kernel's: empty, or no files
    auto source = sys::open(mounted->mount.source, O_PATH);
    if (!source) return std::nullopt;
    const std::string rest = place.path.substr(std::min(place.path.size(), mounted->destination.size()));
    const size_t begin = rest.find_first_not_of('/');
    if (begin == std::string::npos) {
      place.fd = std::move(source).value();
    } else {
      // No symlinks: one that is absolute means the container's root and not the bind's.
      auto fd = sys::openat2(source->get(), rest.substr(begin), O_PATH, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
      if (!fd) return std::nullopt;
      place.fd = std::move(fd).value();
    }
    place.mount = &mounted->mount;
  }
  auto st = sys::fstat(place.fd.get());
  if (!st) return std::nullopt;
  place.stat = *st;
  return place;
}

Result<std::string> ContainerView::read(const Place& place, size_t limit) {
  if (!S_ISREG(place.stat.st_mode)) return Error("'" + place.path + "' is not a regular file");
  if (place.stat.st_size < 0 || static_cast<uint64_t>(place.stat.st_size) > limit) {
    return Error::from_errno(EFBIG, "'" + place.path + "'");
  }
  // The descriptor and not the path: what was looked at is what is opened.
  TRY(Fd fd, sys::open("/proc/self/fd/" + std::to_string(place.fd.get()), O_RDONLY | O_NONBLOCK | O_NOCTTY));
  // One allocation for the usual file, with room for what the caller appends.
  std::string content;
  content.reserve(static_cast<size_t>(place.stat.st_size) + 4096);
  for (;;) {
    const size_t begin = content.size();
    const size_t wanted = std::max(content.capacity() - begin, size_t{4096});
    content.resize(begin + wanted);
    const ssize_t length = ::read(fd.get(), content.data() + begin, wanted);
    if (length < 0) return Error::last_errno("read '" + place.path + "'");
    content.resize(begin + static_cast<size_t>(length));
    if (length == 0) return content;
    if (content.size() > limit) return Error::from_errno(EFBIG, "'" + place.path + "'");
  }
}

std::vector<std::string> ContainerView::list(const std::string& path, size_t limit) const {
  std::vector<std::string> names;
  const auto place = find(path);
  if (!place || place->mount != nullptr || !S_ISDIR(place->stat.st_mode)) return names;
  auto fd = sys::open("/proc/self/fd/" + std::to_string(place->fd.get()), O_RDONLY | O_DIRECTORY);
  if (!fd) return names;
  std::unique_ptr<DIR, CloseDir> stream(::fdopendir(fd->get()));
  if (!stream) return names;
  (void)fd->release();  // owned by `stream`
  while (names.size() < limit) {
    const dirent* entry = ::readdir(stream.get());
    if (entry == nullptr) break;
    std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(std::move(name));
  }
  return names;
}

std::vector<const oci::ExtraMount*> ContainerView::mounts_below(const std::string& path) const {
  std::vector<const oci::ExtraMount*> found;
  for (const Mounted& mounted : mounts_) {
    if (is_below(mounted.destination, path)) found.push_back(&mounted.mount);
  }
  return found;
}

const oci::ExtraMount* ContainerView::mount_at(const std::string& path) const {
  const oci::ExtraMount* found = nullptr;
  for (const Mounted& mounted : mounts_) {
    if (mounted.destination == path) found = &mounted.mount;
  }
  return found;
}

}  // namespace leash::hooks
