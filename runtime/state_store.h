// The containers of one --root: <root>/<id>/ with state.json (the record) and, until the user's process
// runs, init.sock. The record is written whole by rename; the status is not stored but found out, so that
// it cannot be wrong after a crash of anything.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "oci-spec/state.h"

namespace leash::runtime {

// runc's rule: letters, digits and "_+-." only, not "." nor "..", 1 to 1024 bytes.
// Error: "invalid container ID format".
[[nodiscard]] Result<void> check_container_id(std::string_view id);

// Field 22 of /proc/PID/stat; 0 when the process is gone, a zombie, or exiting.
[[nodiscard]] uint64_t process_start_time(pid_t pid);

class Container {
 public:
  oci::ContainerRecord record;
  std::string directory;  // <root>/<id>

  [[nodiscard]] std::string init_socket() const { return directory + "/init.sock"; }
  [[nodiscard]] std::string record_path() const { return directory + "/state.json"; }

  // Is the recorded init there (and not another process with its pid, and not a zombie)?
  [[nodiscard]] bool is_alive() const;
  // created: init waits at init.sock; paused: the cgroup is frozen; else running or stopped.
  [[nodiscard]] Result<oci::Status> status() const;
  // For `state` and hooks. `owner` is looked up for `list`; `state` prints "".
  [[nodiscard]] Result<oci::State> state() const;
  [[nodiscard]] Result<void> save() const;
  // Only the directory below the root.
  [[nodiscard]] Result<void> remove() const;
};

class StateStore {
 public:
  explicit StateStore(std::string root) : root_(std::move(root)) {}

  // Makes <root>/<id> (0711, since a container's user may have to reach what is bound from it).
  // EEXIST: "container with given ID already exists".
  [[nodiscard]] Result<Container> create(const std::string& id) const;
  // "container does not exist" for an unknown id. A bad id is an error of check_container_id.
  [[nodiscard]] Result<Container> load(const std::string& id) const;
  // Ids with a record, sorted; none when the root does not exist.
  [[nodiscard]] Result<std::vector<std::string>> ids() const;

 private:
  std::string root_;
};

}  // namespace leash::runtime
