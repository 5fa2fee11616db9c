// leash logs: what containers sent, what was refused, as it happened.
#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <set>

#include "base/sys.h"
#include "cli/commands.h"
#include "cli/log_reader.h"

namespace leash::cli {

namespace {

// Wakes a follower when something was written. Only a hint: the follower also looks once a second,
// since a directory may come after its watch should have begun.
class Waker {
 public:
  static Result<Waker> create() {
    Waker waker;
    const int fd = ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (fd < 0) return Error::last_errno("inotify_init1");
    waker.inotify_ = Fd(fd);
    return waker;
  }
  void watch(const std::string& directory) const {
    (void)::inotify_add_watch(inotify_.get(), directory.c_str(), IN_MODIFY | IN_CREATE | IN_MOVED_TO | IN_DELETE);
  }
  void wait() const {
    struct pollfd poll = {inotify_.get(), POLLIN, 0};
    constexpr int kLookAgainMs = 1000;
    if (::poll(&poll, 1, kLookAgainMs) <= 0) return;
    std::array<char, 16384> events;
    while (::read(inotify_.get(), events.data(), events.size()) > 0) {
    }
  }

 private:
  Fd inotify_;
};

class Logs {
 public:
  Logs(const Directories& directories, const LogsOptions& options)
      : directories_(directories), options_(options), painter_(Painter::for_stdout()) {}

  Result<int> run() {
    TRY_VOID(find_new());
    if (!options_.container.empty() && followed_.empty()) return kExitOk;
    TRY_VOID(print_all());
    if (options_.follow) TRY_VOID(follow());
    if (const size_t count = logs_.unreadable(); count > 0) {
      const std::string note = "leash: " + std::to_string(count) + " lines could not be read and were left out\n";
      (void)!::write(STDERR_FILENO, note.data(), note.size());
      return kExitFailed;
    }
    return kExitOk;
  }

 private:
  Result<void> find_new() {
    TRY(const std::vector<Container> containers, list_containers(directories_));
    if (!options_.container.empty()) {
      if (!followed_.empty()) return {};
      TRY(const Container container, find_container(containers, options_.container, &ask_engines));
      add(container);
      return {};
    }
    for (const Container& container : containers) add(container);
    return {};
  }

  void add(const Container& container) {
    if (!followed_.insert(container.id).second) return;
    const bool with_flows = options_.state != "blocked";
    const bool with_blocked = options_.state.empty() || options_.state == "blocked";
    logs_.add(container.log_directory, container.name.empty() ? short_id(container.id) : container.name, with_flows,
              with_blocked);
    if (waker_) waker_->watch(container.log_directory);
    watched_.push_back(container.log_directory);
  }

  Result<void> print_all() {
    std::string out;
    for (;;) {
      TRY(const auto entry, logs_.next());
      if (!entry) break;
      if (!options_.state.empty() && oci::word(entry->line.state) != options_.state) continue;
      if (options_.json) {
        out += entry->line.raw;
        out += '\n';
      } else {
        out += format_log_line(entry->line, options_.container.empty() ? entry->container : "", painter_);
      }
      constexpr size_t kEnough = size_t{64} << 10;
      if (out.size() < kEnough) continue;
      TRY_VOID(write_out(out));
      out.clear();
    }
    return write_out(out);
  }

  // Until the one container has ended, or for ever.
  Result<void> follow() {
    TRY(Waker waker, Waker::create());
    waker_ = std::move(waker);
    waker_->watch(directories_.registry);
    for (const std::string& directory : watched_) waker_->watch(directory);
    for (;;) {
      // Looked at before the last read, so that what was written before the end is printed.
      const bool is_over = !options_.container.empty() && !is_running(*followed_.begin());
      TRY_VOID(find_new());
      TRY_VOID(print_all());
      if (is_over) return {};
      waker_->wait();
    }
  }

  [[nodiscard]] bool is_running(const std::string& id) const {
    return ::access((directories_.registry + "/" + id + "/container.json").c_str(), F_OK) == 0;
  }

  const Directories& directories_;
  const LogsOptions& options_;
  Painter painter_;
  MergedLogs logs_;
  std::set<std::string> followed_;
  std::vector<std::string> watched_;
  std::optional<Waker> waker_;
};

}  // namespace

Result<int> run_logs(const Directories& directories, const LogsOptions& options) {
  return Logs(directories, options).run();
}

}  // namespace leash::cli
