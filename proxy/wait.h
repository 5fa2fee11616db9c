// Waiting for one descriptor once, with a deadline, without handing the descriptor to Asio for good.
#pragma once

#include "base/sys.h"
#include "proxy/asio.h"

namespace leash::proxy {

// Errors: ETIMEDOUT.
[[nodiscard]] Task<> wait_writable(asio::io_context& context, int fd, Clock::time_point deadline);

}  // namespace leash::proxy
