// What every coroutine of the proxy needs of Asio, as one header: precompiled, since parsing it is
// most of the compile time of a small file. The proxy has one thread and one io_context, so nothing
// here is locked and nothing runs on a strand.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/udp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/fd.h"
#include "base/result.h"

namespace leash::proxy {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

// What a coroutine of ours returns. Errors travel in the Result, never as exceptions.
template <class T = void>
using Task = asio::awaitable<Result<T>>;

}  // namespace leash::proxy
