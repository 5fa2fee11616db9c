// Watchdog: the deadlines of all streams with one timer. A timer per wait would cost every read a
// heap operation; here a wait only stores its deadline, and one coarse tick looks for those that
// have passed. A deadline is kept to a quarter of a second.
#pragma once

#include <list>

#include "proxy/asio.h"

namespace leash::proxy {

class Watched {
 public:
  virtual ~Watched() = default;
  // Ends the waits whose deadline is at or before `now`; returns the next one, or time_point::max().
  virtual Clock::time_point expire(Clock::time_point now) = 0;
};

class Watchdog {
 public:
  static constexpr std::chrono::milliseconds kResolution{250};
  using Handle = std::list<Watched*>::iterator;

  explicit Watchdog(asio::io_context& context) : timer_(context) {}
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  [[nodiscard]] Handle add(Watched& watched) { return watched_.insert(watched_.end(), &watched); }
  void remove(Handle handle) { watched_.erase(handle); }
  // Called for each new deadline.
  void arm(Clock::time_point deadline) {
    if (deadline < next_) schedule(deadline);
  }

 private:
  void schedule(Clock::time_point deadline);

  asio::steady_timer timer_;
  std::list<Watched*> watched_;
  Clock::time_point next_ = Clock::time_point::max();
};

}  // namespace leash::proxy
