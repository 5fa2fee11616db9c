#include "proxy/gate.h"

#include "base/log.h"

namespace leash::proxy {

asio::awaitable<bool> Gate::wait(Clock::time_point deadline) {
  while (!is_open_ && Clock::now() < deadline) {
    timer_.expires_at(deadline);
    boost::system::error_code ignored;
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  co_return is_open_;
}

void spawn(asio::io_context& context, std::string what, asio::awaitable<void> coroutine, std::function<void()> ended) {
  asio::co_spawn(context, std::move(coroutine),
                 [what = std::move(what), ended = std::move(ended)](const std::exception_ptr& thrown) {
                   try {
                     if (thrown) std::rethrow_exception(thrown);
                   } catch (const std::exception& problem) {
                     log::error(what + ": " + problem.what());
                   }
                   if (ended) ended();
                 });
}

}  // namespace leash::proxy
