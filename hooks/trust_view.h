// The files of a container that does not run yet, seen as its processes will see them: the rootfs with
// config.json's bind mounts over it.
//
// The image is hostile. Nothing is opened by a path of its choosing: each walk stays below the rootfs
// (or below the bind's source, which the user chose), and only what turned out to be a regular file
// is opened for reading, so that no device is woken and no fifo waited for.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "oci-spec/shim_protocol.h"

namespace leash::hooks {

class ContainerView {
 public:
  [[nodiscard]] static Result<ContainerView> create(const std::string& rootfs,
                                                    const std::vector<oci::ExtraMount>& mounts);

  struct Place {
    Fd fd;             // O_PATH
    std::string path;  // in the container, without symlinks
    struct stat stat = {};
    const oci::ExtraMount* mount = nullptr;  // the bind mount that it lies on; null: the rootfs
  };
  // nullopt: not there, or not to be reached.
  [[nodiscard]] std::optional<Place> find(const std::string& path) const;
  // The content of a regular file; more than `limit` bytes is an error.
  [[nodiscard]] static Result<std::string> read(const Place& place, size_t limit);
  // Names in the directory `path` of the rootfs, at most `limit` of them.
  [[nodiscard]] std::vector<std::string> list(const std::string& path, size_t limit) const;

  // config.json's mounts strictly below the directory `path`, in their order.
  [[nodiscard]] std::vector<const oci::ExtraMount*> mounts_below(const std::string& path) const;
  // The mount whose destination is exactly `path`, if any.
  [[nodiscard]] const oci::ExtraMount* mount_at(const std::string& path) const;

 private:
  struct Mounted {
    std::string destination;  // without symlinks where it could be resolved
    oci::ExtraMount mount;
  };

  [[nodiscard]] const Mounted* covering(const std::string& path) const;
  [[nodiscard]] std::optional<std::string> real_path(int fd) const;

  Fd root_;
  std::string root_path_;  // as the kernel knows it, "" for "/"
  std::vector<Mounted> mounts_;
};

// "/a//b/./c/../d" -> "/a/b/d". Lexical: for paths of config.json.
[[nodiscard]] std::string clean_path(const std::string& path);
[[nodiscard]] bool is_below(const std::string& path, const std::string& directory);
[[nodiscard]] std::string parent_of(const std::string& path);

}  // namespace leash::hooks
