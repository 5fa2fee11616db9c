#include "cli/containers.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <set>

#include "base/channel.h"
#include "base/file.h"
#include "base/process.h"
#include "base/sys.h"
#include "cli/terminal.h"
#include "oci-spec/event.h"

namespace leash::cli {

namespace {

constexpr off_t kTail = off_t{32} << 10;

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

// Names of the directories in `path`; none if it does not exist.
Result<std::vector<std::string>> directories_in(const std::string& path) {
  std::vector<std::string> names;
  std::unique_ptr<DIR, CloseDir> stream(::opendir(path.c_str()));
  if (!stream) {
    if (errno == ENOENT) return names;
    const Error error = Error::last_errno("read '" + path + "'");
    if (error.code() == EACCES) return Error(EACCES, error.message() + ": leashed containers are root's to see, try with sudo");
    return error;
  }
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string name = entry->d_name;
    if (name.front() != '.' && (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::string> tail_of(const std::string& path) {
  TRY(Fd fd, sys::open(path, O_RDONLY));
  const off_t size = ::lseek(fd.get(), 0, SEEK_END);
  if (size > kTail && ::lseek(fd.get(), size - kTail, SEEK_SET) < 0) return Error::last_errno("seek");
  if (size <= kTail && ::lseek(fd.get(), 0, SEEK_SET) < 0) return Error::last_errno("seek");
  return sys::read_all(fd.get());
}

// An ended container's name stands in its log lines alone.
std::string name_from_logs(const std::string& directory) {
  for (const char* name : {"/flows.jsonl", "/blocked.jsonl"}) {
    auto tail = tail_of(directory + name);
    if (!tail) continue;
    const size_t end = tail->rfind('\n');
    if (end == std::string::npos) continue;
    const size_t begin = end == 0 ? std::string::npos : tail->rfind('\n', end - 1);
    const std::string line = tail->substr(begin == std::string::npos ? 0 : begin + 1,
                                          end - (begin == std::string::npos ? 0 : begin + 1));
    if (auto flow = oci::parse_flow_event(line)) return flow->container;
    if (auto blocked = oci::parse_blocked_event(line)) return blocked->container;
  }
  return {};
}

std::string describe(const Container& container) {
  std::string text = short_id(container.id);
  if (!container.name.empty()) text += " (" + escaped(container.name) + ")";
  if (!container.is_running) text += ", ended";
  return text;
}

}  // namespace

Directories Directories::standard() {
  Directories directories{oci::registry_directory(), "/var/lib/leash"};
  if (::geteuid() == 0) return directories;
  if (const char* state = std::getenv("XDG_STATE_HOME"); state != nullptr && *state == '/') {
    directories.logs = std::string(state) + "/leash";
  } else if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/') {
    directories.logs = std::string(home) + "/.local/state/leash";
  }
  return directories;
}

std::string short_id(const std::string& id) { return escaped(id.substr(0, 12)); }

Result<std::vector<Container>> list_containers(const Directories& directories) {
  std::vector<Container> containers;
  std::set<std::string> running;
  TRY(const std::vector<std::string> registered, directories_in(directories.registry));
  for (const std::string& id : registered) {
    auto text = file::read(directories.registry + "/" + id + "/container.json");
    if (!text) continue;  // being made, or being taken down
    auto entry = oci::parse_registry_entry(*text);
    if (!entry) return std::move(entry).error().context("'" + directories.registry + "/" + id + "/container.json'");
    Container container;
    container.id = id;
    container.name = entry->name;
    container.log_directory = entry->log_directory.empty() ? directories.logs + "/" + id : entry->log_directory;
    container.is_running = true;
    container.entry = std::move(*entry);
    running.insert(id);
    containers.push_back(std::move(container));
  }
  std::stable_sort(containers.begin(), containers.end(), [](const Container& a, const Container& b) {
    return a.entry.started_us > b.entry.started_us;
  });
  TRY(const std::vector<std::string> logged, directories_in(directories.logs));
  for (const std::string& id : logged) {
    if (running.contains(id)) continue;
    Container container;
    container.id = id;
    container.log_directory = directories.logs + "/" + id;
    container.name = name_from_logs(container.log_directory);
    if (container.name == id) container.name.clear();
    containers.push_back(std::move(container));
  }
  return containers;
}

Result<Container> find_container(const std::vector<Container>& containers, const std::string& wanted,
                                 AskEngine ask_engine) {
  std::vector<const Container*> found;
  const auto collect = [&](const auto& fits) {
    found.clear();
    for (const Container& container : containers) {
      if (fits(container)) found.push_back(&container);
    }
    return !found.empty();
  };
  // The most exact first, as engines do: a name may look like another one's id.
  if (!wanted.empty()) {
    (void)(collect([&](const Container& c) { return c.id == wanted; }) ||
           collect([&](const Container& c) { return c.name == wanted && c.is_running; }) ||
           collect([&](const Container& c) { return c.name == wanted; }) ||
           collect([&](const Container& c) { return c.id.starts_with(wanted); }));
  }
  if (found.empty() && ask_engine != nullptr) {
    if (const auto id = ask_engine(wanted)) (void)collect([&](const Container& c) { return c.id == *id; });
  }
  if (found.size() == 1) return *found.front();
  if (found.empty()) {
    return Error(ENOENT, "no leashed container '" + escaped(wanted) + "': neither running nor with logs (see `leash ps --all`)");
  }
  std::string text = "'" + escaped(wanted) + "' is ambiguous:";
  for (const Container* container : found) text += "\n  " + describe(*container);
  return Error(EINVAL, std::move(text));
}

std::optional<std::string> ask_engines(const std::string& name) {
  // A name that begins with "-" would be an option of theirs.
  if (name.empty() || name.front() == '-') return std::nullopt;
  std::vector<std::string> env = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"};
  for (const char* variable : {"HOME", "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "XDG_RUNTIME_DIR"}) {
    if (const char* value = std::getenv(variable)) env.push_back(std::string(variable) + "=" + value);
  }
  for (const char* engine : {"docker", "podman"}) {
    for (const char* directory : {"/usr/bin/", "/usr/local/bin/"}) {
      const std::string path = std::string(directory) + engine;
      if (::access(path.c_str(), X_OK) != 0) continue;
      process::Command command;
      command.path = path;
      command.args = {engine, "container", "inspect", "--format", "{{.Id}}", name};
      command.env = env;
      command.timeout = std::chrono::seconds(5);
      auto output = process::run(command);
      if (!output || output->is_timed_out || process::exit_code(output->wait_status) != 0) break;
      std::string id = output->out.substr(0, output->out.find('\n'));
      if (!id.empty()) return id;
      break;
    }
  }
  return std::nullopt;
}

Result<oci::StatusReport> ask_shim(const Directories& directories, const std::string& container_id) {
  const std::string path = directories.registry + "/" + container_id + "/shim.sock";
  TRY(const Channel channel, Channel::connect(path));
  TRY_VOID(channel.send("status"));
  TRY(const auto reply, channel.receive(std::chrono::seconds(2)));
  if (!reply) return Error(EPIPE, "leash-shim has closed the connection");
  if (reply->kind == "failed") return Error(reply->body);
  if (reply->kind != "status") return Error("leash-shim answers with '" + escaped(reply->kind) + "'");
  return oci::parse_status_report(reply->body);
}

}  // namespace leash::cli
