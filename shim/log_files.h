// The log directory of one container: flows.jsonl and blocked.jsonl, which leash-proxy alone writes
// while it lives, and shim.log. The shim opens and rotates them, and repairs and completes the first
// two after the proxy was killed: every exchange that was under way gets its line, and `seq` goes on
// without a hole or a duplicate.
//
// Rotation keeps flows.jsonl.1 (the newest) to flows.jsonl.4.
#pragma once

#include <cstdint>
#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace leash::shim {

class LogFiles {
 public:
  struct LastSeq {
    uint64_t flows = 0;
    uint64_t blocked = 0;
  };

  // Makes the directory (0700) and the files (0600, O_APPEND) and maps the in-flight table, a file that is
  // made at `in_flight_path` or found there.
  [[nodiscard]] static Result<LogFiles> open(const std::string& directory, const std::string& in_flight_path,
                                             const std::string& container_name);
  LogFiles() = default;
  LogFiles(LogFiles&& other) noexcept;
  LogFiles& operator=(LogFiles&& other) noexcept;
  ~LogFiles();

  // While no proxy is writing: cuts torn lines, writes the lines of the exchanges under way (error
  // "proxy_terminated") and empties the table.
  [[nodiscard]] Result<LastSeq> settle();

  // The next file in place of `log` ("flows" or "blocked").
  [[nodiscard]] Result<void> rotate(const std::string& log);

  // Puts shim.log on descriptor 2 (journal.h).
  [[nodiscard]] Result<void> take_diagnostics() const;

  // Removes what is empty; the directory in a second step, which takes a disk some time and harms nobody
  // who has begun to use it again.
  void remove_empty_files() const;
  void remove_empty_directory() const;

  [[nodiscard]] const std::string& directory() const { return directory_; }
  [[nodiscard]] int flows() const { return flows_.get(); }
  [[nodiscard]] int blocked() const { return blocked_.get(); }
  [[nodiscard]] int in_flight() const { return in_flight_.get(); }

 private:
  [[nodiscard]] Result<uint64_t> last_seq(int fd, const char* name) const;

  std::string directory_;
  std::string container_name_;
  Fd flows_;
  Fd blocked_;
  Fd in_flight_;
  void* table_ = nullptr;
};

}  // namespace leash::shim
