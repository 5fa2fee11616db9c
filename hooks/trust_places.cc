#include "hooks/trust_places.h"

#include <array>
#include <chrono>
#include <set>
#include <string_view>

namespace leash::hooks {

namespace {

constexpr std::array<const char*, 13> kBundles = {
    "/etc/ssl/certs/ca-certificates.crt",                 // Debian, Alpine, Gentoo
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  // RHEL, Fedora
    "/etc/pki/tls/certs/ca-bundle.crt",                   // RHEL, mostly a link to the above
    "/etc/pki/tls/cert.pem",
    "/var/lib/ca-certificates/ca-bundle.pem",             // SUSE
    "/etc/ssl/ca-bundle.pem",
    "/etc/ca-certificates/extracted/tls-ca-bundle.pem",   // Arch
    "/etc/ssl/cert.pem",                                  // Alpine, LibreSSL
    "/etc/ssl/certs/ca-bundle.crt",                       // Nix
    "/nix/var/nix/profiles/default/etc/ssl/certs/ca-bundle.crt",
    "/usr/local/ssl/cert.pem",                            // OpenSSL from source
    "/opt/conda/ssl/cacert.pem",
    "/opt/conda/ssl/cert.pem",
};

constexpr std::array<const char*, 4> kAnchors = {
    "/usr/local/share/ca-certificates",           // Debian, Alpine
    "/etc/pki/ca-trust/source/anchors",           // RHEL, Fedora; GnuTLS reads it by p11-kit
    "/etc/pki/trust/anchors",                     // SUSE
    "/etc/ca-certificates/trust-source/anchors",  // Arch
};

constexpr std::array<const char*, 4> kKeystores = {
    "/etc/ssl/certs/java/cacerts",                // Debian
    "/etc/pki/ca-trust/extracted/java/cacerts",   // RHEL, Fedora
    "/var/lib/ca-certificates/java-cacerts",      // SUSE
    "/etc/pki/java/cacerts",
};

// Directories whose entries are homes of Java, or prefixes of Python.
constexpr std::array<const char*, 6> kJavaParents = {
    "/usr/lib/jvm", "/usr/lib64/jvm", "/opt/java", "/usr/java", "/usr/local", "/root/.sdkman/candidates/java"};
constexpr std::array<const char*, 5> kPythonParents = {
    "/root/.pyenv/versions", "/opt/pyenv/versions", "/opt/pipx/venvs", "/root/.local/share/pipx/venvs",
    "/root/.local/share/uv/tools"};
constexpr std::array<const char*, 11> kPythonPrefixes = {
    "/usr/local", "/usr",      "/opt/venv",        "/venv",     "/.venv",    "/app/.venv",
    "/app/venv",  "/opt/conda", "/root/.venv", "/code/.venv", "/workspace/.venv"};
constexpr std::array<const char*, 2> kPythonHomes = {"VIRTUAL_ENV", "CONDA_PREFIX"};
constexpr int kOldestPython = 6;  // 3.6
constexpr int kNewestPython = 16;

constexpr size_t kMaxEntries = 24;  // tried in each directory that is listed
constexpr size_t kMaxPlaces = 32;
constexpr std::chrono::milliseconds kMaxSearch{50};

class Search {
 public:
  Search(const ContainerView& view, const std::vector<std::string>& env) : view_(view), env_(env) {}

  std::vector<FoundPlace> run() {
    for (const char* path : kBundles) add(PlaceKind::kBundle, path);
    for (const char* path : kAnchors) add(PlaceKind::kAnchors, path);
    for (const char* path : kKeystores) add(PlaceKind::kKeystore, path);
    add_python();
    add_java();
    // After the known paths, so that a variable that names one of those does not narrow it.
    for (const std::string_view name : bundle_variables()) {
      if (const std::string value = variable(name); !value.empty()) add(PlaceKind::kNamed, value);
    }
    return std::move(found_);
  }

 private:
  [[nodiscard]] bool is_over() const {
    return found_.size() >= kMaxPlaces || std::chrono::steady_clock::now() > deadline_;
  }

  [[nodiscard]] std::string variable(std::string_view name) const {
    for (const std::string& entry : env_) {
      if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=') {
        return entry.substr(name.size() + 1);
      }
    }
    return {};
  }

  [[nodiscard]] bool is_directory(const std::string& path) const {
    const auto place = view_.find(path);
    return place && S_ISDIR(place->stat.st_mode);
  }

  void add(PlaceKind kind, const std::string& path) {
    if (is_over()) return;
    auto place = view_.find(path);
    if (!place) return;
    const bool wanted = kind == PlaceKind::kAnchors ? S_ISDIR(place->stat.st_mode) : S_ISREG(place->stat.st_mode);
    // A bind mount of the user's that happens to hold a virtual environment stays as it is: an overlay
    // would swallow what programs write there.
    if (!wanted || (kind == PlaceKind::kCertifi && place->mount != nullptr)) return;
    if (seen_.insert(place->path).second) found_.push_back({kind, std::move(*place)});
  }

  void add_python_library(const std::string& library) {
    if (!is_directory(library)) return;
    add(PlaceKind::kCertifi, library + "/python3/dist-packages/certifi/cacert.pem");
    for (int minor = kOldestPython; minor <= kNewestPython && !is_over(); ++minor) {
      const std::string python = library + "/python3." + std::to_string(minor);
      if (!is_directory(python)) continue;
      add(PlaceKind::kCertifi, python + "/site-packages/certifi/cacert.pem");
      add(PlaceKind::kCertifi, python + "/dist-packages/certifi/cacert.pem");
    }
  }

  void add_python_prefix(const std::string& prefix) {
    add_python_library(prefix + "/lib");
    if (prefix == "/usr") add_python_library("/usr/lib64");
  }

  void add_python() {
    for (const char* prefix : kPythonPrefixes) add_python_prefix(prefix);
    for (const char* name : kPythonHomes) {
      if (const std::string value = variable(name); !value.empty()) add_python_prefix(value);
    }
    for (const char* parent : kPythonParents) {
      for (const std::string& name : view_.list(parent, kMaxEntries)) add_python_prefix(std::string(parent) + "/" + name);
    }
    for (const std::string& name : view_.list("/opt", kMaxEntries)) add_python_prefix("/opt/" + name);
  }

  void add_java_home(const std::string& home) {
    add(PlaceKind::kKeystore, home + "/lib/security/cacerts");
    add(PlaceKind::kKeystore, home + "/jre/lib/security/cacerts");
  }

  void add_java() {
    if (const std::string home = variable("JAVA_HOME"); !home.empty()) add_java_home(home);
    for (const char* parent : kJavaParents) {
      for (const std::string& name : view_.list(parent, kMaxEntries)) add_java_home(std::string(parent) + "/" + name);
    }
    for (const std::string& name : view_.list("/opt", kMaxEntries)) add_java_home("/opt/" + name);
  }

  const ContainerView& view_;
  const std::vector<std::string>& env_;
  std::chrono::steady_clock::time_point deadline_ = std::chrono::steady_clock::now() + kMaxSearch;
  std::set<std::string> seen_;
  std::vector<FoundPlace> found_;
};

}  // namespace

const std::vector<std::string_view>& bundle_variables() {
  static const std::vector<std::string_view> names = {
      "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "GIT_SSL_CAINFO", "AWS_CA_BUNDLE",
      "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "CARGO_HTTP_CAINFO", "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
      "CODEX_CA_CERTIFICATE", "NODE_EXTRA_CA_CERTS", "DENO_CERT", "NIX_SSL_CERT_FILE"};
  return names;
}

std::vector<FoundPlace> find_places(const ContainerView& view, const std::vector<std::string>& env) {
  return Search(view, env).run();
}

}  // namespace leash::hooks
