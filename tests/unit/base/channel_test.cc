#include "base/channel.h"

#include "base/sys.h"
#include "tests/unit/catch.h"

using leash::Channel;

TEST_CASE("channel: kind, body and descriptors arrive together") {
  auto ends = Channel::pair().value();
  auto pipe = leash::sys::pipe().value();
  REQUIRE(ends.first.send("attach", "{\"a\":1}", {pipe.second.get()}));
  auto message = ends.second.receive().value();
  REQUIRE(message.has_value());
  REQUIRE(message->kind == "attach");
  REQUIRE(message->body == "{\"a\":1}");
  REQUIRE(message->fds.size() == 1);
  REQUIRE(leash::sys::write_all(message->fds[0].get(), "x"));
  char byte = 0;
  REQUIRE(::read(pipe.first.get(), &byte, 1) == 1);
}

TEST_CASE("channel: a body larger than a packet arrives whole") {
  auto ends = Channel::pair().value();
  const std::string body(3 << 20, 'b');
  REQUIRE(ends.first.send("big", body));
  auto message = ends.second.receive().value();
  REQUIRE(message->body == body);
  REQUIRE(message->fds.empty());
}

TEST_CASE("channel: a closed peer is an end, a silent one a timeout") {
  auto ends = Channel::pair().value();
  auto silent = ends.second.receive(std::chrono::milliseconds(1));
  REQUIRE_FALSE(silent);
  REQUIRE(silent.error().code() == ETIMEDOUT);
  { leash::Fd closed = ends.first.release(); }
  REQUIRE_FALSE(ends.second.receive().value().has_value());
}
