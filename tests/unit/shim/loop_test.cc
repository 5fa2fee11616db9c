#include "shim/loop.h"

#include <sys/epoll.h>
#include <unistd.h>

#include "base/sys.h"
#include "tests/unit/catch.h"

using namespace leash;
using std::chrono::milliseconds;

TEST_CASE("loop: timers run in the order of their times, cancelled ones never") {
  auto loop = shim::Loop::create().value();
  std::string order;
  (void)loop.after(milliseconds(20), [&] {
    order += 'c';
    loop.stop();
  });
  (void)loop.after(milliseconds(0), [&] { order += 'a'; });
  (void)loop.after(milliseconds(10), [&] { order += 'b'; });
  const auto cancelled = loop.after(milliseconds(5), [&] { order += 'x'; });
  loop.cancel(cancelled);
  REQUIRE(loop.run());
  REQUIRE(order == "abc");
}

TEST_CASE("loop: an event of a closed descriptor does not reach the one that took its number") {
  auto loop = shim::Loop::create().value();
  auto first = sys::pipe().value();
  auto second = sys::pipe().value();
  REQUIRE(sys::write_all(first.second.get(), "x"));
  REQUIRE(sys::write_all(second.second.get(), "x"));
  int wrong = 0;
  int calls = 0;
  // Whichever callback comes first closes the other's descriptor and watches a silent one of its number.
  auto silent = sys::pipe().value();
  const auto replace = [&](Fd& other) {
    if (++calls > 1) return;
    const int number = other.get();
    loop.unwatch(number);
    REQUIRE(::dup2(silent.first.get(), number) == number);
    REQUIRE(loop.watch(number, EPOLLIN, [&](uint32_t) { ++wrong; }));
    (void)loop.after(milliseconds(10), [&] { loop.stop(); });
  };
  REQUIRE(loop.watch(first.first.get(), EPOLLIN, [&](uint32_t) {
    loop.unwatch(first.first.get());
    replace(second.first);
  }));
  REQUIRE(loop.watch(second.first.get(), EPOLLIN, [&](uint32_t) {
    loop.unwatch(second.first.get());
    replace(first.first);
  }));
  REQUIRE(loop.run());
  REQUIRE(calls == 1);
  REQUIRE(wrong == 0);
}

TEST_CASE("loop: a callback may unwatch itself and go on") {
  auto loop = shim::Loop::create().value();
  auto pipe = sys::pipe().value();
  REQUIRE(sys::write_all(pipe.second.get(), "x"));
  const std::string captured(100, 'k');
  std::string seen;
  REQUIRE(loop.watch(pipe.first.get(), EPOLLIN, [&loop, &seen, captured, fd = pipe.first.get()](uint32_t) {
    loop.unwatch(fd);
    seen = captured;
    loop.stop();
  }));
  REQUIRE(loop.run());
  REQUIRE(seen == captured);
}
