#include "proxy/wait.h"

#include <memory>

namespace leash::proxy {

Task<> wait_writable(asio::io_context& context, int fd, Clock::time_point deadline) {
  // Shared with the timer's handler: that may be queued already when the wait ends, and then runs
  // after this frame is gone.
  struct State {
    explicit State(asio::io_context& owner) : descriptor(owner) {}
    asio::posix::stream_descriptor descriptor;
    bool finished = false;
    bool expired = false;
  };
  const auto state = std::make_shared<State>(context);
  boost::system::error_code error;
  state->descriptor.assign(fd, error);
  if (error) co_return Error::from_errno(error.value(), "wait");
  asio::steady_timer timer(context, deadline);
  timer.async_wait([state](const boost::system::error_code& stopped) {
    if (stopped || state->finished) return;
    state->expired = true;
    state->descriptor.cancel();
  });
  co_await state->descriptor.async_wait(asio::posix::stream_descriptor::wait_write,
                                        asio::redirect_error(asio::use_awaitable, error));
  state->finished = true;
  timer.cancel();
  (void)state->descriptor.release();
  if (state->expired) co_return Error::from_errno(ETIMEDOUT, "connect");
  if (error) co_return Error::from_errno(error.value(), "wait");
  co_return Result<void>();
}

}  // namespace leash::proxy
