// A bundle as create and run get it: the directory, its config.json, its rootfs.
#pragma once

#include <string>

#include "base/result.h"
#include "oci-spec/config.h"

namespace leash::runtime {

struct Bundle {
  std::string directory;  // absolute, without links
  std::string rootfs;     // the same
  std::string text;       // config.json as written
  oci::Config config;     // parsed and validated
};

// Makes `path` the current directory, so that what config.json names relatively is found from there.
// Errors in runc's words: "chdir /x: no such file or directory", "JSON specification file config.json not
// found", "invalid rootfs: stat /x: no such file or directory".
[[nodiscard]] Result<Bundle> open_bundle(const std::string& path);

// `path` from the directory in which the command was called, absolute.
[[nodiscard]] std::string absolute_path(const std::string& path);

}  // namespace leash::runtime
