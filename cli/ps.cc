// leash ps: which containers are leashed, whether their parts are alive, and how much they did.
#include <algorithm>
#include <chrono>

#include "base/sys.h"
#include "cli/commands.h"
#include "cli/log_view.h"
#include "cli/table.h"
#include "oci-spec/event.h"

namespace leash::cli {

namespace {

constexpr off_t kTail = off_t{32} << 10;

// The number of lines that a log has seen, rotated ones included: the last one's seq.
std::string count_of(const std::string& path) {
  auto fd = sys::open(path, O_RDONLY);
  if (!fd) return "0";
  const off_t size = ::lseek(fd->get(), 0, SEEK_END);
  if (::lseek(fd->get(), std::max<off_t>(0, size - kTail), SEEK_SET) < 0) return "?";
  auto tail = sys::read_all(fd->get());
  return tail ? std::to_string(oci::last_seq(*tail)) : "?";
}

std::string uptime(int64_t started_us) {
  if (started_us <= 0) return "-";
  const auto now = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch());
  return format_duration(static_cast<double>(std::max<int64_t>(0, now.count() - started_us)) / 1000);
}

struct Health {
  std::string text;
  Colour colour = Colour::kNone;
};

Health health_of(const Directories& directories, const Container& container) {
  if (!container.is_running) return {"ended", Colour::kDim};
  auto report = ask_shim(directories, container.id);
  if (!report) return {"no answer from leash-shim", Colour::kRed};
  if (report->proxy_state != "running") return {"proxy " + escaped(report->proxy_state, 16), Colour::kRed};
  if (!report->locked_in) return {"created", Colour::kYellow};
  std::string text = "locked in";
  if (report->proxy_restarts > 0) text += ", proxy restarted " + std::to_string(report->proxy_restarts) + "x";
  return {std::move(text), report->proxy_restarts > 0 ? Colour::kYellow : Colour::kGreen};
}

}  // namespace

Result<int> run_ps(const Directories& directories, const PsOptions& options) {
  TRY(const std::vector<Container> containers, list_containers(directories));
  Table table({"CONTAINER", "NAME", "STATE", "UP", "PID", "FLOWS", "BLOCKED", "POLICY"});
  std::string ids;
  for (const Container& container : containers) {
    if (!container.is_running && !options.all) continue;
    ids += escaped(container.id) + "\n";
    if (options.quiet) continue;
    Health health = health_of(directories, container);
    const bool is_running = container.is_running;
    table.add({{short_id(container.id)},
               {container.name.empty() ? "-" : escaped(container.name, 40)},
               {std::move(health.text), health.colour},
               {is_running ? uptime(container.entry.started_us) : "-"},
               {is_running ? std::to_string(container.entry.init_pid) : "-"},
               {count_of(container.log_directory + "/flows.jsonl")},
               {count_of(container.log_directory + "/blocked.jsonl")},
               {is_running ? escaped(container.entry.policy_source) : "-"}});
  }
  TRY_VOID(write_out(options.quiet ? ids : table.print(Painter::for_stdout())));
  return kExitOk;
}

}  // namespace leash::cli
