#include "shim/loop.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <limits>

namespace leash::shim {

Result<Loop> Loop::create() {
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return Error::last_errno("epoll_create1");
  return Loop(std::move(epoll));
}

Result<void> Loop::watch(int fd, uint32_t events, Callback callback) {
  const bool is_new = watches_.find(fd) == watches_.end();
  const uint64_t generation = next_generation_++;
  struct epoll_event event = {};
  event.events = events;
  // The generation tells an event of this descriptor from one still queued for an earlier descriptor
  // of the same number, closed by a callback of the same batch.
  event.data.u64 = (generation << 24) | static_cast<uint64_t>(fd);
  if (::epoll_ctl(epoll_.get(), is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &event) < 0) {
    return Error::last_errno("epoll_ctl");
  }
  watches_[fd] = {generation, std::make_shared<Callback>(std::move(callback))};
  return {};
}

void Loop::unwatch(int fd) {
  if (watches_.erase(fd) > 0) (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

Loop::TimerId Loop::after(std::chrono::milliseconds delay, std::function<void()> callback) {
  const TimerId id = next_timer_++;
  timers_.emplace(Clock::now() + delay, Timer{id, std::move(callback)});
  return id;
}

void Loop::cancel(TimerId timer) {
  const auto found = std::find_if(timers_.begin(), timers_.end(), [&](const auto& entry) { return entry.second.id == timer; });
  if (found != timers_.end()) timers_.erase(found);
}

int Loop::milliseconds_to_next_timer() const {
  if (timers_.empty()) return -1;
  const auto left = timers_.begin()->first - Clock::now();
  const int64_t milliseconds = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::clamp<int64_t>(milliseconds, 0, std::numeric_limits<int>::max()));
}

void Loop::run_due_timers() {
  const auto now = Clock::now();
  while (!is_stopped_ && !timers_.empty() && timers_.begin()->first <= now) {
    auto node = timers_.extract(timers_.begin());
    node.mapped().callback();
  }
}

Result<void> Loop::run() {
  std::array<struct epoll_event, 32> events;
  is_stopped_ = false;
  while (!is_stopped_) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                   milliseconds_to_next_timer());
    if (count < 0 && errno != EINTR) return Error::last_errno("epoll_wait");
    for (int i = 0; i < count && !is_stopped_; ++i) {
      const struct epoll_event& event = events[static_cast<size_t>(i)];
      const auto found = watches_.find(static_cast<int>(event.data.u64 & 0xffffff));
      if (found == watches_.end() || found->second.generation != event.data.u64 >> 24) continue;
      const std::shared_ptr<Callback> callback = found->second.callback;
      (*callback)(event.events);
    }
    run_due_timers();
  }
  return {};
}

}  // namespace leash::shim
