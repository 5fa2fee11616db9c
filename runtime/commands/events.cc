// leash-runtime events: what a container uses, now and then, and each time the OOM killer has killed in it;
// one JSON object a line until it stops.
#include <poll.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <iostream>

#include "base/sys.h"
#include "runtime/cgroup_stats.h"
#include "runtime/command.h"
#include "runtime/state_store.h"

namespace leash::runtime {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr args::Flag kFlags[] = {
    {"interval", args::Kind::kValue, "set the stats collection interval", "5s"},
    {"stats", args::Kind::kBool, "display the container's stats then exit"},
};

// A duration as Go writes it: "5s", "100ms", "1m30s", "1.5h".
Result<milliseconds> parse_duration(const std::string& text) {
  const Error invalid(EINVAL, "invalid value \"" + text + "\" for flag -interval: parse error");
  double total_ms = 0;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  if (at == end) return invalid;
  while (at != end) {
    double number = 0;
    const auto [next, failure] = std::from_chars(at, end, number);
    if (failure != std::errc()) return invalid;
    const char* unit_end = next;
    while (unit_end != end && *unit_end >= 'a' && *unit_end <= 'z') ++unit_end;
    const std::string_view unit(next, static_cast<size_t>(unit_end - next));
    if (unit == "ms") {
      total_ms += number;
    } else if (unit == "s") {
      total_ms += number * 1000;
    } else if (unit == "m") {
      total_ms += number * 60'000;
    } else if (unit == "h") {
      total_ms += number * 3'600'000;
    } else if (unit == "us") {
      total_ms += number / 1000;
    } else if (unit == "ns") {
      total_ms += number / 1'000'000;
    } else if (!(unit.empty() && number == 0)) {
      return invalid;
    }
    at = unit_end;
  }
  if (total_ms <= 0 || total_ms > 1e12) return Error(EINVAL, "duration interval must be greater than 0");
  return milliseconds(std::max(1L, static_cast<long>(total_ms)));
}

Result<void> print_stats(const std::string& id, const Cgroup& cgroup) {
  TRY(const oci::ContainerStats stats, container_stats(cgroup));
  std::cout << oci::print_stats_event(id, stats) << std::endl;
  return {};
}

Result<int> follow(const Container& container, const Cgroup& cgroup, milliseconds interval) {
  const std::string& id = container.record.id;
  TRY(const Fd init, sys::pidfd_open(container.record.init_pid));
  TRY(const OomNotice oom, watch_oom(cgroup));
  uint64_t kills = cgroup.oom_kills();
  auto next = Clock::now() + interval;
  // v1 gives notice just before it kills: the count is looked at again for a while.
  int looks = 0;
  // A reader that went away ends it, at the first line that it does not get.
  while (std::cout) {
    const auto left = std::chrono::duration_cast<milliseconds>(next - Clock::now()).count();
    pollfd entries[] = {{init.get(), POLLIN, 0}, {oom.fd.get(), oom.poll_events, 0}};
    const long longest = looks > 0 ? 10 : 1L << 30;
    const int ready = poll(entries, 2, static_cast<int>(std::clamp<long>(left, 0, longest)));
    if (ready < 0 && errno != EINTR) return Error::last_errno("poll");
    // Before the end of init is looked at: the kill may be what ended it.
    const uint64_t now = cgroup.oom_kills();
    for (; kills < now; ++kills) std::cout << oci::print_oom_event(id) << std::endl;
    if (looks > 0) --looks;
    if (entries[1].revents != 0) {
      oom.acknowledge();
      looks = 100;
    }
    if (entries[0].revents != 0) return 0;
    if (Clock::now() >= next) {
      TRY_VOID(print_stats(id, cgroup));
      next += interval;
    }
  }
  return 0;
}

Result<int> events(const GlobalOptions& options, const args::Parsed& arguments) {
  TRY(const Container container, StateStore(options.root).load(arguments.positionals()[0]));
  TRY(const milliseconds interval, parse_duration(arguments.value("interval", "5s")));
  TRY(const oci::Status status, container.status());
  if (status == oci::Status::kStopped || status == oci::Status::kCreating) {
    return Error("container with id " + container.record.id + " is not running");
  }
  const Cgroup cgroup = Cgroup::from_record(container.record.cgroups);
  if (arguments.is_set("stats")) {
    TRY_VOID(print_stats(container.record.id, cgroup));
    return 0;
  }
  return follow(container, cgroup, interval);
}

}  // namespace

const Command kEventsCommand = {
    "events", "display container events such as OOM notifications, cpu, memory, and IO usage statistics",
    "[command options] <container-id>",
    "The events command displays information about the container. By default the information is displayed once "
    "every 5 seconds.",
    kFlags, 1, 1, false, 1, events};

}  // namespace leash::runtime
