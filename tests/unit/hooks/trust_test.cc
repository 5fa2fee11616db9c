// The trust of a container, tried with the real tools: openssl, keytool, and mounts in a mount
// namespace of the test's own.
#include "hooks/trust.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <set>

#include "base/file.h"
#include "base/sys.h"
#include "runtime/trust_overlay.h"
#include "tests/unit/catch.h"

using namespace leash;

namespace {

struct TemporaryDirectory {
  TemporaryDirectory() {
    char name[] = "/tmp/leash-trust-XXXXXX";
    path = ::mkdtemp(name);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() { (void)file::remove_tree(path).has_value(); }
  std::string path;
};

// Runs a tool without a shell; its exit status, and what it wrote.
struct Outcome {
  int status = -1;
  std::string output;
};
Outcome run(const std::vector<std::string>& arguments) {
  auto ends = sys::pipe();
  REQUIRE(ends);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::dup2(ends->second.get(), 1);
    ::dup2(ends->second.get(), 2);
    std::vector<char*> argv;
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  ends->second.reset();
  Outcome outcome;
  auto text = sys::read_all(ends->first.get());
  REQUIRE(text);
  outcome.output = *text;
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  return outcome;
}

bool has_tool(const std::string& name) { return run({"which", name}).status == 0; }

void put(const std::string& path, std::string_view data) {
  REQUIRE(file::make_directories(path.substr(0, path.rfind('/')), 0755));
  REQUIRE(file::write_atomic(path, data, 0644));
}

std::string get(const std::string& path) {
  auto text = file::read(path);
  return text ? *text : "<" + text.error().message() + ">";
}

// A foreign root, as the image would have it.
std::string some_root() {
  auto authority = hooks::create_authority("somebody-else");
  REQUIRE(authority);
  return authority->certificate_pem;
}

struct Fixture {
  Fixture() {
    auto made = hooks::create_authority("c0ffee");
    REQUIRE(made);
    authority = *made;
    request.rootfs = temporary.path + "/rootfs";
    request.directory = temporary.path + "/trust";
    request.certificate_pem = authority.certificate_pem;
    request.env = {"PATH=/bin"};
    request.mounts = {{"/proc", "proc", "proc", {}}, {"/dev", "tmpfs", "tmpfs", {"nosuid"}}};
    REQUIRE(file::make_directories(request.rootfs + "/dev", 0755));
  }

  hooks::TrustPlan plan() const {
    auto made = hooks::prepare_trust(request);
    if (!made) FAIL(made.error().message());
    return *made;
  }

  TemporaryDirectory temporary;
  hooks::Authority authority;
  hooks::TrustRequest request;
};

const oci::ExtraMount* mount_at(const hooks::TrustPlan& plan, const std::string& destination) {
  for (const oci::ExtraMount& mount : plan.mounts) {
    if (mount.destination == destination) return &mount;
  }
  return nullptr;
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

bool has(const std::vector<std::string>& list, const std::string& entry) {
  return std::find(list.begin(), list.end(), entry) != list.end();
}

// Mounts `plan` below the rootfs, as init does, in a child with a mount namespace of its own, and runs
// `look` there. The child's answer is `look`'s: empty is success.
std::string inside(const Fixture& fixture, const hooks::TrustPlan& plan,
                   const std::function<std::string(const std::string& rootfs)>& look) {
  auto ends = sys::pipe();
  REQUIRE(ends);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const auto act = [&]() -> Result<std::string> {
      TRY_VOID(sys::unshare(CLONE_NEWNS));
      if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) < 0) return Error::last_errno("private");
      const std::string& rootfs = fixture.request.rootfs;
      if (::mount(rootfs.c_str(), rootfs.c_str(), nullptr, MS_BIND | MS_REC, nullptr) < 0) return Error::last_errno("bind");
      TRY(Fd root, sys::open(rootfs, O_PATH | O_DIRECTORY));
      if (::mount("tmpfs", (rootfs + "/dev").c_str(), "tmpfs", 0, nullptr) < 0) return Error::last_errno("tmpfs");
      for (const oci::ExtraMount& mount : plan.mounts) {
        if (mount.type == runtime::kTrustOverlayType) {
          TRY(Fd destination, sys::open_in_root(root.get(), mount.destination, O_PATH | O_DIRECTORY));
          TRY_VOID(runtime::mount_trust_overlay(mount, destination.get()));
        } else if (mount.type == "bind") {
          const std::string target = rootfs + mount.destination;
          if (mount.destination.starts_with("/dev/")) ::mkdir(target.c_str(), 0755);
          if (::mount(mount.source.c_str(), target.c_str(), nullptr, MS_BIND, nullptr) < 0) {
            return Error::last_errno("bind '" + mount.destination + "'");
          }
        }
      }
      return look(rootfs);
    };
    auto answer = act();
    const std::string text = answer ? *answer : answer.error().message();
    (void)sys::write_all(ends->second.get(), text).has_value();
    ::_exit(0);
  }
  ends->second.reset();
  auto text = sys::read_all(ends->first.get());
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!WIFEXITED(status)) return "the child was killed";
  return text ? *text : text.error().message();
}

bool may_mount() { return ::geteuid() == 0; }

std::string tree(const std::string& path) { return run({"find", path, "-printf", "%P %M %s %u %T@ %l\n"}).output; }

}  // namespace

TEST_CASE("trust: the authority is a P-256 CA that signs leaves and nothing else") {
  auto made = hooks::create_authority("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef");
  REQUIRE(made);
  TemporaryDirectory temporary;
  put(temporary.path + "/ca.pem", made->certificate_pem);
  const std::string text = run({"openssl", "x509", "-in", temporary.path + "/ca.pem", "-noout", "-text"}).output;
  CHECK(contains(text, "X509v3 Basic Constraints: critical\n                CA:TRUE, pathlen:0"));
  CHECK(contains(text, "X509v3 Key Usage: critical\n                Certificate Sign\n"));
  CHECK(contains(text, "X509v3 Subject Key Identifier"));
  CHECK(contains(text, "ASN1 OID: prime256v1"));
  CHECK(contains(text, "CN = Leash CA 0123456789abcdef"));
}

TEST_CASE("trust: no two authorities share a key or a serial number") {
  std::set<std::string> keys;
  std::set<std::string> certificates;
  for (int i = 0; i < 20; ++i) {
    auto made = hooks::create_authority("same");
    REQUIRE(made);
    keys.insert(made->key_pem);
    certificates.insert(made->certificate_pem);
  }
  CHECK(keys.size() == 20);
  CHECK(certificates.size() == 20);
}

TEST_CASE("trust: a leaf of the authority passes OpenSSL's strict verification") {
  auto made = hooks::create_authority("strict");
  REQUIRE(made);
  TemporaryDirectory temporary;
  const std::string& at = temporary.path;
  put(at + "/ca.pem", made->certificate_pem);
  put(at + "/ca.key", made->key_pem);
  put(at + "/leaf.ext",
      "basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth\n"
      "subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\nsubjectAltName=DNS:api.example.com\n");
  REQUIRE(run({"openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
               at + "/leaf.key", "-out", at + "/leaf.csr", "-subj", "/CN=api.example.com"})
              .status == 0);
  REQUIRE(run({"openssl", "x509", "-req", "-in", at + "/leaf.csr", "-CA", at + "/ca.pem", "-CAkey", at + "/ca.key",
               "-days", "30", "-extfile", at + "/leaf.ext", "-out", at + "/leaf.pem"})
              .status == 0);
  const Outcome verified = run({"openssl", "verify", "-x509_strict", "-purpose", "sslserver", "-verify_hostname",
                                "api.example.com", "-CAfile", at + "/ca.pem", at + "/leaf.pem"});
  CAPTURE(verified.output);
  CHECK(verified.status == 0);

  // Path length 0: an intermediate of ours vouches for nothing.
  put(at + "/sub.ext", "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\nsubjectKeyIdentifier=hash\n"
                       "authorityKeyIdentifier=keyid\n");
  REQUIRE(run({"openssl", "x509", "-req", "-in", at + "/leaf.csr", "-CA", at + "/ca.pem", "-CAkey", at + "/ca.key",
               "-days", "30", "-extfile", at + "/sub.ext", "-out", at + "/sub.pem"})
              .status == 0);
  REQUIRE(run({"openssl", "x509", "-req", "-in", at + "/leaf.csr", "-CA", at + "/sub.pem", "-CAkey", at + "/leaf.key",
               "-days", "30", "-extfile", at + "/leaf.ext", "-out", at + "/deep.pem"})
              .status == 0);
  CHECK(run({"openssl", "verify", "-CAfile", at + "/ca.pem", "-untrusted", at + "/sub.pem", at + "/deep.pem"}).status != 0);
}

TEST_CASE("trust: variables are added where they are unset and never replace one") {
  const auto all = hooks::missing_trust_variables({"PATH=/bin"});
  CHECK(has(all, "SSL_CERT_FILE=/dev/leash/bundle.pem"));
  CHECK(has(all, "NODE_EXTRA_CA_CERTS=/dev/leash/ca.pem"));
  CHECK(has(all, "NODE_USE_SYSTEM_CA=1"));
  const auto rest = hooks::missing_trust_variables({"SSL_CERT_FILE=/own.pem", "NODE_USE_SYSTEM_CA="});
  CHECK(rest.size() == all.size() - 2);
  for (const std::string& entry : rest) CHECK_FALSE(entry.starts_with("SSL_CERT_FILE="));
}

TEST_CASE("trust: an image without a bundle gets /dev/leash and nothing over its own paths") {
  Fixture fixture;
  const auto plan = fixture.plan();
  REQUIRE(plan.mounts.size() == 1);
  CHECK(plan.mounts[0].destination == "/dev/leash");
  CHECK(has(plan.mounts[0].options, "ro"));
  CHECK(get(plan.mounts[0].source + "/ca.pem") == fixture.authority.certificate_pem);
  CHECK(get(plan.mounts[0].source + "/bundle.pem") == fixture.authority.certificate_pem);
  // The key is in none of the files.
  CHECK(run({"grep", "-r", "PRIVATE KEY", fixture.request.directory}).status == 1);
}

TEST_CASE("trust: a Debian image's bundle, hashes and sources all carry the certificate") {
  if (!may_mount()) WARN("skipped: needs root");
  if (!may_mount()) return;
  Fixture fixture;
  const std::string& rootfs = fixture.request.rootfs;
  const std::string foreign = some_root();
  put(rootfs + "/etc/ssl/certs/ca-certificates.crt", foreign);
  put(rootfs + "/etc/ssl/certs/other.pem", "kept");
  REQUIRE(file::make_directories(rootfs + "/usr/local/share/ca-certificates", 0755));
  REQUIRE(::chmod((rootfs + "/usr/local/share/ca-certificates").c_str(), 02775) == 0);
  const std::string before = tree(rootfs + "/etc") + tree(rootfs + "/usr");
  const auto plan = fixture.plan();
  REQUIRE(mount_at(plan, "/etc/ssl/certs") != nullptr);
  REQUIRE(mount_at(plan, "/usr/local/share/ca-certificates") != nullptr);
  const std::string& ours = fixture.authority.certificate_pem;
  CHECK(get(fixture.request.directory + "/public/bundle.pem") == foreign + ours);

  const std::string seen = inside(fixture, plan, [&](const std::string& root) -> std::string {
    const std::string certs = root + "/etc/ssl/certs";
    if (get(certs + "/ca-certificates.crt") != foreign + ours) return "bundle: " + get(certs + "/ca-certificates.crt");
    if (get(certs + "/other.pem") != "kept") return "the image's own files are hidden";
    if (get(root + "/usr/local/share/ca-certificates/leash-ca.crt") != ours) return "source directory";
    if (get(root + "/dev/leash/ca.pem") != ours) return "/dev/leash";
    struct stat st = {};
    if (::stat((root + "/usr/local/share/ca-certificates").c_str(), &st) < 0 || (st.st_mode & 07777U) != 02775) {
      return "the mode of a directory has changed";
    }
    // What openssl finds in the directory of hashes.
    put(root + "/dev/leaf", ours);
    const Outcome verified = run({"openssl", "verify", "-no-CAfile", "-no-CAstore", "-CApath", certs, root + "/dev/leaf"});
    if (verified.status != 0) return verified.output;
    // Written inside as update-ca-certificates does: a new file, and a rename over the bundle.
    put(certs + "/new.pem", "new");
    put(certs + "/ca-certificates.crt", "rewritten");
    if (get(certs + "/ca-certificates.crt") != "rewritten") return "the bundle cannot be replaced";
    if (::unlink((certs + "/other.pem").c_str()) < 0) return "a file cannot be removed";
    return "";
  });
  CHECK(seen == "");
  CHECK(tree(rootfs + "/etc") + tree(rootfs + "/usr") == before);
  CHECK(tree(fixture.request.directory + "/stage").find('\n') == tree(fixture.request.directory + "/stage").size() - 1);
}

TEST_CASE("trust: what programs write into an overlay is bounded") {
  if (!may_mount()) WARN("skipped: needs root");
  if (!may_mount()) return;
  Fixture fixture;
  put(fixture.request.rootfs + "/etc/ssl/certs/ca-certificates.crt", some_root());
  const std::string seen = inside(fixture, fixture.plan(), [](const std::string& root) -> std::string {
    auto fd = sys::open(root + "/etc/ssl/certs/big", O_WRONLY | O_CREAT, 0644);
    if (!fd) return fd.error().message();
    const std::string chunk(size_t{1} << 20, 'x');
    for (int mebibytes = 0; mebibytes < 64; ++mebibytes) {
      if (auto written = sys::write_all(fd->get(), chunk); !written) {
        return written.error().code() == ENOSPC ? "" : written.error().message();
      }
    }
    return "64 MiB fit";
  });
  CHECK(seen == "");
}

TEST_CASE("trust: a read-only container gets read-only overlays") {
  if (!may_mount()) WARN("skipped: needs root");
  if (!may_mount()) return;
  Fixture fixture;
  fixture.request.read_only_rootfs = true;
  put(fixture.request.rootfs + "/etc/ssl/certs/ca-certificates.crt", some_root());
  const std::string ours = fixture.authority.certificate_pem;
  const std::string seen = inside(fixture, fixture.plan(), [&](const std::string& root) -> std::string {
    const std::string bundle = root + "/etc/ssl/certs/ca-certificates.crt";
    if (!get(bundle).ends_with(ours)) return "not merged";
    auto fd = sys::open(bundle, O_WRONLY);
    return !fd && fd.error().code() == EROFS ? "" : "writable";
  });
  CHECK(seen == "");
}

TEST_CASE("trust: links between bundles end in one overlay of the real directory") {
  Fixture fixture;
  const std::string& rootfs = fixture.request.rootfs;
  put(rootfs + "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", some_root());
  REQUIRE(file::make_directories(rootfs + "/etc/pki/tls/certs", 0755));
  REQUIRE(file::make_directories(rootfs + "/etc/pki/ca-trust/source/anchors", 0755));
  REQUIRE(::symlink("/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", (rootfs + "/etc/pki/tls/certs/ca-bundle.crt").c_str()) == 0);
  REQUIRE(::symlink("../pki/tls", (rootfs + "/etc/ssl").c_str()) == 0);
  const auto plan = fixture.plan();
  CHECK(plan.mounts.size() == 3);
  CHECK(mount_at(plan, "/etc/pki/ca-trust/extracted/pem") != nullptr);
  CHECK(mount_at(plan, "/etc/pki/ca-trust/source/anchors") != nullptr);
}

TEST_CASE("trust: a hostile image reads nothing of the host and wakes no device") {
  Fixture fixture;
  const std::string& rootfs = fixture.request.rootfs;
  put(fixture.temporary.path + "/outside/secret.pem", "-----BEGIN OUTSIDE-----");
  const std::string secret = fixture.temporary.path + "/outside/secret.pem";
  REQUIRE(file::make_directories(rootfs + "/etc/ssl/certs", 0755));
  SECTION("a link to the host") {
    REQUIRE(::symlink(secret.c_str(), (rootfs + "/etc/ssl/certs/ca-certificates.crt").c_str()) == 0);
  }
  SECTION("a link that climbs") {
    REQUIRE(::symlink("../../../../outside/secret.pem", (rootfs + "/etc/ssl/certs/ca-certificates.crt").c_str()) == 0);
  }
  SECTION("a directory that is a link to the host") {
    REQUIRE(file::remove_tree(rootfs + "/etc/ssl"));
    REQUIRE(::symlink((fixture.temporary.path + "/outside").c_str(), (rootfs + "/etc/ssl").c_str()) == 0);
    put(fixture.temporary.path + "/outside/cert.pem", "-----BEGIN OUTSIDE-----");
  }
  SECTION("a fifo") {
    REQUIRE(::mkfifo((rootfs + "/etc/ssl/certs/ca-certificates.crt").c_str(), 0644) == 0);
  }
  SECTION("a bundle larger than any bundle") {
    put(rootfs + "/etc/ssl/certs/ca-certificates.crt", "-----BEGIN ");
    REQUIRE(::truncate((rootfs + "/etc/ssl/certs/ca-certificates.crt").c_str(), off_t{1} << 40) == 0);
  }
  SECTION("a link that means itself") {
    REQUIRE(::symlink("ca-certificates.crt", (rootfs + "/etc/ssl/certs/ca-certificates.crt").c_str()) == 0);
  }
  SECTION("a magic link") {
    REQUIRE(::symlink("/proc/self/root/etc/passwd", (rootfs + "/etc/ssl/certs/ca-certificates.crt").c_str()) == 0);
  }
  const auto plan = fixture.plan();
  CHECK(plan.mounts.size() == 1);
  CHECK(run({"grep", "-r", "OUTSIDE", fixture.request.directory}).status == 1);
}

TEST_CASE("trust: a bundle that the user mounts is merged, and other mounts stay visible") {
  if (!may_mount()) WARN("skipped: needs root");
  if (!may_mount()) return;
  Fixture fixture;
  const std::string& rootfs = fixture.request.rootfs;
  const std::string corporate = some_root();
  put(rootfs + "/etc/ssl/certs/ca-certificates.crt", some_root());
  put(rootfs + "/etc/ssl/certs/extra.pem", "");
  put(fixture.temporary.path + "/corporate.pem", corporate);
  put(fixture.temporary.path + "/extra.pem", "extra");
  fixture.request.mounts.push_back(
      {"/etc/ssl/certs/ca-certificates.crt", "bind", fixture.temporary.path + "/corporate.pem", {"rbind", "ro"}});
  fixture.request.mounts.push_back({"/etc/ssl/certs/extra.pem", "bind", fixture.temporary.path + "/extra.pem", {"rbind"}});
  const std::string ours = fixture.authority.certificate_pem;
  const std::string seen = inside(fixture, fixture.plan(), [&](const std::string& root) -> std::string {
    if (get(root + "/etc/ssl/certs/ca-certificates.crt") != corporate + ours) return "not the user's bundle";
    return get(root + "/etc/ssl/certs/extra.pem") == "extra" ? "" : "the user's mount is hidden";
  });
  CHECK(seen == "");
  CHECK(get(fixture.temporary.path + "/corporate.pem") == corporate);
}

TEST_CASE("trust: a directory of certificates that the user mounts is overlaid where it lies, and not written") {
  if (!may_mount()) WARN("skipped: needs root");
  if (!may_mount()) return;
  Fixture fixture;
  const std::string source = fixture.temporary.path + "/host-certs";
  const std::string corporate = some_root();
  put(fixture.request.rootfs + "/etc/ssl/certs/ca-certificates.crt", some_root());
  put(source + "/ca-certificates.crt", corporate);
  put(source + "/corporate.pem", "kept");
  const std::string before = tree(source);
  const oci::ExtraMount user_mount = {"/etc/ssl/certs", "bind", source, {"rbind", "ro"}};
  fixture.request.mounts.push_back(user_mount);
  auto plan = fixture.plan();
  const oci::ExtraMount* overlay = mount_at(plan, "/etc/ssl/certs");
  REQUIRE(overlay != nullptr);
  CHECK(has(overlay->options, "ro"));
  plan.mounts.insert(plan.mounts.begin(), user_mount);  // as config.json's own comes before ours
  const std::string ours = fixture.authority.certificate_pem;
  const std::string seen = inside(fixture, plan, [&](const std::string& root) -> std::string {
    if (get(root + "/etc/ssl/certs/ca-certificates.crt") != corporate + ours) return "not the user's bundle";
    return get(root + "/etc/ssl/certs/corporate.pem") == "kept" ? "" : "the user's files are hidden";
  });
  CHECK(seen == "");
  CHECK(tree(source) == before);
}

TEST_CASE("trust: a bundle that a variable names gets the certificate, its directory stays as it is") {
  if (!may_mount()) WARN("skipped: needs root");
  if (!may_mount()) return;
  Fixture fixture;
  const std::string foreign = some_root();
  put(fixture.request.rootfs + "/app/data/own.pem", foreign);
  fixture.request.env.push_back("SSL_CERT_FILE=/app/data/own.pem");
  const auto plan = fixture.plan();
  const oci::ExtraMount* mount = mount_at(plan, "/app/data/own.pem");
  REQUIRE(mount != nullptr);
  CHECK(mount->type == "bind");
  CHECK(get(mount->source) == foreign + fixture.authority.certificate_pem);
  const std::string seen = inside(fixture, plan, [](const std::string& root) -> std::string {
    put(root + "/app/data/result", "kept");
    return "";
  });
  CHECK(seen == "");
  CHECK(get(fixture.request.rootfs + "/app/data/result") == "kept");
}

TEST_CASE("trust: certifi's copy in the system and in a virtual environment carries the certificate") {
  Fixture fixture;
  const std::string& rootfs = fixture.request.rootfs;
  put(rootfs + "/usr/local/lib/python3.12/site-packages/certifi/cacert.pem", some_root());
  put(rootfs + "/app/.venv/lib/python3.11/site-packages/certifi/cacert.pem", some_root());
  const auto plan = fixture.plan();
  for (const char* directory : {"/usr/local/lib/python3.12/site-packages/certifi", "/app/.venv/lib/python3.11/site-packages/certifi"}) {
    const oci::ExtraMount* mount = mount_at(plan, directory);
    REQUIRE(mount != nullptr);
    CHECK(get(mount->source + "/cacert.pem").ends_with(fixture.authority.certificate_pem));
  }
  // Without a bundle of the distribution, certifi's roots are what the variables must not take away.
  CHECK(get(fixture.request.directory + "/public/bundle.pem").size() > 2 * fixture.authority.certificate_pem.size() - 100);
}

TEST_CASE("trust: Java's store keeps its entries and gains the certificate") {
  if (!has_tool("keytool")) WARN("skipped: keytool is not installed");
  if (!has_tool("keytool")) return;
  Fixture fixture;
  const std::string format = GENERATE("JKS", "PKCS12", "PKCS12 without password");
  CAPTURE(format);
  const std::string& rootfs = fixture.request.rootfs;
  const std::string cacerts = rootfs + "/opt/java/openjdk/lib/security/cacerts";
  put(rootfs + "/foreign.pem", some_root());
  REQUIRE(file::make_directories(rootfs + "/opt/java/openjdk/lib/security", 0755));
  std::vector<std::string> import = {"keytool"};
  if (format == "PKCS12 without password") {  // as Java's own since 18
    import.insert(import.end(), {"-J-Dkeystore.pkcs12.certProtectionAlgorithm=NONE", "-J-Dkeystore.pkcs12.macAlgorithm=NONE"});
  }
  import.insert(import.end(), {"-importcert", "-noprompt", "-alias", "foreign", "-file", rootfs + "/foreign.pem", "-keystore",
                               cacerts, "-storetype", format.substr(0, format.find(' ')), "-storepass", "changeit"});
  const Outcome imported = run(import);
  CAPTURE(imported.output);
  REQUIRE(imported.status == 0);
  const auto plan = fixture.plan();
  const oci::ExtraMount* mount = mount_at(plan, "/opt/java/openjdk/lib/security");
  REQUIRE(mount != nullptr);
  const Outcome listed = run({"keytool", "-list", "-keystore", mount->source + "/cacerts", "-storepass", "changeit"});
  CAPTURE(listed.output);
  CHECK(listed.status == 0);
  CHECK(contains(listed.output, "foreign, "));
  CHECK(contains(listed.output, "leash-ca, "));
  CHECK(contains(listed.output, "2 entries"));
  CHECK(listed.output.find("trustedCertEntry") != listed.output.rfind("trustedCertEntry"));
}

TEST_CASE("trust: a Java store with another password is left alone") {
  if (!has_tool("keytool")) WARN("skipped: keytool is not installed");
  if (!has_tool("keytool")) return;
  Fixture fixture;
  const std::string format = GENERATE("JKS", "PKCS12");
  const std::string& rootfs = fixture.request.rootfs;
  put(rootfs + "/foreign.pem", some_root());
  REQUIRE(file::make_directories(rootfs + "/opt/java/openjdk/lib/security", 0755));
  REQUIRE(run({"keytool", "-importcert", "-noprompt", "-alias", "foreign", "-file", rootfs + "/foreign.pem", "-keystore",
               rootfs + "/opt/java/openjdk/lib/security/cacerts", "-storetype", format, "-storepass", "different"})
              .status == 0);
  CHECK(fixture.plan().mounts.size() == 1);
}

TEST_CASE("trust: a /dev of the host's is refused and not written to") {
  Fixture fixture;
  fixture.request.mounts = {{"/dev", "bind", "/dev", {"rbind"}}};
  auto plan = hooks::prepare_trust(fixture.request);
  REQUIRE_FALSE(plan);
  CHECK(contains(plan.error().message(), "'/dev' is a bind mount"));
}

TEST_CASE("trust: preparing a typical image takes milliseconds") {
  Fixture fixture;
  const std::string& rootfs = fixture.request.rootfs;
  std::string bundle;
  for (int i = 0; i < 140; ++i) bundle += fixture.authority.certificate_pem + std::string(700, '#') + "\n";
  put(rootfs + "/etc/ssl/certs/ca-certificates.crt", bundle);
  REQUIRE(file::make_directories(rootfs + "/usr/local/share/ca-certificates", 0755));
  put(rootfs + "/usr/local/lib/python3.12/site-packages/certifi/cacert.pem", bundle);
  // Of the processor and not of the clock on the wall: other tests run beside this one.
  double best_ms = 1e9;
  for (int round = 0; round < 5; ++round) {
    const std::clock_t begin = std::clock();
    REQUIRE(hooks::create_authority("x"));
    (void)fixture.plan();
    best_ms = std::min(best_ms, 1000.0 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  CAPTURE(best_ms);
  CHECK(best_ms < 60);  // about 2 in a release build; sanitizers take their share
}
