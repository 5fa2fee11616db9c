#include "cli/log_reader.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/sys.h"
#include "oci-spec/event.h"

namespace leash::cli {

namespace {

constexpr size_t kPiece = size_t{64} << 10;
constexpr int kRotatedFiles = 4;  // shim/log_files.h

}  // namespace

LogStream::LogStream(std::string directory, LogKind kind, std::string container)
    : directory_(std::move(directory)), kind_(kind), container_(std::move(container)) {}

std::string LogStream::path() const {
  return directory_ + (kind_ == LogKind::kFlows ? "/flows.jsonl" : "/blocked.jsonl");
}

// Opens what comes after the file that was read to its end; false if nothing does.
Result<bool> LogStream::open_next() {
  const auto open_if_there = [](const std::string& name) -> Result<Fd> {
    auto fd = sys::open(name, O_RDONLY | O_NOFOLLOW);
    if (!fd && fd.error().code() == ENOENT) return Fd();
    return fd;
  };
  if (!is_started_) {
    is_started_ = true;
    for (int number = kRotatedFiles; number >= 1; --number) {
      TRY(Fd fd, open_if_there(path() + "." + std::to_string(number)));
      if (fd.valid()) older_.push_back(std::move(fd));
    }
    TRY(Fd fd, open_if_there(path()));
    if (fd.valid()) older_.push_back(std::move(fd));
  }
  if (older_.empty()) {
    // Rotated while we read, or made since. Between two looks it may have been rotated more than once:
    // walk back from the newest to the one that we hold.
    TRY(Fd fd, open_if_there(path()));
    if (!fd.valid()) return false;
    TRY(const struct stat newest, sys::fstat(fd.get()));
    struct stat ours = {};
    if (current_.valid()) {
      TRY(ours, sys::fstat(current_.get()));
      if (newest.st_ino == ours.st_ino && newest.st_dev == ours.st_dev) return false;
    }
    older_.push_back(std::move(fd));
    for (int number = 1; current_.valid() && number <= kRotatedFiles; ++number) {
      TRY(Fd rotated, open_if_there(path() + "." + std::to_string(number)));
      if (!rotated.valid()) break;
      TRY(const struct stat st, sys::fstat(rotated.get()));
      if (st.st_ino == ours.st_ino && st.st_dev == ours.st_dev) break;
      older_.push_front(std::move(rotated));
    }
  }
  // A last look: the writer may have appended to the old file up to the rename.
  if (current_.valid() && begin_ == 0) {
    TRY(const bool is_more, fill());
    if (is_more) return true;
  }
  if (begin_ < buffer_.size()) ++unreadable_;  // a torn line that nobody will finish
  buffer_.clear();
  begin_ = 0;
  current_ = std::move(older_.front());
  older_.pop_front();
  return true;
}

// Reads on in the current file; false at its end.
Result<bool> LogStream::fill() {
  if (!current_.valid()) return false;
  const size_t size = buffer_.size();
  buffer_.resize(size + kPiece);
  const ssize_t length = ::read(current_.get(), buffer_.data() + size, kPiece);
  if (length < 0) {
    buffer_.resize(size);
    return Error::last_errno("read '" + path() + "'");
  }
  buffer_.resize(size + static_cast<size_t>(length));
  return length > 0;
}

Result<const LogLine*> LogStream::peek() {
  while (!head_) {
    const size_t end = buffer_.find('\n', begin_);
    if (end != std::string::npos) {
      auto line = parse_log_line(kind_, std::string_view(buffer_).substr(begin_, end - begin_));
      begin_ = end + 1;
      if (line) {
        head_ = std::move(*line);
      } else {
        ++unreadable_;
      }
      continue;
    }
    buffer_.erase(0, begin_);
    begin_ = 0;
    // Longer than any line of ours: skipped up to its end.
    if (buffer_.size() > oci::kMaxEventLine + kPiece) {
      ++unreadable_;
      buffer_.clear();
    }
    TRY(const bool is_filled, fill());
    if (is_filled) continue;
    TRY(const bool is_opened, open_next());
    if (!is_opened) return nullptr;
  }
  return &*head_;
}

void MergedLogs::add(const std::string& directory, const std::string& container, bool with_flows, bool with_blocked) {
  if (with_flows) streams_.emplace_back(directory, LogKind::kFlows, container);
  if (with_blocked) streams_.emplace_back(directory, LogKind::kBlocked, container);
}

Result<std::optional<MergedLogs::Entry>> MergedLogs::next() {
  LogStream* earliest = nullptr;
  const LogLine* line = nullptr;
  for (LogStream& stream : streams_) {
    TRY(const LogLine* head, stream.peek());
    if (head != nullptr && (line == nullptr || head->time_us < line->time_us)) {
      earliest = &stream;
      line = head;
    }
  }
  if (earliest == nullptr) return std::optional<Entry>();
  std::optional<Entry> entry(Entry{*line, earliest->container()});
  earliest->take();
  return entry;
}

size_t MergedLogs::unreadable() const {
  size_t count = 0;
  for (const LogStream& stream : streams_) count += stream.unreadable();
  return count;
}

}  // namespace leash::cli
