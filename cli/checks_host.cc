// What Leash needs of its installation and of the engines.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <optional>

#include "base/file.h"
#include "base/process.h"
#include "base/sys.h"
#include "cli/checks.h"
#include "cli/terminal.h"
#include "oci-spec/policy.h"

namespace leash::cli {

namespace {

constexpr std::string_view kRuntime = "leash-runtime";
constexpr int kExecFailed = 127;

std::string own_directory() {
  auto path = sys::readlinkat(AT_FDCWD, "/proc/self/exe");
  return path ? path->substr(0, path->rfind('/')) : "";
}

// Standard output of an engine's command; nullopt if it is not installed or does not answer.
struct Answer {
  int code = 0;
  std::string out;
  std::string err;
};
std::optional<Answer> ask(const char* program, const std::vector<std::string>& arguments) {
  for (const char* directory : {"/usr/bin/", "/usr/local/bin/"}) {
    const std::string path = std::string(directory) + program;
    if (::access(path.c_str(), X_OK) != 0) continue;
    process::Command command;
    command.path = path;
    command.args = {program};
    command.args.insert(command.args.end(), arguments.begin(), arguments.end());
    command.env = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"};
    for (const char* name : {"HOME", "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "XDG_RUNTIME_DIR"}) {
      if (const char* value = std::getenv(name)) command.env.push_back(std::string(name) + "=" + value);
    }
    command.timeout = std::chrono::seconds(10);
    auto output = process::run(command);
    if (!output) return Answer{kExecFailed, {}, output.error().message()};
    if (output->is_timed_out) return Answer{kExecFailed, {}, "no answer within ten seconds"};
    return Answer{process::exit_code(output->wait_status), output->out, output->err};
  }
  return std::nullopt;
}

std::string first_line(const std::string& text) { return escaped(text.substr(0, text.find('\n')), 200); }

bool mentions_runtime(const std::string& path) {
  auto text = file::read(path);
  return text && text->find(kRuntime) != std::string::npos;
}

bool is_writable_by_others(const struct stat& st) { return st.st_uid != 0 || (st.st_mode & 0022U) != 0; }

}  // namespace

Check check_programs() {
  const std::string directory = own_directory();
  std::string missing;
  std::string loose;
  for (const char* name : {"leash-runtime", "leash-shim", "leash-proxy"}) {
    const std::string path = directory + "/" + name;
    struct stat st = {};
    if (::stat(path.c_str(), &st) < 0 || !S_ISREG(st.st_mode) || (st.st_mode & 0111U) == 0) {
      missing += std::string(missing.empty() ? "" : ", ") + name;
    } else if (is_writable_by_others(st)) {
      loose += std::string(loose.empty() ? "" : ", ") + name;
    }
  }
  if (!missing.empty()) {
    return {"programs", CheckState::kFail, "not beside this one in " + escaped(directory) + ": " + missing + " (install them together)"};
  }
  if (!loose.empty()) {
    return {"programs", CheckState::kWarn, "others than root may change " + loose + " in " + escaped(directory)};
  }
  return {"programs", CheckState::kOk, "leash-runtime, leash-shim and leash-proxy in " + escaped(directory)};
}

Check check_trust_store() {
  static constexpr std::array kStores = {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                                         "/var/lib/ca-certificates/ca-bundle.pem", "/etc/ssl/cert.pem"};
  for (const char* path : kStores) {
    auto text = file::read(path);
    if (!text) continue;
    size_t count = 0;
    for (size_t at = text->find("-----BEGIN CERTIFICATE"); at != std::string::npos;
         at = text->find("-----BEGIN CERTIFICATE", at + 1)) {
      ++count;
    }
    if (count > 0) return {"trust store", CheckState::kOk, std::to_string(count) + " roots in " + path};
  }
  return {"trust store", CheckState::kFail,
          "no roots on this host: no origin can be verified (install ca-certificates, or use --trust-store)"};
}

Check check_policy() {
  const std::string path = "/etc/leash/policy.yaml";
  auto text = file::read(path);
  if (!text) {
    if (text.error().code() == ENOENT) {
      return {"policy", CheckState::kNote, path + " is absent: containers without a policy of their own get the built-in one"};
    }
    return {"policy", CheckState::kFail, escaped(text.error().message())};
  }
  const auto policy = oci::parse_policy(path, *text);
  if (!policy) return {"policy", CheckState::kFail, escaped(policy.error().message()) + ": containers do not start"};
  if (policy->mode == oci::PolicyMode::kObserve) {
    return {"policy", CheckState::kWarn, path + " is valid, but in observe mode: nothing is blocked"};
  }
  return {"policy", CheckState::kOk, path + " is valid"};
}

Check check_directories(const Directories& directories) {
  for (const std::string& path : {directories.registry, directories.logs}) {
    struct stat st = {};
    if (::stat(path.c_str(), &st) < 0) continue;  // made with the first container
    if (!S_ISDIR(st.st_mode) || st.st_uid != ::geteuid() || (st.st_mode & 0077U) != 0) {
      return {"state", CheckState::kFail, escaped(path) + " must be a directory of mode 0700 that belongs to the user of Leash"};
    }
  }
  auto containers = list_containers(directories);
  if (!containers) return {"state", CheckState::kFail, escaped(containers.error().message())};
  size_t running = 0;
  std::string silent;
  for (const Container& container : *containers) {
    if (!container.is_running) continue;
    ++running;
    if (!ask_shim(directories, container.id)) silent += (silent.empty() ? "" : ", ") + short_id(container.id);
  }
  if (!silent.empty()) {
    return {"state", CheckState::kWarn,
            "leash-shim does not answer for " + silent + ": remove the container, or run `leash-shim --cleanup ID`"};
  }
  return {"state", CheckState::kOk, std::to_string(running) + " leashed containers running"};
}

std::vector<Check> check_docker() {
  const auto version = ask("docker", {"version", "--format", "{{.Server.Version}}"});
  if (!version) return {{"docker", CheckState::kNote, "not installed"}};
  if (version->code != 0) {
    const bool is_registered = mentions_runtime("/etc/docker/daemon.json");
    return {{"docker", CheckState::kWarn,
             "does not answer (" + first_line(version->err) + "); /etc/docker/daemon.json " +
                 (is_registered ? "names leash-runtime" : "does not name leash-runtime")}};
  }
  std::vector<Check> checks;
  checks.push_back({"docker", CheckState::kOk, "version " + first_line(version->out)});
  const auto runtimes =
      ask("docker", {"info", "--format", "{{range $name, $runtime := .Runtimes}}{{$name}} {{$runtime.Path}}\n{{end}}"});
  std::string found;
  if (runtimes && runtimes->code == 0) {
    for (size_t begin = 0; begin < runtimes->out.size();) {
      const size_t end = std::min(runtimes->out.find('\n', begin), runtimes->out.size());
      const std::string line = runtimes->out.substr(begin, end - begin);
      begin = end + 1;
      const size_t space = line.find(' ');
      if (space == std::string::npos || line.find(kRuntime, space) == std::string::npos) continue;
      const std::string path = line.substr(space + 1);
      if (::access(path.c_str(), X_OK) != 0) {
        checks.push_back({"runtime", CheckState::kFail, "Docker knows '" + escaped(line.substr(0, space)) + "' as " +
                                                            escaped(path) + ", which cannot be executed"});
        return checks;
      }
      found += (found.empty() ? "" : ", ") + escaped(line.substr(0, space)) + " (" + escaped(path) + ")";
    }
  }
  if (!found.empty()) {
    checks.push_back({"runtime", CheckState::kOk, "registered with Docker: " + found});
  } else {
    checks.push_back({"runtime", CheckState::kFail,
                      R"(not registered with Docker: add {"runtimes": {"leash": {"path": ")" + escaped(own_directory()) +
                          R"(/leash-runtime"}}} to /etc/docker/daemon.json and restart it)"});
  }
  return checks;
}

Check check_podman() {
  const auto version = ask("podman", {"--version"});
  if (!version) return {"podman", CheckState::kNote, "not installed"};
  for (const char* path : {"/etc/containers/containers.conf", "/usr/share/containers/containers.conf"}) {
    if (mentions_runtime(path)) {
      return {"podman", CheckState::kOk, first_line(version->out) + ", leash-runtime is in " + path};
    }
  }
  return {"podman", CheckState::kNote,
          first_line(version->out) + "; use `podman --runtime " + escaped(own_directory()) + "/leash-runtime run`"};
}

Check note_on_builds() {
  return {"builds", CheckState::kNote,
          "`docker build` with BuildKit never calls a configured runtime: what RUN does in a Dockerfile is not leashed"};
}

}  // namespace leash::cli
