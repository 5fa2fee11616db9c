// The shim's event loop: one thread, epoll, descriptors and timers.
//
// A callback may unwatch any descriptor, its own included, and may watch new ones. A descriptor is
// unwatched before it is closed: the loop borrows numbers, it owns none.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "base/fd.h"
#include "base/result.h"

namespace leash::shim {

class Loop {
 public:
  using Clock = std::chrono::steady_clock;
  using Callback = std::function<void(uint32_t events)>;
  using TimerId = uint64_t;

  [[nodiscard]] static Result<Loop> create();

  // `events` is a set of EPOLL*. Watching a watched descriptor replaces its events and callback.
  [[nodiscard]] Result<void> watch(int fd, uint32_t events, Callback callback);
  void unwatch(int fd);

  TimerId after(std::chrono::milliseconds delay, std::function<void()> callback);
  void cancel(TimerId timer);

  // Runs until stop(), or until an error of epoll itself.
  [[nodiscard]] Result<void> run();
  void stop() { is_stopped_ = true; }

 private:
  explicit Loop(Fd epoll) : epoll_(std::move(epoll)) {}
  [[nodiscard]] int milliseconds_to_next_timer() const;
  void run_due_timers();

  struct Watch {
    uint64_t generation = 0;
    std::shared_ptr<Callback> callback;  // shared: a callback that unwatches itself outlives its entry
  };
  struct Timer {
    TimerId id = 0;
    std::function<void()> callback;
  };

  Fd epoll_;
  std::map<int, Watch> watches_;
  std::multimap<Clock::time_point, Timer> timers_;
  uint64_t next_generation_ = 1;
  TimerId next_timer_ = 1;
  bool is_stopped_ = false;
};

}  // namespace leash::shim
