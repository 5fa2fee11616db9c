#include "runtime/leash/network.h"

#include <dirent.h>
#include <sched.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <vector>

#include "base/channel.h"
#include "base/file.h"
#include "base/sys.h"

namespace leash::runtime {

namespace {

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

std::vector<std::string> entries_of(const std::string& directory) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, CloseDir> stream(::opendir(directory.c_str()));
  if (!stream) return names;
  while (const dirent* entry = ::readdir(stream.get())) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  return names;
}

// The registry entry of that namespace whose shim answers. One whose shim is gone protects nobody.
std::optional<oci::RegistryEntry> find_leashed(uint64_t inode) {
  const std::string registry = oci::registry_directory();
  for (const std::string& name : entries_of(registry)) {
    const auto text = file::read(registry + "/" + name + "/container.json");
    if (!text) continue;
    auto entry = oci::parse_registry_entry(*text);
    if (!entry || (entry->n1_inode != inode && entry->n2_inode != inode)) continue;
    if (Channel::connect(registry + "/" + name + "/shim.sock")) return std::move(entry).value();
  }
  return std::nullopt;
}

// A process that lives in the namespace; 0 when there is none.
pid_t find_inhabitant(uint64_t inode) {
  for (const std::string& name : entries_of("/proc")) {
    pid_t pid = 0;
    const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (code != std::errc() || end != name.data() + name.size()) continue;
    if (namespace_inode(pid, "net") == inode) return pid;
  }
  return 0;
}

std::string describe(pid_t pid) {
  std::string name = file::read("/proc/" + std::to_string(pid) + "/comm").value_or("?");
  if (!name.empty() && name.back() == '\n') name.pop_back();
  return std::to_string(pid) + " (" + name + ")";
}

}  // namespace

Result<NetworkChoice> classify_network(const NamespacePlan& plan) {
  NetworkChoice choice;
  if (plan.is_new(CLONE_NEWNET)) return choice;
  const JoinedNamespace* joined = plan.find_joined(oci::NamespaceType::kNetwork);
  if (joined == nullptr) {  // none, or a path to the one that we are in
    choice.kind = oci::NetworkKind::kHost;
    return choice;
  }
  TRY(const struct stat st, sys::fstat(joined->fd.get()));
  choice.leashed = find_leashed(st.st_ino);
  choice.kind = oci::NetworkKind::kPath;
  if (choice.leashed) return choice;
  if (st.st_ino == namespace_inode(1, "net")) {
    choice.kind = oci::NetworkKind::kHost;
    return choice;
  }
  const pid_t inhabitant = find_inhabitant(st.st_ino);
  if (inhabitant != 0 || joined->path.starts_with("/proc/")) {
    std::string text = "network namespace " + joined->path + " is that of a container that is not leashed";
    if (inhabitant != 0) text += ": process " + describe(inhabitant) + " lives in it";
    return Error(EINVAL, text + "; run that one with the leash runtime, too, or this one with a network of its own");
  }
  return choice;
}

}  // namespace leash::runtime
