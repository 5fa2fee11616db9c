#include "shim/own_cgroup.h"

#include <linux/sched.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <sstream>
#include <utility>

#include "base/file.h"
#include "base/sys.h"
#include "shim/journal.h"
#include "shim/unprivileged.h"

namespace leash::shim {

namespace {

struct Mount {
  std::string point;
  bool is_unified = false;
};

std::vector<Mount> process_hierarchies() {
  std::vector<Mount> found;
  auto text = file::read("/proc/self/mounts");
  if (!text) return found;
  std::istringstream lines(*text);
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string source;
    std::string point;
    std::string type;
    std::string options;
    words >> source >> point >> type >> options;
    const bool is_unified = type == "cgroup2";
    const bool is_systemd = type == "cgroup" && ("," + options + ",").find(",name=systemd,") != std::string::npos;
    if (!is_unified && !is_systemd) continue;
    bool is_known = false;  // the same hierarchy may be mounted twice
    for (const Mount& mount : found) is_known = is_known || mount.is_unified == is_unified;
    if (!is_known) found.push_back({point, is_unified});
  }
  return found;
}

}  // namespace

OwnCgroup OwnCgroup::create(const std::string& container_id) {
  OwnCgroup result;
  for (const Mount& mount : process_hierarchies()) {
    const std::string parent = mount.point + "/leash";
    const std::string directory = parent + "/" + container_id;
    // Twice: the last shim of another container may take the empty parent away in between.
    auto made = file::make_directories(directory, 0755);
    if (!made) made = file::make_directories(directory, 0755);
    if (!made) {
      note("no cgroup of its own: " + made.error().message());
      continue;
    }
    result.hierarchies_.push_back({mount.point, directory, mount.is_unified});
  }
  return result;
}

Result<pid_t> OwnCgroup::fork_into() const {
  struct clone_args arguments = {};
  arguments.exit_signal = SIGCHLD;
  Fd directory;
  for (const Hierarchy& hierarchy : hierarchies_) {
    if (!hierarchy.is_unified) continue;
    auto opened = sys::open(hierarchy.directory, O_PATH | O_DIRECTORY);
    if (!opened) continue;
    directory = std::move(opened).value();
    arguments.flags = CLONE_INTO_CGROUP;
    arguments.cgroup = static_cast<uint64_t>(directory.get());
  }
  long pid = ::syscall(SYS_clone3, &arguments, sizeof arguments);
  // Threaded or delegated trees refuse processes (EOPNOTSUPP, EBUSY), old kernels the flag.
  if (pid < 0 && arguments.flags != 0) pid = ::fork();
  if (pid < 0) return Error::last_errno("fork");
  return static_cast<pid_t>(pid);
}

void OwnCgroup::adopt(const std::vector<pid_t>& pids) { start_helper(pids, {}); }

void OwnCgroup::move(const std::string& container_id, const std::vector<pid_t>& pids) {
  if (helper_ > 0) (void)::waitpid(helper_, nullptr, 0);  // adopt's would put them back
  const std::vector<Hierarchy> emptied = std::exchange(hierarchies_, create(container_id).hierarchies_);
  start_helper(pids, emptied);
  // Not before all have left may the old id be free: its next shim kills what it finds in that group.
  if (helper_ > 0) (void)::waitpid(helper_, nullptr, 0);
  helper_ = -1;
}

void OwnCgroup::start_helper(const std::vector<pid_t>& pids, const std::vector<Hierarchy>& emptied) {
  if (hierarchies_.empty()) return;
  const pid_t helper = ::fork();
  if (helper < 0) note("cgroup: fork: " + errno_text(errno));
  if (helper != 0) {
    helper_ = helper;
    return;
  }
  // Its copies of our sockets must not keep a peer waiting.
  (void)close_all_but({});
  for (const Hierarchy& hierarchy : hierarchies_) {
    // Again: the last shim of the same id may have taken its directory away meanwhile.
    (void)file::make_directories(hierarchy.directory, 0755);
    for (const pid_t pid : pids) {
      auto moved = file::write_control(hierarchy.directory + "/cgroup.procs", std::to_string(pid));
      if (!moved && moved.error().code() != ESRCH) note("cgroup: " + moved.error().message());
    }
    // This helper was born where the shim was.
    if (!emptied.empty()) (void)file::write_control(hierarchy.directory + "/cgroup.procs", "0");
  }
  for (const Hierarchy& hierarchy : emptied) (void)::rmdir(hierarchy.directory.c_str());
  ::_exit(0);
}

void OwnCgroup::leave_and_remove() {
  if (helper_ > 0) (void)::waitpid(helper_, nullptr, 0);  // ECHILD: reaped long ago
  helper_ = -1;
  for (const Hierarchy& hierarchy : hierarchies_) {
    (void)file::write_control(hierarchy.mount_point + "/cgroup.procs", "0");
  }
  remove();
}

OwnCgroup OwnCgroup::find(const std::string& container_id) {
  OwnCgroup result;
  for (const Mount& mount : process_hierarchies()) {
    const std::string directory = mount.point + "/leash/" + container_id;
    struct stat status = {};
    if (::stat(directory.c_str(), &status) == 0) {
      result.hierarchies_.push_back({mount.point, directory, mount.is_unified});
    }
  }
  return result;
}

Result<void> OwnCgroup::kill_all() const {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  for (const Hierarchy& hierarchy : hierarchies_) {
    for (;;) {
      TRY(const std::string text, file::read(hierarchy.directory + "/cgroup.procs"));
      std::istringstream words(text);
      pid_t pid = 0;
      bool is_empty = true;
      while (words >> pid) {
        // 0: a process of another pid namespace. We are there when the next shim of this id takes over.
        if (pid <= 0 || pid == ::getpid()) continue;
        is_empty = false;
        (void)::kill(pid, SIGKILL);
      }
      if (is_empty) break;
      if (std::chrono::steady_clock::now() > deadline) {
        return Error(EBUSY, "cgroup '" + hierarchy.directory + "': its processes do not die");
      }
      ::usleep(1000);
    }
  }
  return {};
}

void OwnCgroup::remove() {
  for (const Hierarchy& hierarchy : hierarchies_) {
    (void)::rmdir(hierarchy.directory.c_str());
    (void)::rmdir((hierarchy.mount_point + "/leash").c_str());  // EBUSY or ENOTEMPTY: another's is there
  }
  hierarchies_.clear();
}

}  // namespace leash::shim
