// Gate: one coroutine waits until another has ended. And spawn(): how coroutines are started; an
// exception that escapes one is a bug that is told, not lost.
#pragma once

#include <exception>
#include <functional>
#include <string>

#include "proxy/asio.h"

namespace leash::proxy {

class Gate {
 public:
  explicit Gate(asio::io_context& context) : timer_(context, Clock::time_point::max()) {}

  void open() {
    is_open_ = true;
    timer_.cancel();
  }
  [[nodiscard]] bool is_open() const { return is_open_; }
  // True if it is open; false when `deadline` came first.
  [[nodiscard]] asio::awaitable<bool> wait(Clock::time_point deadline);

 private:
  asio::steady_timer timer_;
  bool is_open_ = false;
};

// `what` names the coroutine in the diagnostic log. `ended` is called in any case.
void spawn(asio::io_context& context, std::string what, asio::awaitable<void> coroutine,
           std::function<void()> ended = {});

}  // namespace leash::proxy
