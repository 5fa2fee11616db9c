#include "runtime/root_paths.h"

#include <deque>
#include <vector>

#include "base/sys.h"

namespace leash::runtime {

namespace {

constexpr int kMaxLinks = 255;

void prepend(std::deque<std::string>& pending, std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (!part.empty() && part != ".") parts.emplace_back(part);
    if (slash == std::string_view::npos) break;
    path.remove_prefix(slash + 1);
  }
  pending.insert(pending.begin(), parts.begin(), parts.end());
}

std::string joined(const std::vector<std::string>& parts) {
  std::string path;
  for (const std::string& part : parts) path += "/" + part;
  return path.empty() ? "/" : path;
}

// Resolves `path` to components without links or "..", making missing directories. With `keeps_last`
// the last one may be missing and is not made; links in its place are still followed.
Result<std::vector<std::string>> resolve(int root_fd, std::string_view path, mode_t mode, bool keeps_last) {
  std::deque<std::string> pending;
  prepend(pending, path);
  std::vector<std::string> done;
  int links = 0;
  while (!pending.empty()) {
    const std::string part = pending.front();
    pending.pop_front();
    if (part == "..") {
      if (!done.empty()) done.pop_back();
      continue;
    }
    done.push_back(part);
    const std::string here = joined(done);
    auto entry = sys::open_in_root(root_fd, here, O_PATH | O_NOFOLLOW);
    if (!entry) {
      if (entry.error().code() != ENOENT) return std::move(entry).error();
      if (keeps_last && pending.empty()) return done;
      done.pop_back();
      TRY(Fd parent, sys::open_in_root(root_fd, joined(done), O_PATH | O_DIRECTORY));
      done.push_back(part);
      // EEXIST: somebody else was quicker; what it is shows when it is opened.
      if (::mkdirat(parent.get(), part.c_str(), mode) < 0 && errno != EEXIST) return Error::last_errno("mkdir " + here);
      continue;
    }
    TRY(const struct stat st, sys::fstat(entry->get()));
    if (!S_ISLNK(st.st_mode)) {
      if (!pending.empty() && !S_ISDIR(st.st_mode)) return Error::from_errno(ENOTDIR, "mkdir " + here);
      continue;
    }
    if (++links > kMaxLinks) return Error::from_errno(ELOOP, "open " + here);
    TRY(const std::string target, sys::readlinkat(entry->get(), ""));
    if (target.starts_with('/')) done.clear();
    else done.pop_back();
    prepend(pending, target);
  }
  return done;
}

}  // namespace

Result<Fd> make_directory_in_root(int root_fd, std::string_view path, mode_t mode) {
  const std::string text(path);
  auto there = sys::open_in_root(root_fd, text, O_PATH);
  if (there) {
    TRY(const struct stat st, sys::fstat(there->get()));
    if (S_ISDIR(st.st_mode)) return there;
    return Error::from_errno(ENOTDIR, "mkdir " + text);
  }
  if (there.error().code() != ENOENT) return Error::from_errno(there.error().code(), "mkdir " + text);
  TRY(const auto parts, resolve(root_fd, path, mode, false));
  return sys::open_in_root(root_fd, joined(parts), O_PATH | O_DIRECTORY | O_NOFOLLOW);
}

Result<std::pair<Fd, std::string>> make_parent_in_root(int root_fd, std::string_view path) {
  TRY(auto parts, resolve(root_fd, path, 0755, true));
  if (parts.empty()) return Error::from_errno(EINVAL, "open " + std::string(path));
  std::string name = std::move(parts.back());
  parts.pop_back();
  TRY(Fd parent, sys::open_in_root(root_fd, joined(parts), O_PATH | O_DIRECTORY | O_NOFOLLOW));
  return std::pair(std::move(parent), std::move(name));
}

Result<Fd> make_file_in_root(int root_fd, std::string_view path, mode_t mode) {
  auto there = sys::open_in_root(root_fd, std::string(path), O_PATH);
  if (there || there.error().code() != ENOENT) return there;
  TRY(auto place, make_parent_in_root(root_fd, path));
  auto made = sys::openat(place.first.get(), place.second, O_WRONLY | O_CREAT | O_NOFOLLOW, mode);
  if (!made) return made;
  return sys::openat(place.first.get(), place.second, O_PATH | O_NOFOLLOW);
}

}  // namespace leash::runtime
