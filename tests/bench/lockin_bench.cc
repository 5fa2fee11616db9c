// How long the lock-in takes: build() for an N1 as Docker wires it (eth0, IPv4 and IPv6, default
// routes), and guard_inbound(), which are on the way of every start. Prints median and 90th percentile of a
// hundred; no test, since the machine may be busy.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "hooks/netns.h"
#include "tests/integration/lockin_house.h"

using namespace leash;
using Clock = std::chrono::steady_clock;

namespace {

template <class T>
T must(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().message().c_str());
    std::exit(1);
  }
  return std::move(result).value();
}

void report(const char* name, std::vector<long> microseconds) {
  std::sort(microseconds.begin(), microseconds.end());
  std::printf("%-28s median %6ld us, 90th %6ld us\n", name, microseconds[microseconds.size() / 2],
              microseconds[microseconds.size() * 9 / 10]);
}

long timed(const std::function<void()>& action) {
  const auto start = Clock::now();
  action();
  return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count();
}

}  // namespace

int main() {
  constexpr int kRounds = 100;
  const test::House house = test::House::wired();
  std::vector<long> builds;
  std::vector<long> guards;
  std::vector<long> teardowns;
  for (int i = 0; i < kRounds; ++i) {
    Fd n2 = must(hooks::make_network_namespace());
    hooks::LockInPlan plan;
    plan.n1_fd = house.n1.get();
    plan.n2_fd = n2.get();
    plan.net_sysctls = {{"net.ipv4.ip_unprivileged_port_start", "0"}};
    const Fd n1 = must(hooks::make_network_namespace());
    std::vector<hooks::LockIn> kept;
    builds.push_back(timed([&] { kept.push_back(must(hooks::build(plan))); }));
    guards.push_back(timed([&] {
      if (!hooks::guard_inbound({.n1_fd = n1.get(), .tcp_ports = {{8080, 8080}}, .relay_port = 40000})) std::exit(1);
    }));
    teardowns.push_back(timed([&] {
      kept.clear();
      n2.reset();
    }));
  }
  report("build (N2)", builds);
  report("guard_inbound (N1)", guards);
  report("teardown (returns)", teardowns);
}
