#include "hooks/trust.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>

#include "base/file.h"
#include "base/sys.h"
#include "hooks/trust_keystore.h"
#include "hooks/trust_openssl.h"
#include "hooks/trust_places.h"
#include "hooks/trust_view.h"

namespace leash::hooks {

namespace {

constexpr size_t kMaxBundle = size_t{8} << 20;  // Mozilla's roots are 220 KB
constexpr uint64_t kOverlayBytes = uint64_t{16} << 20;
constexpr std::string_view kPublicDirectory = "/dev/leash";

struct TrustVariable {
  const char* name;
  const char* value;
};
constexpr const char* kBundlePath = "/dev/leash/bundle.pem";
constexpr const char* kAuthorityPath = "/dev/leash/ca.pem";
// What SSL_CERT_FILE and its kin name replaces the program's own roots, so it must be the merged
// bundle; what Node and Deno are given is added to theirs.
constexpr std::array kVariables = {
    TrustVariable{"SSL_CERT_FILE", kBundlePath},
    TrustVariable{"REQUESTS_CA_BUNDLE", kBundlePath},
    TrustVariable{"CURL_CA_BUNDLE", kBundlePath},
    TrustVariable{"PIP_CERT", kBundlePath},
    TrustVariable{"GIT_SSL_CAINFO", kBundlePath},
    TrustVariable{"AWS_CA_BUNDLE", kBundlePath},
    TrustVariable{"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", kBundlePath},
    TrustVariable{"CARGO_HTTP_CAINFO", kBundlePath},
    TrustVariable{"CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", kBundlePath},
    TrustVariable{"CODEX_CA_CERTIFICATE", kBundlePath},
    TrustVariable{"NODE_EXTRA_CA_CERTS", kAuthorityPath},
    TrustVariable{"DENO_CERT", kAuthorityPath},
    TrustVariable{"NODE_USE_SYSTEM_CA", "1"},
};

bool has_option(const oci::ExtraMount& mount, std::string_view option) {
  return std::find(mount.options.begin(), mount.options.end(), option) != mount.options.end();
}

std::string merged(std::string bundle, const std::string& certificate_pem) {
  if (!bundle.empty() && bundle.back() != '\n') bundle += '\n';
  return bundle + certificate_pem;
}

// A file of ours, readable by everybody whatever the umask is. In a user namespace the files of a
// container belong to its own root, and so must these.
Result<void> write_file(const std::string& path, std::string_view data, const struct stat& owner) {
  TRY(Fd fd, sys::open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644));
  TRY_VOID(sys::write_all(fd.get(), data).context("write '" + path + "'"));
  if (::fchmod(fd.get(), 0644) < 0) return Error::last_errno("chmod '" + path + "'");
  if (::fchown(fd.get(), owner.st_uid, owner.st_gid) < 0) return Error::last_errno("chown '" + path + "'");
  return {};
}

// A directory of a layer shows its own attributes in the merged view, so it gets the original's.
Result<void> make_directory(const std::string& path, const struct stat& original) {
  if (::mkdir(path.c_str(), 0700) < 0) {
    return errno == EEXIST ? Result<void>() : Error::last_errno("mkdir '" + path + "'");
  }
  if (::chown(path.c_str(), original.st_uid, original.st_gid) < 0) return Error::last_errno("chown '" + path + "'");
  if (::chmod(path.c_str(), original.st_mode & 07777U) < 0) return Error::last_errno("chmod '" + path + "'");
  return {};
}

struct stat root_owned_directory() {
  struct stat st = {};
  st.st_mode = S_IFDIR | 0755U;
  return st;
}

struct LayerFile {
  std::string content;
  bool is_link = false;  // content is the target of a symbolic link
};

struct Overlay {
  ContainerView::Place place;
  std::map<std::string, LayerFile> files;  // by path below the directory
};

class Planner {
 public:
  Planner(const TrustRequest& request, const ContainerView& view) : request_(request), view_(view) {}

  Result<TrustPlan> run() {
    TRY(const X509Ptr certificate, parse_certificate(request_.certificate_pem));
    std::array<char, 16> hash{};
    std::snprintf(hash.data(), hash.size(), "%08lx", X509_subject_name_hash(certificate.get()));
    hash_ = hash.data();

    for (FoundPlace& found : find_places(view_, request_.env)) take(std::move(found));
    add_hash_links();
    fold_nested();
    TRY_VOID(lay_out());
    return std::move(plan_);
  }

 private:
  // What cannot be merged (no PEM, another password, too large) stays as it is: the programs that read
  // it refuse our leaves, which is safe; the variables reach most of them all the same.
  void take(FoundPlace found) {
    ContainerView::Place& place = found.place;
    if (found.kind == PlaceKind::kAnchors) {
      const bool is_debian = place.path.ends_with("/ca-certificates");
      if (Overlay* overlay = overlay_of(place.path)) {
        overlay->files[is_debian ? "leash-ca.crt" : "leash-ca.pem"] = {request_.certificate_pem};
      }
      return;
    }
    auto content = ContainerView::read(place, kMaxBundle);
    if (!content) return;
    if (found.kind == PlaceKind::kKeystore) {
      auto keystore = add_to_keystore(*content, request_.certificate_pem);
      if (!keystore) return;
      put(std::move(place), std::move(*keystore), found.kind);
      return;
    }
    if (content->find("-----BEGIN ") == std::string::npos) return;
    if (bundle_.empty() && found.kind != PlaceKind::kNamed) bundle_ = *content;
    put(std::move(place), merged(std::move(*content), request_.certificate_pem), found.kind);
  }

  void put(ContainerView::Place place, std::string content, PlaceKind kind) {
    const std::string directory = parent_of(place.path);
    const std::string name = place.path.substr(place.path.rfind('/') + 1);
    // A variable may name a file beside the program's data, and a link in the image may lead anywhere:
    // an overlay there would swallow what is written. There the file alone is covered.
    const bool is_deep = directory.find('/', 1) != std::string::npos;
    Overlay* overlay = kind != PlaceKind::kNamed && is_deep ? overlay_of(directory) : nullptr;
    if (overlay == nullptr) {
      bound_files_[place.path] = std::move(content);
      return;
    }
    overlay->files[name] = {std::move(content)};
    // pip renames a package's directory as a whole, which fails on a mount point, unless it holds a
    // file that pip did not put there: then it goes file by file.
    if (kind == PlaceKind::kCertifi) overlay->files["leash-ca.pem"] = {request_.certificate_pem};
  }

  Overlay* overlay_of(const std::string& directory) {
    if (const auto known = overlays_.find(directory); known != overlays_.end()) return &known->second;
    auto place = view_.find(directory);
    if (!place || !S_ISDIR(place->stat.st_mode)) return nullptr;
    return &overlays_.emplace(directory, Overlay{std::move(*place), {}}).first->second;
  }

  // OpenSSL's directory of hashes, in the form that update-ca-certificates gives it.
  void add_hash_links() {
    for (const char* directory : {"/etc/ssl/certs", "/etc/pki/tls/certs"}) {
      const auto place = view_.find(directory);
      if (!place) continue;
      const auto overlay = overlays_.find(place->path);
      if (overlay == overlays_.end()) continue;
      overlay->second.files["leash-ca.pem"] = {request_.certificate_pem};
      overlay->second.files[hash_ + ".0"] = {"leash-ca.pem", true};
    }
  }

  // One overlay per tree: /etc/ssl/certs/java goes into that of /etc/ssl/certs.
  void fold_nested() {
    for (auto outer = overlays_.begin(); outer != overlays_.end(); ++outer) {
      for (auto inner = std::next(outer); inner != overlays_.end();) {
        if (!is_below(inner->first, outer->first) || inner->second.place.mount != outer->second.place.mount) {
          ++inner;
          continue;
        }
        const std::string prefix = inner->first.substr(outer->first == "/" ? 1 : outer->first.size() + 1) + "/";
        for (auto& [name, file] : inner->second.files) outer->second.files[prefix + name] = std::move(file);
        inner = overlays_.erase(inner);
      }
    }
  }

  Result<void> lay_out() {
    const std::string& directory = request_.directory;
    TRY_VOID(file::remove_tree(directory));
    TRY_VOID(file::make_directories(directory, 0700));
    const struct stat root = root_owned_directory();
    for (const char* name : {"/public", "/layers", "/files", "/stage"}) {
      TRY_VOID(make_directory(directory + name, root));
    }
    TRY_VOID(lay_out_public());
    // Sorted by path: what lies above comes before what lies below.
    for (const auto& [path, overlay] : overlays_) TRY_VOID(lay_out_overlay(path, overlay));
    size_t number = 0;
    for (const auto& [path, content] : bound_files_) {
      const std::string source = directory + "/files/" + std::to_string(number++);
      TRY_VOID(write_file(source, content, root));
      plan_.mounts.push_back({path, "bind", source, {"bind", "ro", "nosuid", "nodev", "noexec"}});
    }
    return {};
  }

  Result<void> lay_out_public() {
    const oci::ExtraMount* dev = view_.mount_at("/dev");
    if (dev != nullptr && (dev->type == "bind" || has_option(*dev, "bind") || has_option(*dev, "rbind"))) {
      return Error("'/dev' is a bind mount of '" + dev->source +
                   "': the certificate of the proxy would be written there; give the container a /dev of its own");
    }
    const std::string source = request_.directory + "/public";
    const struct stat root = root_owned_directory();
    TRY_VOID(write_file(source + "/ca.pem", request_.certificate_pem, root));
    TRY_VOID(write_file(source + "/bundle.pem", merged(bundle_, request_.certificate_pem), root));
    plan_.mounts.push_back(
        {std::string(kPublicDirectory), "bind", source, {"bind", "ro", "nosuid", "nodev", "noexec"}});
    return {};
  }

  Result<void> lay_out_overlay(const std::string& path, const Overlay& overlay) {
    const std::string layer = request_.directory + "/layers/" + std::to_string(layer_count_++);
    TRY_VOID(make_directory(layer, overlay.place.stat));
    for (const auto& [name, file] : overlay.files) {
      for (size_t slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1)) {
        const auto original = view_.find(path + "/" + name.substr(0, slash));
        TRY_VOID(make_directory(layer + "/" + name.substr(0, slash),
                                original ? original->stat : root_owned_directory()));
      }
      const std::string target = layer + "/" + name;
      if (file.is_link) {
        if (::symlink(file.content.c_str(), target.c_str()) < 0) return Error::last_errno("symlink '" + target + "'");
        continue;
      }
      TRY_VOID(write_file(target, file.content, overlay.place.stat));
    }
    const bool read_only = overlay.place.mount != nullptr ? has_option(*overlay.place.mount, "ro")
                                                          : request_.read_only_rootfs;
    std::vector<std::string> options = {"nosuid", "nodev"};
    if (read_only) {
      options.emplace_back("ro");
    } else {
      options.push_back("stage=" + request_.directory + "/stage");
      options.push_back("size=" + std::to_string(kOverlayBytes));
    }
    plan_.mounts.push_back({path, "leash-overlay", layer, std::move(options)});
    // What the user mounted below would be hidden by the overlay: it comes again on top, but for the
    // files that are merged into the layer.
    for (const oci::ExtraMount* mount : view_.mounts_below(path)) {
      const auto place = view_.find(mount->destination);
      const std::string below = place ? place->path : clean_path(mount->destination);
      if (!is_below(below, path) || overlay.files.contains(below.substr(path.size() + 1))) continue;
      plan_.mounts.push_back(*mount);
    }
    return {};
  }

  const TrustRequest& request_;
  const ContainerView& view_;
  std::string hash_;
  std::string bundle_;
  std::map<std::string, Overlay> overlays_;         // by real path
  std::map<std::string, std::string> bound_files_;  // by real path
  size_t layer_count_ = 0;
  TrustPlan plan_;
};

}  // namespace

std::vector<std::string> missing_trust_variables(const std::vector<std::string>& env) {
  std::vector<std::string> missing;
  for (const TrustVariable& variable : kVariables) {
    const std::string prefix = std::string(variable.name) + "=";
    const bool is_set = std::any_of(env.begin(), env.end(),
                                    [&](const std::string& entry) { return entry.starts_with(prefix); });
    if (!is_set) missing.push_back(prefix + variable.value);
  }
  return missing;
}

Result<TrustPlan> prepare_trust(const TrustRequest& request) {
  const auto prepared = [&]() -> Result<TrustPlan> {
    TRY(const ContainerView view, ContainerView::create(request.rootfs, request.mounts));
    TRY(TrustPlan plan, Planner(request, view).run());
    plan.variables = missing_trust_variables(request.env);
    return plan;
  };
  return prepared().context("prepare the container's trust");
}

}  // namespace leash::hooks
