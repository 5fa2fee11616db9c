// leash-runtime's side of oci-spec/shim_protocol.h, small enough to be killed at any step: a container
// whose init is a fork in namespaces of its own, and a world that N1 is wired to.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/channel.h"
#include "base/fd.h"
#include "base/result.h"
#include "oci-spec/shim_protocol.h"

namespace leash::test {

// Runs `work` in a forked child within the network namespace behind `netns_fd`, and gives back what it
// returned. Dies with the test.
[[nodiscard]] std::string in_namespace(int netns_fd, const std::function<std::string()>& work);

// Sends `line`, gives back the answer's line or the name of the errno: "ECONNREFUSED".
[[nodiscard]] std::string ask(const std::string& address, uint16_t port, const std::string& line, int timeout_ms = 3000);

// Runs a program to its end, which must be a good one.
void run(const std::vector<std::string>& words);

// Waits until `claim` is true, at most `milliseconds`; by polling, since what is waited for are traces of
// processes that are not our children.
[[nodiscard]] bool eventually(const std::function<bool()>& claim, int milliseconds = 5000);

// A network namespace, gone when nobody is in it.
[[nodiscard]] Fd new_network_namespace();

struct Directory {
  Directory();
  ~Directory();
  std::string path;
};

class Container {
 public:
  // `programs`: the directory with leash-shim and leash-proxy.
  Container(std::string programs, std::string id);
  ~Container();
  Container(const Container&) = delete;
  Container& operator=(const Container&) = delete;

  oci::PrepareRequest request;
  bool is_in_hosts_network = false;

  // Each returns "" or the text of `failed` (or "eof").
  std::string prepare();
  std::string attach();
  std::string commit();
  std::string create() {
    std::string problem = prepare();
    if (problem.empty()) problem = attach();
    if (problem.empty()) problem = commit();
    return problem;
  }
  std::string start();  // unshare, n2, go
  void hang_up();       // as if create had been killed
  void kill_init();
  [[nodiscard]] bool wait_for_shim_end(int milliseconds = 5000) const;

  [[nodiscard]] Channel connect() const;
  [[nodiscard]] oci::StatusReport status() const;
  [[nodiscard]] std::string registry() const { return oci::registry_directory() + "/" + request.container_id; }
  // Within N2, as a process of the container.
  [[nodiscard]] std::string inside(const std::function<std::string()>& work) const;
  [[nodiscard]] std::string ask_proxy(const std::string& line) const;
  // Joins N1 to the namespace `world` by a veth: 203.0.113.1/24 here, 203.0.113.2 there.
  void wire(const Fd& world, const std::string& host_octet = "1") const;

  pid_t init_pid = 0;
  pid_t shim_pid = 0;
  oci::PrepareReply prepared;
  Fd n1;
  Fd shim_pidfd;

 private:
  void fork_init();
  std::string expect(const char* kind, std::optional<Message>* message = nullptr);

  std::string programs_;
  Channel runtime_;
  Fd init_commands_;  // our end of a socketpair to init
  Fd lock_for_shim_;
};

}  // namespace leash::test
