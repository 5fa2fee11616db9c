#include "runtime/idmap.h"

#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>

#include "base/file.h"
#include "base/process.h"
#include "base/sys.h"

namespace leash::runtime {

namespace {

std::string map_text(const std::vector<oci::IdMapping>& mappings) {
  std::string text;
  for (const oci::IdMapping& mapping : mappings) {
    text += std::to_string(mapping.container_id) + " " + std::to_string(mapping.host_id) + " " +
            std::to_string(mapping.size) + "\n";
  }
  return text;
}

// "0-1-10#10-11-10": container id, host id, size.
Result<std::vector<oci::IdMapping>> parse_ranges(std::string_view text) {
  std::vector<oci::IdMapping> mappings;
  while (!text.empty()) {
    const size_t end = text.find('#');
    std::string_view range = text.substr(0, end);
    if (!range.empty() && range[0] == '@') range.remove_prefix(1);  // crun: relative to the container's mapping
    oci::IdMapping mapping;
    for (uint32_t* number : {&mapping.container_id, &mapping.host_id, &mapping.size}) {
      const auto [stop, code] = std::from_chars(range.data(), range.data() + range.size(), *number);
      if (code != std::errc()) return Error(EINVAL, "invalid id mapping '" + std::string(text) + "'");
      range.remove_prefix(static_cast<size_t>(stop - range.data()));
      if (!range.empty()) range.remove_prefix(1);
    }
    mappings.push_back(mapping);
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return mappings;
}

// A user namespace with these mappings.
Result<Fd> mapped_user_namespace(const std::vector<oci::IdMapping>& uid, const std::vector<oci::IdMapping>& gid) {
  const long pid = ::syscall(SYS_clone, static_cast<unsigned long>(CLONE_NEWUSER | SIGCHLD), 0UL, nullptr, nullptr, 0UL);
  if (pid < 0) return Error::last_errno("clone for an id mapping");
  if (pid == 0) {
    for (;;) ::pause();
  }
  const pid_t child = static_cast<pid_t>(pid);
  auto made = [&]() -> Result<Fd> {
    const std::string proc = "/proc/" + std::to_string(child);
    TRY_VOID(file::write_control(proc + "/uid_map", map_text(uid)));
    TRY_VOID(file::write_control(proc + "/gid_map", map_text(gid)));
    return sys::open(proc + "/ns/user", O_RDONLY);
  }();
  ::kill(child, SIGKILL);
  TRY_VOID(process::wait_for(child));
  return made;
}

}  // namespace

Result<IdmapMappings> idmap_mappings(const oci::Mount& mount, const std::string& text,
                                     const std::vector<oci::IdMapping>& container_uid,
                                     const std::vector<oci::IdMapping>& container_gid) {
  IdmapMappings mappings;
  mappings.uid = mount.uid_mappings;
  mappings.gid = mount.gid_mappings;
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t end = rest.find(';');
    const std::string_view part = rest.substr(0, end);
    if (part.starts_with("uids=")) {
      TRY(mappings.uid, parse_ranges(part.substr(5)));
    } else if (part.starts_with("gids=")) {
      TRY(mappings.gid, parse_ranges(part.substr(5)));
    } else {
      return Error(EINVAL, "invalid option 'idmap=" + text + "'");
    }
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  if (mappings.uid.empty()) mappings.uid = container_uid;
  if (mappings.gid.empty()) mappings.gid = container_gid;
  if (mappings.uid.empty() || mappings.gid.empty()) return Error(EINVAL, "an idmap mount needs uid and gid mappings");
  return mappings;
}

Result<void> apply_idmap(int tree_fd, const std::vector<oci::IdMapping>& uid_mappings,
                         const std::vector<oci::IdMapping>& gid_mappings, bool is_recursive) {
  TRY(Fd mapping, mapped_user_namespace(uid_mappings, gid_mappings));
  struct mount_attr attributes = {};
  attributes.attr_set = MOUNT_ATTR_IDMAP;
  attributes.userns_fd = static_cast<uint64_t>(mapping.get());
  return sys::mount_setattr(tree_fd, "", AT_EMPTY_PATH | (is_recursive ? unsigned{AT_RECURSIVE} : 0U), attributes)
      .context("failed to set MOUNT_ATTR_IDMAP");
}

}  // namespace leash::runtime
