#include "runtime/keyring.h"

#include <linux/keyctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace leash::runtime {

namespace {

constexpr unsigned long kUserSearch = 0x00080000;  // keyctl_setperm(3)

long keyctl(int operation, unsigned long second, unsigned long third = 0, unsigned long fourth = 0) {
  return ::syscall(SYS_keyctl, operation, second, third, fourth, 0UL);
}

}  // namespace

Result<void> join_session_keyring(const std::string& container_id) {
  const std::string name = "_ses." + container_id;
  const long ring = keyctl(KEYCTL_JOIN_SESSION_KEYRING, reinterpret_cast<unsigned long>(name.c_str()));
  if (ring < 0) {
    if (errno == ENOSYS) return {};
    return Error::last_errno("unable to join session keyring");
  }
  // "keyring;UID;GID;PERMISSIONS;NAME"
  std::array<char, 1024> text{};
  if (keyctl(KEYCTL_DESCRIBE, static_cast<unsigned long>(ring), reinterpret_cast<unsigned long>(text.data()), text.size() - 1) < 0) {
    return Error::last_errno("describe session keyring");
  }
  const char* field = text.data();
  for (int i = 0; i < 3 && field != nullptr; ++i) {
    field = std::char_traits<char>::find(field, std::char_traits<char>::length(field), ';');
    if (field != nullptr) ++field;
  }
  if (field == nullptr) return Error("describe session keyring: unexpected text");
  const unsigned long permissions = std::strtoul(field, nullptr, 16) | kUserSearch;
  if (keyctl(KEYCTL_SETPERM, static_cast<unsigned long>(ring), permissions) < 0) {
    return Error::last_errno("set permissions of the session keyring");
  }
  return {};
}

}  // namespace leash::runtime
