#include "base/process.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sys.h"
#include "tests/unit/catch.h"

using namespace leash;

namespace {

Result<process::Output> shell(const std::string& script, const std::string& input = {},
                              std::optional<std::chrono::milliseconds> timeout = std::nullopt) {
  process::Command command;
  command.path = "/bin/sh";
  command.args = {"sh", "-c", script};
  command.env = {"PATH=/usr/bin:/bin", "GREETING=hello"};
  command.stdin_text = input;
  command.timeout = timeout;
  return process::run(command);
}

}  // namespace

TEST_CASE("process: input goes in, both outputs come out, the environment is ours alone") {
  const auto output = shell("cat; echo err >&2; echo \"$GREETING$HOME\"; exit 3", "in\n");
  REQUIRE(output);
  CHECK(output->out == "in\nhello\n");
  CHECK(output->err == "err\n");
  CHECK(process::describe_status(output->wait_status) == "exit status 3");
  CHECK(process::exit_code(output->wait_status) == 3);
}

TEST_CASE("process: a program that cannot be executed is an error of the start") {
  process::Command command;
  command.path = "/nosuchprogram";
  const auto output = process::run(command);
  REQUIRE_FALSE(output);
  CHECK(output.error().message() == "fork/exec /nosuchprogram: no such file or directory");
}

TEST_CASE("process: a program past its deadline is killed") {
  const auto begin = std::chrono::steady_clock::now();
  const auto output = shell("sleep 30", {}, std::chrono::milliseconds(100));
  REQUIRE(output);
  CHECK(output->is_timed_out);
  CHECK(process::describe_status(output->wait_status) == "signal: killed");
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
}

TEST_CASE("process: input that nobody reads is no error") {
  const auto output = shell("exit 0", std::string(size_t{1} << 20, 'x'));
  REQUIRE(output);
  CHECK(output->wait_status == 0);
}

TEST_CASE("process: a background child that keeps the pipes does not keep us") {
  const auto begin = std::chrono::steady_clock::now();
  const auto output = shell("sleep 20 & echo done");
  REQUIRE(output);
  CHECK(output->out == "done\n");
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
}

TEST_CASE("process: output is bounded") {
  const auto output = shell("head -c 1000000 /dev/zero");
  REQUIRE(output);
  CHECK(output->out.size() == size_t{64} << 10);
}

TEST_CASE("process: a daemon is its own session and inherits only what is named") {
  auto pipe = sys::pipe();
  REQUIRE(pipe);
  const int stray = ::dup(pipe->first.get());  // without close-on-exec, as an engine would leave it
  const auto pid = process::spawn_daemon(
      "/bin/sh", {"sh", "-c", "ls /proc/self/fd >&9; ps -o sid= -p $$ >&9; echo $$ >&9"}, {"PATH=/usr/bin:/bin"},
      {{pipe->second.get(), 9}});
  ::close(stray);
  REQUIRE(pid);
  pipe->second.reset();
  const auto text = sys::read_all(pipe->first.get());
  REQUIRE(text);
  // 3 is ls's own.
  CHECK(text->starts_with("0\n1\n2\n3\n9\n"));
  std::vector<std::string> words;
  for (size_t at = 0; at < text->size();) {
    const size_t end = text->find('\n', at);
    words.push_back(text->substr(at, end - at));
    at = end + 1;
  }
  REQUIRE(words.size() == 7);
  words[5].erase(0, words[5].find_first_not_of(' '));
  CHECK(words[5] == words[6]);
  CHECK(words[6] == std::to_string(*pid));
}

TEST_CASE("process: a daemon that cannot be executed is an error") {
  const auto pid = process::spawn_daemon("/nosuchprogram", {"x"}, {}, {});
  REQUIRE_FALSE(pid);
  CHECK(pid.error().message() == "fork/exec /nosuchprogram: no such file or directory");
}

TEST_CASE("process: the output is whole up to the limit that was asked for") {
  process::Command command;
  command.path = "/bin/sh";
  command.args = {"sh", "-c", "head -c 300000 /dev/zero"};
  Result<process::Output> cut = process::run(command);
  REQUIRE(cut);
  CHECK(cut->out.size() == 64 << 10);
  command.output_limit = 1 << 20;
  Result<process::Output> whole = process::run(command);
  REQUIRE(whole);
  CHECK(whole->out.size() == 300000);
}
