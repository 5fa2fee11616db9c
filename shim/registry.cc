#include "shim/registry.h"

#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cctype>
#include <cstring>
#include <thread>

#include "base/file.h"
#include "base/sys.h"

namespace leash::shim {

namespace {

std::string directory_of(const std::string& container_id) { return oci::registry_directory() + "/" + container_id; }

std::string retired_name(const std::string& path) {
  const size_t slash = path.rfind('/');
  return path.substr(0, slash + 1) + "@" + path.substr(slash + 1);
}

}  // namespace

Result<void> check_container_id(std::string_view id) {
  const auto is_allowed = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '+' || c == '-' || c == '.';
  };
  if (id.empty() || id == "." || id == ".." || !std::all_of(id.begin(), id.end(), is_allowed)) {
    return Error(EINVAL, "invalid container ID format");
  }
  const size_t socket_path = oci::registry_directory().size() + id.size() + std::strlen("//shim.sock") + 1;
  if (socket_path > sizeof(sockaddr_un::sun_path)) {
    return Error(ENAMETOOLONG, "container ID '" + std::string(id) + "' is too long for the path of a socket");
  }
  return {};
}

Result<RegistryDirectory> RegistryDirectory::lock(const std::string& container_id, bool is_made) {
  TRY_VOID(check_container_id(container_id));
  RegistryDirectory result;
  result.path_ = directory_of(container_id);
  if (is_made) TRY_VOID(file::make_directories(oci::registry_directory(), 0700));
  // The lock file may be removed by the shim that held it between our open and our lock: then what we
  // have locked is nobody's file any more, and we start again.
  for (int attempt = 0; attempt < 16; ++attempt) {
    if (is_made) {
      if (::mkdir(result.path_.c_str(), 0700) == 0) {
        result.taken_ = Taken::kFresh;
      } else if (errno == EEXIST) {
        result.taken_ = Taken::kLeftOver;
      } else {
        return Error::last_errno("mkdir '" + result.path_ + "'");
      }
    } else {
      result.taken_ = Taken::kLeftOver;
    }
    auto opened = sys::open(result.path_ + "/shim.lock", O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
    if (!opened) {
      if (is_made && opened.error().code() == ENOENT) continue;
      return std::move(opened).error();
    }
    result.lock_ = std::move(opened).value();
    if (::flock(result.lock_.get(), LOCK_EX | LOCK_NB) < 0) {
      if (errno == EWOULDBLOCK) {
        return Error(EBUSY, "a leash-shim already serves container '" + container_id + "'");
      }
      return Error::last_errno("lock '" + result.path_ + "'");
    }
    struct stat locked = {};
    struct stat named = {};
    if (::fstat(result.lock_.get(), &locked) == 0 && ::stat((result.path_ + "/shim.lock").c_str(), &named) == 0 &&
        locked.st_ino == named.st_ino && locked.st_dev == named.st_dev) {
      return result;
    }
  }
  return Error(EAGAIN, "lock '" + result.path_ + "': it changes hands all the time");
}

Result<RegistryDirectory> RegistryDirectory::claim(const std::string& container_id) { return lock(container_id, true); }

Result<RegistryDirectory> RegistryDirectory::claim_left_over(const std::string& container_id) {
  // Whoever holds it does not listen (any more, or yet): a shim whose create was killed, on its way out.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (true) {
    auto locked = lock(container_id, false);
    if (locked || locked.error().code() != EBUSY || std::chrono::steady_clock::now() > deadline) return locked;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

Result<Fd> RegistryDirectory::listen() const {
  const std::string socket_path = path_ + "/shim.sock";
  TRY(Fd socket, sys::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0));
  struct sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (socket_path.size() >= sizeof address.sun_path) return Error::from_errno(ENAMETOOLONG, "bind '" + socket_path + "'");
  std::memcpy(address.sun_path, socket_path.data(), socket_path.size());
  (void)::unlink(socket_path.c_str());
  // The directory is 0700 already; the mode is for the day somebody widens that.
  const mode_t old_mask = ::umask(0177);
  const int rc = ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  const int code = errno;
  (void)::umask(old_mask);
  if (rc < 0) return Error::from_errno(code, "bind '" + socket_path + "'");
  if (::listen(socket.get(), 64) < 0) return Error::last_errno("listen '" + socket_path + "'");
  return socket;
}

Result<void> RegistryDirectory::publish(const oci::RegistryEntry& entry) const {
  return file::write_atomic(path_ + "/container.json", oci::print(entry), 0600);
}

Result<oci::RegistryEntry> RegistryDirectory::read_entry() const {
  TRY(const std::string text, file::read(path_ + "/container.json"));
  return oci::parse_registry_entry(text);
}

Result<void> RegistryDirectory::hand_over(const RegistryDirectory& heir) const {
  // A bound socket and a mapped file do not mind; the heir's symlink to shim.sock is replaced by it.
  for (const char* name : {"/in-flight", "/shim.sock"}) {
    if (::rename((path_ + name).c_str(), (heir.path_ + name).c_str()) < 0) {
      return Error::last_errno("rename '" + path_ + name + "'");
    }
  }
  return {};
}

void RegistryDirectory::retire() {
  if (!valid()) return;
  retired_ = retired_name(path_);
  (void)file::remove_tree(retired_);  // of a shim that was killed in the middle of this
  // From here nobody finds us; who comes next makes a directory of the same name and a lock of its own.
  (void)::unlink((path_ + "/shim.sock").c_str());
  if (::rename(path_.c_str(), retired_.c_str()) < 0) retired_ = path_;
  lock_.reset();
}

void RegistryDirectory::discard() {
  if (!retired_.empty()) (void)file::remove_tree(std::exchange(retired_, {}));
}

Result<void> publish_member(const oci::RegistryEntry& entry, const std::string& owner_id) {
  TRY_VOID(check_container_id(entry.container_id));
  const std::string path = directory_of(entry.container_id);
  TRY(RegistryDirectory claimed, RegistryDirectory::claim(entry.container_id));
  (void)::unlink((path + "/shim.sock").c_str());
  const std::string target = "../" + owner_id + "/shim.sock";
  if (::symlink(target.c_str(), (path + "/shim.sock").c_str()) < 0) return Error::last_errno("symlink '" + path + "/shim.sock'");
  return claimed.publish(entry);
}

void retire_member(const std::string& container_id) {
  const std::string path = directory_of(container_id);
  const std::string retired = retired_name(path);
  (void)file::remove_tree(retired);
  if (::rename(path.c_str(), retired.c_str()) < 0) (void)file::remove_tree(path);
}

void discard_member(const std::string& container_id) { (void)file::remove_tree(retired_name(directory_of(container_id))); }

bool is_peer_trusted(int socket) {
  struct ucred peer = {};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) return false;
  return peer.uid == 0 || peer.uid == ::geteuid();
}

}  // namespace leash::shim
