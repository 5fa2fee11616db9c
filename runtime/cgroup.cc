// The directories of a container's cgroup and the processes in it.
#include "runtime/cgroup.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "base/file.h"
#include "base/sys.h"
#include "runtime/cgroup_devices.h"
#include "runtime/cgroup_files.h"
#include "runtime/cgroup_limits.h"

namespace leash::runtime {

namespace {

namespace files = cgroup_files;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// "a/../../b" is "b": a path from config.json stays below where it is put.
std::string clean(std::string_view path) {
  std::vector<std::string_view> parts;
  while (!path.empty()) {
    const size_t end = path.find('/');
    const std::string_view part = path.substr(0, end);
    if (part == "..") {
      if (!parts.empty()) parts.pop_back();
    } else if (!part.empty() && part != ".") {
      parts.push_back(part);
    }
    if (end == std::string_view::npos) break;
    path.remove_prefix(end + 1);
  }
  std::string out;
  for (const std::string_view part : parts) {
    out += '/';
    out += part;
  }
  return out;  // "" or "/a/b"
}

// "a/../.." does.
bool leaves_its_start(std::string_view path) {
  int depth = 0;
  while (!path.empty()) {
    const size_t end = path.find('/');
    const std::string_view part = path.substr(0, end);
    if (part == "..") {
      if (--depth < 0) return true;
    } else if (!part.empty() && part != ".") {
      ++depth;
    }
    if (end == std::string_view::npos) break;
    path.remove_prefix(end + 1);
  }
  return false;
}

bool has_controller(std::string_view list, std::string_view name) {
  while (true) {
    const size_t end = list.find(',');
    if (list.substr(0, end) == name) return true;
    if (end == std::string_view::npos) return false;
    list.remove_prefix(end + 1);
  }
}

bool is_directory(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

// A cpuset of v1 is born empty and takes no process until it has CPUs and memory nodes: those of its
// parent, unless that hands them down by itself (cgroup.clone_children).
Result<void> fill_cpuset(const std::string& directory) {
  const std::string parent = directory.substr(0, directory.rfind('/'));
  for (const char* file : {"cpuset.cpus", "cpuset.mems"}) {
    TRY(const std::string present, files::read(directory, file));
    if (!present.empty()) continue;
    TRY(const std::string inherited, files::read(parent, file));
    if (!inherited.empty()) TRY_VOID(files::write(directory, file, inherited));
  }
  return {};
}

// Gives the children of `directory` every controller that it has itself.
Result<void> enable_controllers(const std::string& directory) {
  TRY(const std::string available, files::read(directory, "cgroup.controllers"));
  TRY(const std::string enabled, files::read(directory, "cgroup.subtree_control"));
  if (available == enabled || available.empty()) return {};
  std::string all;
  for (size_t at = 0; at < available.size();) {
    size_t end = available.find(' ', at);
    if (end == std::string::npos) end = available.size();
    all += (all.empty() ? "+" : " +") + available.substr(at, end - at);
    at = end + 1;
  }
  if (files::write(directory, "cgroup.subtree_control", all)) return {};
  // One of them may be impossible here (a threaded or busy cgroup): the others are wanted all the same. A
  // limit whose controller is missing in the end is an error where it is written.
  for (size_t at = 0; at < all.size();) {
    size_t end = all.find(' ', at);
    if (end == std::string::npos) end = all.size();
    if (Result<void> one = files::write(directory, "cgroup.subtree_control", all.substr(at, end - at)); !one) {
      const int code = one.error().code();
      if (code != EBUSY && code != EINVAL && code != EOPNOTSUPP && code != ENOENT && code != EACCES && code != EPERM) return one;
    }
    at = end + 1;
  }
  return {};
}

Result<void> remove_directory(const std::string& path, Clock::time_point deadline) {
  milliseconds pause(1);
  for (;;) {
    if (rmdir(path.c_str()) == 0 || errno == ENOENT) return {};
    const int code = errno;
    if (code != EBUSY && code != EAGAIN && code != ENOTEMPTY) return Error::from_errno(code, "remove cgroup '" + path + "'");
    const std::vector<std::string> below = files::children(path);
    for (const std::string& name : below) TRY_VOID(remove_directory(path + '/' + name, deadline));
    if (!below.empty()) continue;
    if (Clock::now() > deadline) return Error::from_errno(code, "remove cgroup '" + path + "'");
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, milliseconds(50));
  }
}

Result<void> add_pids(const std::string& directory, std::vector<pid_t>& pids) {
  Result<std::string> text = files::read(directory, "cgroup.procs");
  if (!text) {
    // Gone, or threaded (its processes are listed by the cgroup above).
    if (text.error().code() == ENOENT || text.error().code() == ENODEV || text.error().code() == EOPNOTSUPP) return {};
    return std::move(text).error();
  }
  std::string_view rest = *text;
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    // 0 is a process of a pid namespace that is not ours to see.
    if (const auto pid = files::parse_number(rest.substr(0, end)); pid && *pid != 0) pids.push_back(static_cast<pid_t>(*pid));
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  for (const std::string& name : files::children(directory)) TRY_VOID(add_pids(directory + '/' + name, pids));
  return {};
}

Result<void> write_pid(const std::string& directory, pid_t pid) {
  const std::string path = directory + "/cgroup.procs";
  Result<void> written = file::write_control(path, std::to_string(pid));
  if (written) return written;
  return Error::from_errno(written.error().code(), "error adding pid " + std::to_string(pid) + " to cgroups: open " + path);
}

// exec's --cgroup: one path for all hierarchies, or "CONTROLLER,...:PATH" for some (v1).
Result<std::vector<oci::CgroupPath>> below(std::vector<oci::CgroupPath> paths, const std::vector<std::string>& sub_cgroups, CgroupMode mode) {
  std::vector<bool> is_moved(paths.size(), false);
  for (const std::string& argument : sub_cgroups) {
    const size_t colon = argument.find(':');
    const std::string sub = colon == std::string::npos ? argument : argument.substr(colon + 1);
    if (leaves_its_start(sub)) return Error(EINVAL, sub + " is not a sub cgroup path");
    if (colon == std::string::npos) {
      if (sub_cgroups.size() > 1) return Error(EINVAL, "invalid --cgroup argument: " + argument + " (missing <controller>: prefix)");
      for (oci::CgroupPath& path : paths) path.path += clean(sub);
      continue;
    }
    std::string_view names = std::string_view(argument).substr(0, colon);
    for (bool has_more = true; has_more;) {
      const size_t end = names.find(',');
      const std::string_view name = names.substr(0, end);
      if (name.empty()) return Error(EINVAL, "invalid --cgroup argument: " + argument + " (empty <controller> prefix)");
      const auto target = std::find_if(paths.begin(), paths.end(), [&](const oci::CgroupPath& entry) {
        return mode != CgroupMode::kV2 && has_controller(entry.controllers, name);
      });
      if (target == paths.end()) return Error(EINVAL, "unknown controller " + std::string(name) + " in --cgroup " + argument);
      const auto index = static_cast<size_t>(target - paths.begin());
      // "cpu,cpuacct:x" names a hierarchy of both twice.
      if (!is_moved[index]) target->path += clean(sub);
      is_moved[index] = true;
      has_more = end != std::string_view::npos;
      if (has_more) names.remove_prefix(end + 1);
    }
  }
  return paths;
}

// The v2 cgroup of a process, as a directory.
Result<std::string> cgroup_of(pid_t pid) {
  TRY(const std::string text, file::read("/proc/" + std::to_string(pid) + "/cgroup"));
  TRY(const CgroupHost host, CgroupHost::discover());
  const size_t at = text.rfind("0::");
  for (const CgroupHierarchy& hierarchy : host.hierarchies) {
    if (at == std::string::npos || !hierarchy.controllers.empty()) continue;
    return hierarchy.mount_point + clean(std::string_view(text).substr(at + 3, text.find('\n', at) - at - 3));
  }
  return Error(ENOENT, "process " + std::to_string(pid) + " is in no cgroup of v2");
}

// The freezer of v1 freezes what is there; a process that forks meanwhile can hold it in FREEZING, so that
// now and then everything is thawed for a moment.
Result<void> freeze_v1(const std::string& directory, Clock::time_point deadline) {
  milliseconds pause(0);
  for (int attempt = 1;; ++attempt) {
    TRY_VOID(files::write(directory, "freezer.state", "FROZEN"));
    TRY(const std::string state, files::read(directory, "freezer.state"));
    if (state == "FROZEN") return {};
    if (Clock::now() > deadline) break;
    if (attempt % 50 == 0) TRY_VOID(files::write(directory, "freezer.state", "THAWED"));
    std::this_thread::sleep_for(pause);
    pause = std::min(pause + milliseconds(1), milliseconds(20));
  }
  TRY_VOID(files::write(directory, "freezer.state", "THAWED"));
  return Error(ETIMEDOUT, "unable to freeze the cgroup '" + directory + "'");
}

// Waits until `field` of cgroup.events is `value`: the kernel signals each change with POLLPRI, until the
// file is read again through the same descriptor.
Result<bool> wait_for_event(const std::string& directory, std::string_view field, uint64_t value, Clock::time_point deadline) {
  TRY(Fd events, sys::open(directory + "/cgroup.events", O_RDONLY));
  const std::string wanted = std::string(field) + ' ' + std::to_string(value) + '\n';
  for (;;) {
    char text[256];
    const ssize_t length = pread(events.get(), text, sizeof text, 0);
    if (length < 0) return Error::last_errno("read '" + directory + "/cgroup.events'");
    if (std::string_view(text, static_cast<size_t>(length)).find(wanted) != std::string_view::npos) return true;
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd entry = {events.get(), POLLPRI, 0};
    poll(&entry, 1, static_cast<int>(left));
  }
}

Result<void> freeze_v2(const std::string& directory, bool frozen, Clock::time_point deadline) {
  TRY_VOID(files::write(directory, "cgroup.freeze", frozen ? "1" : "0"));
  TRY(const bool is_done, wait_for_event(directory, "frozen", frozen ? 1 : 0, deadline));
  if (is_done) return {};
  if (frozen) TRY_VOID(files::write(directory, "cgroup.freeze", "0"));
  return Error(ETIMEDOUT, std::string(frozen ? "unable to freeze" : "unable to thaw") + " the cgroup '" + directory + "'");
}

constexpr auto kFreezeTime = std::chrono::seconds(10);

}  // namespace

Result<std::string> directory_for(const Cgroup& cgroup, std::string_view controller, std::string_view limit) {
  std::string directory = cgroup.directory(controller);
  if (!directory.empty()) return directory;
  return Error(ENODEV, "cannot set " + std::string(limit) + ": container could not join or create cgroup (no " +
                           std::string(controller) + " controller)");
}

Result<Cgroup> Cgroup::plan(const CgroupRequest& request) {
  if (request.use_systemd) {
    // sd_booted(3)
    if (!is_directory("/run/systemd/system")) return Error(ENODEV, "systemd not running on this host, cannot use systemd cgroups manager");
    return Error(ENOSYS, "the systemd cgroup manager is not available, use cgroupfs (without --systemd-cgroup)");
  }
  TRY(CgroupHost host, CgroupHost::discover());
  Cgroup cgroup;
  cgroup.mode_ = host.mode;
  cgroup.is_rootless_ = request.is_rootless;
  const bool is_relative = !request.cgroups_path.empty() && request.cgroups_path[0] != '/';
  const std::string path = clean(request.cgroups_path.empty() ? request.container_id : request.cgroups_path);
  if (path.empty()) return Error(EINVAL, "cgroupsPath '" + request.cgroups_path + "' is the root of the hierarchy");
  for (CgroupHierarchy& hierarchy : host.hierarchies) {
    std::string base = hierarchy.mount_point;
    if (is_relative) {
      std::string own = clean(hierarchy.own_path);
      if (host.mode == CgroupMode::kV2) own = own.substr(0, own.empty() ? 0 : own.rfind('/'));
      // Inside of a container without a cgroup namespace the own path is the host's, and not below here.
      if (is_directory(base + own)) base += own;
    }
    cgroup.paths_.push_back({std::move(hierarchy.controllers), base + path});
    cgroup.mount_points_.push_back(std::move(hierarchy.mount_point));
  }
  return cgroup;
}

Cgroup Cgroup::from_record(const std::vector<oci::CgroupPath>& paths) {
  Cgroup cgroup;
  cgroup.paths_ = paths;
  const auto is_v2 = [](const oci::CgroupPath& entry) { return entry.controllers.empty(); };
  const bool has_v2 = std::any_of(paths.begin(), paths.end(), is_v2);
  const bool has_v1 = !std::all_of(paths.begin(), paths.end(), is_v2);
  cgroup.mode_ = !has_v1 ? CgroupMode::kV2 : has_v2 ? CgroupMode::kHybrid : CgroupMode::kV1;
  return cgroup;
}

std::string Cgroup::directory(std::string_view controller) const {
  for (const oci::CgroupPath& entry : paths_) {
    if (mode_ == CgroupMode::kV2) return entry.path;
    if (controller.empty() ? entry.controllers.empty() : has_controller(entry.controllers, controller)) return entry.path;
  }
  return {};
}

Result<void> Cgroup::check_unused() const {
  std::vector<pid_t> pids;
  bool is_there = false;
  for (const oci::CgroupPath& entry : paths_) {
    if (!is_directory(entry.path)) continue;
    is_there = true;
    TRY_VOID(add_pids(entry.path, pids));
  }
  if (!is_there) return {};
  std::sort(pids.begin(), pids.end());
  pids.erase(std::unique(pids.begin(), pids.end()), pids.end());
  if (!pids.empty()) return Error(EBUSY, "container's cgroup is not empty: " + std::to_string(pids.size()) + " process(es) found");
  TRY(const bool frozen, is_frozen());
  if (frozen) return Error(EBUSY, "container's cgroup unexpectedly frozen");
  return {};
}

Result<void> Cgroup::create(const oci::Resources& resources) {
  std::vector<std::string> made;  // in the order of their making
  bool was_there = false;
  const bool wants_v2_limits = mode_ == CgroupMode::kV2 || !resources.hugepage_limits.empty();

  const auto make = [&](const oci::CgroupPath& entry, const std::string& mount_point) -> Result<void> {
    const bool is_cpuset = has_controller(entry.controllers, "cpuset");
    const bool is_v2 = entry.controllers.empty();
    const bool every_level = is_cpuset || (is_v2 && wants_v2_limits);
    // The usual case is that only the last directory is missing.
    if (!every_level) {
      if (mkdir(entry.path.c_str(), 0755) == 0) {
        made.push_back(entry.path);
        return {};
      }
      if (errno == EEXIST) {
        was_there = true;
        return {};
      }
    }
    for (size_t end = entry.path.find('/', mount_point.size() + 1);; end = entry.path.find('/', end + 1)) {
      const std::string level = entry.path.substr(0, end);
      if (is_v2 && wants_v2_limits) TRY_VOID(enable_controllers(level.substr(0, level.rfind('/'))));
      if (mkdir(level.c_str(), 0755) == 0) {
        made.push_back(level);
        if (is_cpuset) TRY_VOID(fill_cpuset(level));
      } else if (errno != EEXIST) {
        return Error::last_errno("mkdir '" + level + "'");
      } else if (end == std::string::npos) {
        was_there = true;
        if (is_cpuset) TRY_VOID(fill_cpuset(level));
      }
      if (end == std::string::npos) return {};
    }
  };
  const auto fill = [&]() -> Result<void> {
    for (size_t i = 0; i < paths_.size();) {
      Result<void> outcome = make(paths_[i], mount_points_[i]);
      if (!outcome) {
        const int code = outcome.error().code();
        if (!is_rootless_ || (code != EACCES && code != EPERM && code != EROFS)) return outcome;
        // Not ours to write: without this hierarchy. A limit that needs it is refused when it is written.
        paths_.erase(paths_.begin() + static_cast<std::ptrdiff_t>(i));
        mount_points_.erase(mount_points_.begin() + static_cast<std::ptrdiff_t>(i));
        continue;
      }
      ++i;
    }
    // Again: somebody may have been quicker.
    if (was_there) TRY_VOID(check_unused());
    if (!is_rootless_) {
      const auto rules = with_default_devices(resources.devices);
      if (mode_ == CgroupMode::kV2) {
        TRY_VOID(set_devices_v2(directory(""), rules));
      } else if (const std::string devices = directory("devices"); !devices.empty()) {
        TRY_VOID(set_devices_v1(devices, rules));
      } else if (mode_ == CgroupMode::kHybrid) {
        TRY_VOID(set_devices_v2(directory(""), rules));
      } else {
        return Error(ENODEV, "cannot restrict devices: no devices controller");
      }
    }
    if (mode_ == CgroupMode::kV2) return set_v2_limits(directory(""), resources);
    return set_v1_limits(*this, resources, true);
  };

  Result<void> outcome = fill();
  if (!outcome) {
    for (auto path = made.rbegin(); path != made.rend(); ++path) rmdir(path->c_str());
  }
  return outcome;
}

Result<void> Cgroup::update(const oci::Resources& resources) const {
  if (mode_ != CgroupMode::kV2) return set_v1_limits(*this, resources, false);
  return set_v2_limits(directory(""), resources);
}

Result<void> Cgroup::join(pid_t pid, const std::vector<std::string>& sub_cgroups, pid_t init_pid) const {
  TRY(const std::vector<oci::CgroupPath> targets, below(paths_, sub_cgroups, mode_));
  for (const oci::CgroupPath& target : targets) {
    Result<void> joined = write_pid(target.path, pid);
    if (joined) continue;
    const int code = joined.error().code();
    // A container that has spread itself over cgroups of its own (systemd inside) has no processes in the
    // topmost one, and v2 refuses to put one there: it goes where init is.
    if (target.controllers.empty() && (code == EBUSY || code == EOPNOTSUPP) && init_pid > 0 && sub_cgroups.empty()) {
      TRY(const std::string of_init, cgroup_of(init_pid));
      // Never out of the container's own.
      if (of_init.starts_with(target.path + '/') && write_pid(of_init, pid)) continue;
    }
    return joined;
  }
  return {};
}

Result<void> Cgroup::freeze() const {
  const auto deadline = Clock::now() + kFreezeTime;
  if (mode_ == CgroupMode::kV2) return freeze_v2(directory(""), true, deadline);
  const std::string freezer = directory("freezer");
  if (!freezer.empty()) return freeze_v1(freezer, deadline);
  if (mode_ == CgroupMode::kHybrid) return freeze_v2(directory(""), true, deadline);
  return Error(ENODEV, "cannot pause: the host has no freezer controller");
}

Result<void> Cgroup::thaw() const {
  const auto deadline = Clock::now() + kFreezeTime;
  if (mode_ == CgroupMode::kV2) return freeze_v2(directory(""), false, deadline);
  const std::string freezer = directory("freezer");
  if (!freezer.empty()) return files::write(freezer, "freezer.state", "THAWED");
  if (mode_ == CgroupMode::kHybrid) return freeze_v2(directory(""), false, deadline);
  return Error(ENODEV, "cannot resume: the host has no freezer controller");
}

Result<bool> Cgroup::is_frozen() const {
  const std::string freezer = mode_ == CgroupMode::kV2 ? std::string() : directory("freezer");
  if (freezer.empty()) {
    // Asked for, not reached: what `resume` has to undo.
    return files::read_number(directory(""), "cgroup.freeze") == uint64_t{1};
  }
  Result<std::string> state = files::read(freezer, "freezer.state");
  if (!state) {
    if (state.error().code() == ENOENT || state.error().code() == ENODEV) return false;
    return std::move(state).error();
  }
  return *state != "THAWED";
}

Result<std::vector<pid_t>> Cgroup::pids() const {
  std::vector<pid_t> pids;
  // Every process is in all hierarchies; one that can be listed is enough.
  for (const oci::CgroupPath& entry : paths_) {
    if (!is_directory(entry.path)) continue;
    TRY_VOID(add_pids(entry.path, pids));
    break;
  }
  std::sort(pids.begin(), pids.end());
  return pids;
}

Result<void> Cgroup::signal_all(int signal) const {
  const std::string v2 = mode_ == CgroupMode::kV1 ? std::string() : directory("");
  if (signal == SIGKILL && !v2.empty() && files::exists(v2, "cgroup.kill")) {
    // Atomic: also what forks at this moment (Linux 5.14).
    TRY_VOID(files::write(v2, "cgroup.kill", "1"));
  } else {
    TRY(const bool was_frozen, is_frozen());
    // Held still, so that no fork escapes the list. Where that cannot be done the list is the best there is.
    const bool is_held = was_frozen || static_cast<bool>(freeze());
    Result<std::vector<pid_t>> all = pids();
    if (all) {
      for (const pid_t pid : *all) kill(pid, signal);
    }
    if (is_held && !(was_frozen && signal != SIGKILL)) TRY_VOID(thaw());
    if (!all) return std::move(all).error();
    return {};
  }
  // A process that the freezer of v1 holds does not even die.
  TRY(const bool frozen, is_frozen());
  if (frozen && mode_ != CgroupMode::kV2) TRY_VOID(thaw());
  return {};
}

Result<void> Cgroup::kill_all(milliseconds time) const {
  const auto deadline = Clock::now() + time;
  milliseconds pause(1);
  for (;;) {
    TRY(const std::vector<pid_t> left, pids());
    if (left.empty()) return {};
    TRY_VOID(signal_all(SIGKILL));
    if (Clock::now() > deadline) {
      return Error(ETIMEDOUT, "unable to kill all processes of the container: " + std::to_string(left.size()) + " left");
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, milliseconds(50));
  }
}

uint64_t Cgroup::oom_kills() const {
  const std::string memory = directory("memory");
  if (memory.empty()) return 0;
  return files::read_field(memory, mode_ == CgroupMode::kV2 ? "memory.events" : "memory.oom_control", "oom_kill").value_or(0);
}

Result<void> Cgroup::destroy() const {
  const auto deadline = Clock::now() + std::chrono::seconds(2);
  Result<void> outcome;
  for (const oci::CgroupPath& entry : paths_) {
    Result<void> removed = remove_directory(entry.path, deadline);
    if (!removed && outcome) outcome = std::move(removed);
  }
  return outcome;
}

Result<Fd> Cgroup::v2_directory() const {
  const std::string path = directory("");
  if (path.empty()) return Error(ENODEV, "the host has no cgroup v2 tree");
  return sys::open(path, O_RDONLY | O_DIRECTORY);
}

}  // namespace leash::runtime
