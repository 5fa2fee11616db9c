#include "shim/left_over.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <sstream>

#include "base/file.h"
#include "base/sys.h"
#include "hooks/lockin.h"
#include "shim/journal.h"
#include "shim/log_files.h"
#include "shim/own_cgroup.h"

namespace leash::shim {

namespace {

constexpr std::chrono::seconds kTimeToEnd{6};

// A namespace that outlived the container has a name: a bind mount of nsfs (podman, `ip netns`).
Result<void> remove_guard_of(uint64_t n1_inode) {
  if (n1_inode == 0) return {};
  struct stat own = {};
  if (::stat("/proc/self/ns/net", &own) == 0 && static_cast<uint64_t>(own.st_ino) == n1_inode) return {};
  TRY(const std::string text, file::read("/proc/self/mountinfo"));
  const std::string root = "net:[" + std::to_string(n1_inode) + "]";
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string id;
    std::string parent;
    std::string device;
    std::string root_in_mount;
    std::string point;
    words >> id >> parent >> device >> root_in_mount >> point;
    if (root_in_mount != root) continue;
    auto n1 = sys::open(point, O_RDONLY);
    if (n1) return hooks::remove_guard(n1->get());
  }
  return {};
}

}  // namespace

Result<void> clear_left_over(const RegistryDirectory& directory, const std::string& container_id) {
  // First whoever may still write: the proxy and the dialer, if they were not born yet when their parent
  // died, or are still on their way out.
  TRY_VOID(OwnCgroup::find(container_id).kill_all());
  auto entry = directory.read_entry();
  struct stat table = {};
  if (entry && entry->network_of.empty() && ::stat((directory.path() + "/in-flight").c_str(), &table) == 0) {
    auto settled = [&]() -> Result<void> {
      TRY(LogFiles logs, LogFiles::open(entry->log_directory, directory.path() + "/in-flight",
                                        entry->name.empty() ? container_id : entry->name));
      TRY_VOID(logs.settle());
      logs.remove_empty_files();
      logs.remove_empty_directory();
      return {};
    }();
    // The logs lie where the operator put them; that they are away must not keep the container's id taken.
    if (!settled) note("logs of '" + container_id + "': " + settled.error().message());
    auto removed = remove_guard_of(entry->n1_inode);
    if (!removed) note("inbound guard of '" + container_id + "': " + removed.error().message());
  }
  (void)::unlink((directory.path() + "/shim.sock").c_str());
  TRY_VOID(file::remove_tree(directory.path() + "/trust"));
  (void)::unlink((directory.path() + "/in-flight").c_str());
  (void)::unlink((directory.path() + "/container.json").c_str());
  return {};
}

Result<void> clean_up(const std::string& container_id) {
  auto directory = RegistryDirectory::claim_left_over(container_id);
  // Its create was killed: it is on its way out, and answers no more or not yet.
  const auto deadline = std::chrono::steady_clock::now() + kTimeToEnd;
  while (!directory && directory.error().code() == EBUSY && std::chrono::steady_clock::now() < deadline) {
    ::usleep(5000);
    directory = RegistryDirectory::claim_left_over(container_id);
  }
  if (!directory) {
    if (directory.error().code() == ENOENT) {
      // Or it was killed between the two steps of giving up its directory.
      return file::remove_tree(oci::registry_directory() + "/@" + container_id);
    }
    return std::move(directory).error();
  }
  TRY_VOID(clear_left_over(*directory, container_id));
  directory->retire();
  directory->discard();
  OwnCgroup::find(container_id).remove();
  return {};
}

}  // namespace leash::shim
