// One container's directory in the registry (/run/leash/<id>): who serves it, and where to ask.
//
//   container.json  oci::RegistryEntry, for the runtime's classification of network namespaces and for people
//   shim.sock       0600; of a container that joined another's network a symlink to that one's
//   shim.lock       locked (flock) as long as a shim serves the directory: what nobody locks is left over
//   in-flight       the table of exchanges under way (oci-spec/proxy_protocol.h)
//   trust/          hooks/trust.h
//
// A directory on its way out is called "@<id>", which is no container's id.
#pragma once

#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"
#include "oci-spec/shim_protocol.h"

namespace leash::shim {

// Letters, digits and "_+-." as runc has it, not "." or "..", and short enough for the path of a socket.
[[nodiscard]] Result<void> check_container_id(std::string_view id);

class RegistryDirectory {
 public:
  enum class Taken { kFresh, kLeftOver };

  RegistryDirectory() = default;
  RegistryDirectory(RegistryDirectory&&) = default;
  RegistryDirectory& operator=(RegistryDirectory&&) = default;

  // Makes or takes over the directory and locks it. EBUSY: a living shim has it.
  [[nodiscard]] static Result<RegistryDirectory> claim(const std::string& container_id);
  // The same, but only if there is a directory: ENOENT otherwise. A shim that is ending is waited for, up to 5 s.
  [[nodiscard]] static Result<RegistryDirectory> claim_left_over(const std::string& container_id);

  [[nodiscard]] bool valid() const { return lock_.valid(); }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] Taken taken() const { return taken_; }

  // A listening SOCK_SEQPACKET socket at shim.sock.
  [[nodiscard]] Result<Fd> listen() const;
  [[nodiscard]] Result<void> publish(const oci::RegistryEntry& entry) const;
  [[nodiscard]] Result<oci::RegistryEntry> read_entry() const;
  // Moves shim.sock and the in-flight table, both in use, into `heir`.
  [[nodiscard]] Result<void> hand_over(const RegistryDirectory& heir) const;
  // Gives the name back at once, by a rename: removing directories takes a disk several milliseconds each,
  // and `delete` is waiting. discard() removes what is left of it then.
  void retire();
  void discard();

 private:
  static Result<RegistryDirectory> lock(const std::string& container_id, bool is_made);

  std::string path_;
  std::string retired_;
  Fd lock_;
  Taken taken_ = Taken::kFresh;
};

// The directory of a container that joined `owner_id`'s network.
[[nodiscard]] Result<void> publish_member(const oci::RegistryEntry& entry, const std::string& owner_id);
// In two steps, as above.
void retire_member(const std::string& container_id);
void discard_member(const std::string& container_id);

// Whether the process at the other end is root or the user the shim runs as.
[[nodiscard]] bool is_peer_trusted(int socket);

}  // namespace leash::shim
