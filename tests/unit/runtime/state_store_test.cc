#include "runtime/state_store.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/init_socket.h"
#include "tests/unit/runtime/temporary_directory.h"

using namespace leash;
using namespace leash::runtime;

TEST_CASE("state store: ids as runc allows them") {
  for (const char* id : {"a", "A-b_c.d+e", "0123", "..."}) CHECK(check_container_id(id));
  for (const char* id : {"", ".", "..", "a/b", "../x", "a b", "a\n", "ä"}) {
    const auto checked = check_container_id(id);
    REQUIRE_FALSE(checked);
    CHECK(checked.error().message() == "invalid container ID format");
  }
  CHECK_FALSE(check_container_id(std::string(1025, 'a')));
}

TEST_CASE("state store: an id is taken once, and an unknown one does not exist") {
  const test::TemporaryDirectory directory;
  const StateStore store(directory.at("root"));
  CHECK(store.ids()->empty());
  CHECK(store.load("c").error().message() == "container does not exist");
  auto container = store.create("c");
  REQUIRE(container);
  CHECK(store.create("c").error().message() == "container with given ID already exists");
  container->record.bundle = "/b";
  REQUIRE(container->save());
  CHECK(*store.ids() == std::vector<std::string>{"c"});
  CHECK(store.load("c")->record.bundle == "/b");
  REQUIRE(container->remove());
  CHECK(store.load("c").error().code() == ENOENT);
}

TEST_CASE("state store: a create that was killed early can still be loaded and deleted") {
  const test::TemporaryDirectory directory;
  const StateStore store(directory.path());
  REQUIRE(store.create("half"));
  const auto container = store.load("half");
  REQUIRE(container);
  CHECK(*container->status() == oci::Status::kCreating);
}

TEST_CASE("state store: the status is found out, not believed") {
  const test::TemporaryDirectory directory;
  const StateStore store(directory.path());
  auto container = store.create("c");
  REQUIRE(container);
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  container->record.init_pid = child;
  container->record.init_start_time = process_start_time(child);
  CHECK(container->record.init_start_time != 0);
  {
    auto socket = listen_for_start(container->directory);
    REQUIRE(socket);
    CHECK(*container->status() == oci::Status::kCreated);
  }
  // The socket's file is still there, as after a killed `start`; nobody listens.
  CHECK(*container->status() == oci::Status::kRunning);
  ++container->record.init_start_time;
  CHECK(*container->status() == oci::Status::kStopped);
  --container->record.init_start_time;
  ::kill(child, SIGKILL);
  siginfo_t info = {};
  ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  CHECK(*container->status() == oci::Status::kStopped);  // a zombie is not alive
  ::waitpid(child, nullptr, 0);
  CHECK(*container->status() == oci::Status::kStopped);
}

TEST_CASE("state store: a root too long for a unix socket's path works") {
  const test::TemporaryDirectory directory;
  const StateStore store(directory.at(std::string(60, 'r') + "/" + std::string(60, 's')));
  auto container = store.create(std::string(64, 'c'));
  REQUIRE(container);
  auto socket = listen_for_start(container->directory);
  REQUIRE(socket);
  CHECK(connect_to_init(container->directory));
}
