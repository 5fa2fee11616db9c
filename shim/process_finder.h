// Which process of the container holds a connection: the socket's inode by sock_diag, then whose
// /proc/PID/fd names it. Only processes of the container are looked at, newest first, for at most 2 ms a
// question and a twentieth of the shim's time in all: supervision goes before names, and a container
// that makes connections or processes without end gets lines without names. Nothing here is an error;
// what is not found is left empty.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "hooks/socket_lookup.h"
#include "oci-spec/proxy_protocol.h"

namespace leash::shim {

// Time that may be spent: a share of what passes, saved up to `most`.
class TimeBudget {
 public:
  using Clock = std::chrono::steady_clock;
  TimeBudget(Clock::duration most, int share, Clock::time_point now) : most_(most), share_(share), left_(most), at_(now) {}

  [[nodiscard]] bool has_some(Clock::time_point now);
  void spend(Clock::duration time) { left_ -= time; }

 private:
  Clock::duration most_;
  int share_;  // one part in so many
  Clock::duration left_;
  Clock::time_point at_;
};

// The directory of a process's cgroup among the mounts: of the hierarchies in which it is in a cgroup of
// its own, the one with the longest path. Texts of /proc/PID/cgroup and /proc/self/mountinfo. Empty: none.
[[nodiscard]] std::string cgroup_directory(std::string_view cgroups, std::string_view mountinfo);

// The pids of a /proc/PID/status, outermost namespace first.
[[nodiscard]] std::vector<uint32_t> namespace_pids(std::string_view status);

class ProcessFinder {
 public:
  // `n2_fd` is borrowed.
  explicit ProcessFinder(int n2_fd);

  // A container whose processes are looked at, by its init, which is still in the container's own cgroup.
  void add(pid_t init);
  void remove(pid_t init);

  [[nodiscard]] oci::WhoReply find(const oci::WhoRequest& request);

 private:
  using Clock = TimeBudget::Clock;
  struct Tree {
    pid_t init = 0;
    size_t depth = 0;     // of its pid namespace
    std::string cgroups;  // text of its /proc/PID/cgroup
    std::optional<std::string> directory;
  };
  struct Candidate {
    pid_t pid = 0;
    size_t depth = 0;
  };
  // A process by its /proc/PID, which stays that process's alone, whoever gets its number later.
  struct Process {
    Fd directory;
    uint32_t inner_pid = 0;
  };
  [[nodiscard]] std::optional<Process> find_holder(std::string_view link, Clock::time_point deadline);
  [[nodiscard]] std::vector<Candidate> candidates(Clock::time_point deadline);
  void search(const oci::WhoRequest& request, Clock::time_point deadline, oci::WhoReply& reply);

  int n2_fd_;
  TimeBudget budget_;
  bool is_hopeless_ = false;  // the kernel does not tell
  std::optional<hooks::SocketLookup> lookup_;
  std::vector<Tree> trees_;
  std::optional<Process> last_;  // most often the next one too
};

}  // namespace leash::shim
