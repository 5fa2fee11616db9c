#include "shim/process_finder.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <memory>

#include "base/file.h"
#include "base/sys.h"
#include "oci-spec/ip_class.h"
#include "shim/journal.h"

namespace leash::shim {

namespace {

constexpr std::chrono::milliseconds kLongestSearch{2};
constexpr std::chrono::milliseconds kMostSaved{100};
constexpr int kShare = 20;
constexpr size_t kMaxCgroups = 64;  // of a container that runs systemd or containers of its own
constexpr size_t kMaxPidsText = size_t{64} << 10;
constexpr size_t kMaxProcText = size_t{64} << 10;

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};
using Directory = std::unique_ptr<DIR, CloseDirectory>;

Directory open_directory(int at, const char* path) {
  const int fd = ::openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return nullptr;
  DIR* const directory = ::fdopendir(fd);
  if (directory == nullptr) ::close(fd);
  return Directory(directory);
}

// What is there, up to `limit` bytes; files of /proc and cgroups have no size.
std::string read_some(int at, const char* path, size_t limit) {
  const Fd file(::openat(at, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  std::string text;
  std::array<char, 4096> part;
  while (file && text.size() < limit) {
    const ssize_t size = ::read(file.get(), part.data(), std::min(part.size(), limit - text.size()));
    if (size <= 0) break;
    text.append(part.data(), static_cast<size_t>(size));
  }
  return text;
}

std::string_view next_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

std::string_view next_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  const size_t end = std::min(line.find_first_of(" \t"), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(end);
  return word;
}

bool has_item(std::string_view list, std::string_view item) {
  while (!list.empty()) {
    const size_t end = std::min(list.find(','), list.size());
    if (list.substr(0, end) == item) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

// Where the cgroup `path` of one hierarchy is mounted. `controller`: the first of a v1 hierarchy; empty: v2.
std::string directory_in(std::string_view mountinfo, std::string_view controller, std::string_view path) {
  while (!mountinfo.empty()) {
    std::string_view line = next_line(mountinfo);
    for (int i = 0; i < 3; ++i) (void)next_word(line);
    std::string_view root = next_word(line);
    const std::string_view point = next_word(line);
    const size_t separator = line.find(" - ");
    if (separator == std::string_view::npos || point.find('\\') != std::string_view::npos) continue;
    line.remove_prefix(separator + 3);
    const std::string_view type = next_word(line);
    (void)next_word(line);
    const std::string_view options = next_word(line);
    if (controller.empty() ? type != "cgroup2" : type != "cgroup" || !has_item(options, controller)) continue;
    if (root == "/") root = {};
    if (!path.starts_with(root)) continue;
    const std::string_view rest = path.substr(root.size());
    if (rest.empty() || rest.front() != '/') continue;
    return std::string(point) + std::string(rest);
  }
  return {};
}

template <class Number>
bool parse_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

void add_pids(std::string_view text, std::vector<pid_t>& pids) {
  while (!text.empty()) {
    pid_t pid = 0;
    if (parse_number(next_line(text), pid) && pid > 0) pids.push_back(pid);
  }
}

// The processes of the cgroup and of those below it.
std::vector<pid_t> pids_below(const std::string& directory, TimeBudget::Clock::time_point deadline) {
  std::vector<pid_t> pids;
  std::vector<Directory> open;
  if (Directory top = open_directory(AT_FDCWD, directory.c_str())) open.push_back(std::move(top));
  for (size_t i = 0; i < open.size() && TimeBudget::Clock::now() < deadline; ++i) {
    const int fd = ::dirfd(open[i].get());
    add_pids(read_some(fd, "cgroup.procs", kMaxPidsText), pids);
    while (const dirent* entry = ::readdir(open[i].get())) {
      if (entry->d_type != DT_DIR || entry->d_name[0] == '.' || open.size() >= kMaxCgroups) continue;
      if (Directory child = open_directory(fd, entry->d_name)) open.push_back(std::move(child));
    }
  }
  return pids;
}

// Where there is no cgroup to go by: all processes that are in the network namespace.
std::vector<pid_t> pids_in_namespace(int n2_fd, TimeBudget::Clock::time_point deadline) {
  std::vector<pid_t> all;
  const Directory proc = open_directory(AT_FDCWD, "/proc");
  const auto wanted = sys::fstat(n2_fd);
  if (!proc || !wanted) return {};
  while (const dirent* entry = ::readdir(proc.get())) {
    pid_t pid = 0;
    if (parse_number(std::string_view(entry->d_name), pid)) all.push_back(pid);
  }
  std::sort(all.begin(), all.end(), std::greater<>());
  std::vector<pid_t> pids;
  for (const pid_t pid : all) {
    if (TimeBudget::Clock::now() >= deadline) break;
    struct stat status = {};
    const std::string path = std::to_string(pid) + "/ns/net";
    if (::fstatat(::dirfd(proc.get()), path.c_str(), &status, 0) < 0) continue;
    if (status.st_dev == wanted->st_dev && status.st_ino == wanted->st_ino) pids.push_back(pid);
  }
  return pids;
}

// Whether the process whose /proc/PID this is holds the socket. False also when time is up.
bool holds(const Fd& process, std::string_view link, TimeBudget::Clock::time_point deadline) {
  const Directory files = open_directory(process.get(), "fd");
  if (!files) return false;
  std::array<char, 64> target;
  for (int i = 1; const dirent* entry = ::readdir(files.get()); ++i) {
    if (i % 16 == 0 && TimeBudget::Clock::now() >= deadline) return false;
    const ssize_t size = ::readlinkat(::dirfd(files.get()), entry->d_name, target.data(), target.size());
    if (size > 0 && std::string_view(target.data(), static_cast<size_t>(size)) == link) return true;
  }
  return false;
}

}  // namespace

bool TimeBudget::has_some(Clock::time_point now) {
  left_ = std::min(most_, left_ + (now - at_) / share_);
  at_ = now;
  return left_ > Clock::duration::zero();
}

std::string cgroup_directory(std::string_view cgroups, std::string_view mountinfo) {
  std::string best;
  size_t longest = 1;  // "/" is everybody's
  while (!cgroups.empty()) {
    std::string_view line = next_line(cgroups);
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string_view path = line.substr(second + 1);
    if (path.size() <= longest || path.starts_with("/..")) continue;
    std::string directory = directory_in(mountinfo, controllers.substr(0, controllers.find(',')), path);
    if (directory.empty()) continue;
    longest = path.size();
    best = std::move(directory);
  }
  return best;
}

std::vector<uint32_t> namespace_pids(std::string_view status) {
  std::vector<uint32_t> pids;
  while (!status.empty()) {
    std::string_view line = next_line(status);
    if (!line.starts_with("NSpid:")) continue;
    line.remove_prefix(6);
    uint32_t pid = 0;
    for (std::string_view word = next_word(line); parse_number(word, pid); word = next_word(line)) pids.push_back(pid);
    break;
  }
  return pids;
}

ProcessFinder::ProcessFinder(int n2_fd) : n2_fd_(n2_fd), budget_(kMostSaved, kShare, Clock::now()) {}

void ProcessFinder::add(pid_t init) {
  const std::string proc = "/proc/" + std::to_string(init);
  Tree tree;
  tree.init = init;
  tree.depth = namespace_pids(read_some(AT_FDCWD, (proc + "/status").c_str(), kMaxProcText)).size();
  tree.cgroups = read_some(AT_FDCWD, (proc + "/cgroup").c_str(), kMaxProcText);
  trees_.push_back(std::move(tree));
}

void ProcessFinder::remove(pid_t init) {
  std::erase_if(trees_, [init](const Tree& tree) { return tree.init == init; });
}

oci::WhoReply ProcessFinder::find(const oci::WhoRequest& request) {
  oci::WhoReply reply;
  reply.tag = request.tag;
  const Clock::time_point start = Clock::now();
  if (is_hopeless_ || !budget_.has_some(start)) return reply;
  search(request, start + kLongestSearch, reply);
  budget_.spend(Clock::now() - start);
  return reply;
}

std::vector<ProcessFinder::Candidate> ProcessFinder::candidates(Clock::time_point deadline) {
  std::vector<Candidate> found;
  for (Tree& tree : trees_) {
    if (!tree.directory) {
      const auto mountinfo = file::read("/proc/self/mountinfo");
      tree.directory = mountinfo ? cgroup_directory(tree.cgroups, *mountinfo) : std::string();
    }
    const std::vector<pid_t> pids =
        tree.directory->empty() ? pids_in_namespace(n2_fd_, deadline) : pids_below(*tree.directory, deadline);
    for (const pid_t pid : pids) found.push_back({pid, tree.depth});
  }
  std::sort(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) { return a.pid > b.pid; });
  return found;
}

void ProcessFinder::search(const oci::WhoRequest& request, Clock::time_point deadline, oci::WhoReply& reply) {
  const auto source = oci::parse_ip(request.source);
  const auto destination = oci::parse_ip(request.destination);
  if (!source || !destination) return;
  if (!lookup_) {
    auto opened = hooks::SocketLookup::open(n2_fd_);
    if (!opened) {
      is_hopeless_ = true;
      note("log lines will not name processes: " + opened.error().message());
      return;
    }
    lookup_ = std::move(opened).value();
  }
  const auto inode = lookup_->find_tcp(*source, request.source_port, *destination, request.destination_port);
  if (!inode) return;
  const std::string link = "socket:[" + std::to_string(*inode) + "]";

  if (!last_ || !holds(last_->directory, link, deadline)) {
    auto found = find_holder(link, deadline);
    if (!found) return;
    last_ = std::move(found);
  }
  const int process = last_->directory.get();
  std::string comm = read_some(process, "comm", oci::kMaxProcessText);
  if (comm.empty()) return;  // it has just ended
  if (comm.ends_with('\n')) comm.pop_back();
  reply.pid = last_->inner_pid;
  reply.comm = std::move(comm);
  std::array<char, 4096> path;
  const ssize_t size = ::readlinkat(process, "exe", path.data(), path.size());
  if (size > 0) reply.exe.assign(path.data(), std::min(static_cast<size_t>(size), oci::kMaxProcessText));
}

std::optional<ProcessFinder::Process> ProcessFinder::find_holder(std::string_view link, Clock::time_point deadline) {
  for (const Candidate& candidate : candidates(deadline)) {
    if (Clock::now() >= deadline) break;
    Fd directory(::open(("/proc/" + std::to_string(candidate.pid)).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!directory || !holds(directory, link, deadline)) continue;
    const std::vector<uint32_t> pids = namespace_pids(read_some(directory.get(), "status", kMaxProcText));
    if (pids.empty()) break;  // it has just ended
    const size_t depth = std::min(std::max<size_t>(candidate.depth, 1), pids.size());
    return Process{std::move(directory), pids[depth - 1]};
  }
  return std::nullopt;
}

}  // namespace leash::shim
