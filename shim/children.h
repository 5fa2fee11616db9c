// The shim's child processes: who shall hear of the end of which one.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>

namespace leash::shim {

class Children {
 public:
  using OnExit = std::function<void(int wait_status)>;

  void expect(pid_t pid, OnExit on_exit) { expected_[pid] = std::move(on_exit); }
  // SIGKILL, and waits for its end; nobody hears of it. For a child that is not wanted any more.
  void destroy(pid_t pid);
  // After SIGCHLD: collects all that have ended. Children nobody expects are collected, too.
  void reap();

 private:
  std::map<pid_t, OnExit> expected_;
};

}  // namespace leash::shim
