#include "runtime/state_store.h"

#include <dirent.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "base/file.h"
#include "base/sys.h"
#include "runtime/cgroup.h"
#include "runtime/init_socket.h"

namespace leash::runtime {

namespace {

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

}  // namespace

Result<void> check_container_id(std::string_view id) {
  const bool is_plain = std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '+' ||
           c == '-' || c == '.';
  });
  if (!is_plain || id.empty() || id.size() > 1024 || id == "." || id == "..") {
    return Error(EINVAL, "invalid container ID format");
  }
  return {};
}

uint64_t process_start_time(pid_t pid) {
  const auto stat = file::read("/proc/" + std::to_string(pid) + "/stat");
  if (!stat) return 0;
  // The name in field 2 may hold anything, also ")": fields are counted from its last one.
  const size_t name_end = stat->rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= stat->size()) return 0;
  const char state = (*stat)[name_end + 2];
  if (state == 'Z' || state == 'X') return 0;
  constexpr uint64_t kExiting = 0x4;  // PF_EXITING: a pid namespace's init waits for its last processes
  size_t at = name_end + 2;
  uint64_t number = 0;
  for (int field = 3; field < 22; ++field) {
    at = stat->find(' ', at);
    if (at == std::string::npos) return 0;
    ++at;
    std::from_chars(stat->data() + at, stat->data() + stat->size(), number);
    if (field + 1 == 9 && (number & kExiting) != 0) return 0;
  }
  return number;
}

bool Container::is_alive() const {
  return record.init_pid > 0 && process_start_time(record.init_pid) == record.init_start_time &&
         record.init_start_time != 0;
}

Result<oci::Status> Container::status() const {
  if (record.init_pid == 0) return oci::Status::kCreating;
  if (!is_alive()) return oci::Status::kStopped;
  TRY(const bool is_frozen, Cgroup::from_record(record.cgroups).is_frozen());
  if (is_frozen) return oci::Status::kPaused;
  // The socket file may outlive the one who listens (a killed `start`): asking is the only proof.
  if (::access(init_socket().c_str(), F_OK) == 0 && connect_to_init(directory)) return oci::Status::kCreated;
  return oci::Status::kRunning;
}

Result<oci::State> Container::state() const {
  oci::State state;
  state.oci_version = record.oci_version;
  state.id = record.id;
  TRY(state.status, status());
  state.pid = state.status == oci::Status::kStopped ? 0 : record.init_pid;
  state.bundle = record.bundle;
  state.annotations = record.annotations;
  state.rootfs = record.rootfs;
  state.created = record.created;
  state.owner = "";
  return state;
}

Result<void> Container::save() const { return file::write_atomic(record_path(), oci::print(record), 0600); }

Result<void> Container::remove() const { return file::remove_tree(directory); }

Result<Container> StateStore::create(const std::string& id) const {
  TRY_VOID(check_container_id(id));
  TRY_VOID(file::make_directories(root_, 0700));
  Container container;
  container.directory = root_ + "/" + id;
  container.record.id = id;
  if (::mkdir(container.directory.c_str(), 0711) < 0) {
    if (errno == EEXIST) return Error(EEXIST, "container with given ID already exists");
    return Error::last_errno("mkdir " + container.directory);
  }
  return container;
}

Result<Container> StateStore::load(const std::string& id) const {
  TRY_VOID(check_container_id(id));
  Container container;
  container.directory = root_ + "/" + id;
  auto text = file::read(container.record_path());
  if (!text) {
    if (text.error().code() != ENOENT) return std::move(text).error();
    // A directory without a record: a create under way, or one that was killed.
    if (::access(container.directory.c_str(), F_OK) < 0) return Error(ENOENT, "container does not exist");
    container.record.id = id;
    return container;
  }
  TRY(container.record, oci::parse_container_record(*text).context(container.record_path()));
  return container;
}

Result<std::vector<std::string>> StateStore::ids() const {
  std::vector<std::string> names;
  std::unique_ptr<DIR, CloseDir> stream(::opendir(root_.c_str()));
  if (!stream) {
    if (errno == ENOENT) return names;
    return Error::last_errno("open " + root_);
  }
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string name = entry->d_name;
    if (!check_container_id(name)) continue;
    if (::access((root_ + "/" + name + "/state.json").c_str(), F_OK) == 0) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace leash::runtime
