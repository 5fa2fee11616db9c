#include "proxy/process_names.h"

#include <vector>

#include "tests/unit/catch.h"

namespace leash::proxy {
namespace {

struct House {
  House() {
    names.on_ask([this](const oci::WhoRequest& request) {
      asked.push_back(request.tag);
      return is_reachable;
    });
  }
  asio::io_context context{1};
  ProcessNames names{context};
  std::vector<uint32_t> asked;
  bool is_reachable = true;
};

}  // namespace

TEST_CASE("process names: each answer goes to the connection that asked, late ones to nobody") {
  House house;
  ProcessNames::Question first(house.names);
  ProcessNames::Question second(house.names);
  first.ask({});
  second.ask({});
  {
    ProcessNames::Question gone(house.names);
    gone.ask({});
  }
  REQUIRE(house.asked.size() == 3);
  house.names.answer({house.asked[1], 8, "python3", "/usr/bin/python3.11"});
  house.names.answer({house.asked[2], 9, "late", ""});
  house.names.answer({77, 9, "nobody asked", ""});
  CHECK(first.text().empty());
  CHECK(first.is_open());
  CHECK(second.text() == "8 python3 (/usr/bin/python3.11)");
  CHECK_FALSE(second.is_open());
}

TEST_CASE("process names: waiting ends with the answer, or when it has lasted long enough") {
  House house;
  ProcessNames::Question question(house.names);
  ProcessNames::Question unanswered(house.names);
  question.ask({});
  unanswered.ask({});
  std::string seen;
  bool has_given_up = false;
  spawn(house.context, "answered", [](ProcessNames::Question& one, std::string& out) -> asio::awaitable<void> {
    co_await one.wait(std::chrono::seconds(60));
    out = one.text();
  }(question, seen));
  spawn(house.context, "unanswered", [](ProcessNames::Question& one, bool& out) -> asio::awaitable<void> {
    co_await one.wait(std::chrono::milliseconds(2));
    co_await one.wait(std::chrono::seconds(60));  // not a second time
    out = true;
  }(unanswered, has_given_up));
  asio::post(house.context, [&] { house.names.answer({house.asked[0], 17, "curl", ""}); });
  const auto start = Clock::now();
  house.context.run();
  CHECK(seen == "17 curl");
  CHECK(has_given_up);
  CHECK(Clock::now() - start < std::chrono::seconds(10));
}

TEST_CASE("process names: a shim that does not answer is not asked without end") {
  House house;
  std::vector<std::unique_ptr<ProcessNames::Question>> questions;
  const auto ask = [&] {
    questions.push_back(std::make_unique<ProcessNames::Question>(house.names));
    questions.back()->ask({});
  };
  for (uint32_t i = 0; i < 2 * ProcessNames::kMaxUnanswered; ++i) ask();
  REQUIRE(house.asked.size() == ProcessNames::kMaxUnanswered);
  CHECK_FALSE(questions.back()->is_open());
  // An answer settles those before it, whose answers are lost.
  house.names.answer({house.asked.back(), 0, "", ""});
  ask();
  CHECK(house.asked.size() == ProcessNames::kMaxUnanswered + 1);
}

TEST_CASE("process names: a question that could not be sent is not waited for") {
  House house;
  house.is_reachable = false;
  ProcessNames::Question question(house.names);
  question.ask({});
  CHECK_FALSE(question.is_open());
}

}  // namespace leash::proxy
