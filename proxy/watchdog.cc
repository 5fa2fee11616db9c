#include "proxy/watchdog.h"

#include <algorithm>

namespace leash::proxy {

void Watchdog::schedule(Clock::time_point deadline) {
  next_ = std::max(deadline, Clock::now() + kResolution);
  timer_.expires_at(next_);
  timer_.async_wait([this](const boost::system::error_code& stopped) {
    if (stopped) return;
    next_ = Clock::time_point::max();
    const Clock::time_point now = Clock::now();
    Clock::time_point earliest = Clock::time_point::max();
    // expire() only queues handlers: nothing is added or removed while we walk.
    for (Watched* const watched : watched_) earliest = std::min(earliest, watched->expire(now));
    if (earliest != Clock::time_point::max()) arm(earliest);
  });
}

}  // namespace leash::proxy
