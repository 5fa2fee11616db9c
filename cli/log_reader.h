// The logs of containers as one stream in the order of time: rotated files first, then the current one,
// and, when following, what is appended to it.
//
// Files are read in pieces and merged line by line, so that logs of any size take little memory. A
// line is a line once its LF is there. The writer is the proxy, which the container may have taken over:
// what does not parse is counted and left out.
#pragma once

#include <sys/types.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "cli/log_view.h"

namespace leash::cli {

// One of the two logs of one container.
class LogStream {
 public:
  LogStream(std::string directory, LogKind kind, std::string container);

  // The next line without taking it; null if there is none (yet).
  [[nodiscard]] Result<const LogLine*> peek();
  void take() { head_.reset(); }

  [[nodiscard]] const std::string& container() const { return container_; }
  [[nodiscard]] size_t unreadable() const { return unreadable_; }

 private:
  [[nodiscard]] Result<bool> open_next();
  [[nodiscard]] Result<bool> fill();
  [[nodiscard]] std::string path() const;

  std::string directory_;
  LogKind kind_;
  std::string container_;
  std::deque<Fd> older_;  // rotated files that are still to be read, the oldest first
  Fd current_;
  bool is_started_ = false;
  std::string buffer_;
  size_t begin_ = 0;  // of the unread part of buffer_
  std::optional<LogLine> head_;
  size_t unreadable_ = 0;
};

class MergedLogs {
 public:
  void add(const std::string& directory, const std::string& container, bool with_flows, bool with_blocked);

  struct Entry {
    LogLine line;
    std::string container;
  };
  // The earliest of the lines that are there; nullopt: none now.
  [[nodiscard]] Result<std::optional<Entry>> next();
  [[nodiscard]] size_t unreadable() const;

 private:
  std::vector<LogStream> streams_;
};

}  // namespace leash::cli
