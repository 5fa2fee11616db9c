#include "shim/log_files.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <vector>

#include "base/file.h"
#include "base/sys.h"
#include "oci-spec/event.h"
#include "oci-spec/proxy_protocol.h"
#include "oci-spec/reasons.h"
#include "shim/journal.h"
#include "shim/log_tail.h"

namespace leash::shim {

namespace {

using oci::InFlightSlot;

constexpr size_t kTableSize = sizeof(InFlightSlot) * oci::kInFlightSlots;
constexpr int kKept = 4;

Result<Fd> open_log(const std::string& path) { return sys::open(path, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW, 0600); }

int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// The proxy wrote it and may have been taken over: no terminator is to be relied on. Bytes that are no
// text are the printer's to escape.
template <size_t N>
std::string text_of(const char (&field)[N]) {
  return {field, ::strnlen(field, N)};
}

oci::FlowEvent event_of(const InFlightSlot& slot, size_t index, const std::string& container) {
  oci::FlowEvent event;
  const int64_t now = now_us();
  event.time_us = slot.started_us > 0 && slot.started_us <= now ? slot.started_us : now;
  event.id = "terminated-" + std::to_string(event.time_us) + "-" + std::to_string(index);
  event.container = container;
  event.scheme = text_of(slot.scheme);
  // A tunnel was not looked into; what was decrypted has a method.
  event.state = event.scheme == "https" || event.scheme == "http" ? oci::FlowState::kInspected : oci::FlowState::kPassed;
  event.host = text_of(slot.host);
  event.port = slot.port;
  event.method = text_of(slot.method);
  event.path = text_of(slot.path);
  event.status = slot.status;
  event.bytes_up = slot.bytes_up;
  event.bytes_down = slot.bytes_down;
  event.duration_ms = static_cast<double>(now - event.time_us) / 1000.0;
  event.error = oci::reason::kProxyTerminated;
  return event;
}

// The slots that were ever used. Reading a hole of a mapped tmpfs file would allocate its page, 4 MiB for
// each container that has done nothing yet.
std::vector<size_t> touched_slots(int fd) {
  std::vector<size_t> slots;
  off_t position = 0;
  while (position < static_cast<off_t>(kTableSize)) {
    const off_t data = ::lseek(fd, position, SEEK_DATA);
    if (data < 0) break;  // ENXIO: only a hole is left
    const off_t hole = std::min(::lseek(fd, data, SEEK_HOLE), static_cast<off_t>(kTableSize));
    if (hole <= data) break;
    const size_t first = static_cast<size_t>(data) / sizeof(InFlightSlot);
    const size_t end = (static_cast<size_t>(hole) + sizeof(InFlightSlot) - 1) / sizeof(InFlightSlot);
    for (size_t i = first; i < end; ++i) slots.push_back(i);
    position = hole;
  }
  return slots;
}

}  // namespace

LogFiles::LogFiles(LogFiles&& other) noexcept { *this = std::move(other); }

LogFiles& LogFiles::operator=(LogFiles&& other) noexcept {
  if (this == &other) return *this;
  if (table_ != nullptr) ::munmap(table_, kTableSize);
  directory_ = std::move(other.directory_);
  container_name_ = std::move(other.container_name_);
  flows_ = std::move(other.flows_);
  blocked_ = std::move(other.blocked_);
  in_flight_ = std::move(other.in_flight_);
  table_ = std::exchange(other.table_, nullptr);
  return *this;
}

LogFiles::~LogFiles() {
  if (table_ != nullptr) ::munmap(table_, kTableSize);
}

Result<LogFiles> LogFiles::open(const std::string& directory, const std::string& in_flight_path,
                                const std::string& container_name) {
  LogFiles files;
  files.directory_ = directory;
  files.container_name_ = container_name;
  // Twice: an earlier shim of the same id may be about to take the empty directory away.
  for (int attempt = 0; !files.flows_; ++attempt) {
    TRY_VOID(file::make_directories(directory, 0700));
    auto opened = open_log(directory + "/flows.jsonl");
    if (!opened && (opened.error().code() != ENOENT || attempt == 1)) return std::move(opened).error();
    if (opened) files.flows_ = std::move(*opened);
  }
  TRY(files.blocked_, open_log(directory + "/blocked.jsonl"));

  // A file on /run and not a memfd: it outlives a shim that is killed together with its proxy, so that
  // whoever cleans up can still write the lines.
  TRY(files.in_flight_, sys::open(in_flight_path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
  if (::ftruncate(files.in_flight_.get(), static_cast<off_t>(kTableSize)) < 0) {
    return Error::last_errno("size '" + in_flight_path + "'");
  }
  void* table = ::mmap(nullptr, kTableSize, PROT_READ | PROT_WRITE, MAP_SHARED, files.in_flight_.get(), 0);
  if (table == MAP_FAILED) return Error::last_errno("map '" + in_flight_path + "'");
  files.table_ = table;
  return files;
}

Result<void> LogFiles::take_diagnostics() const {
  TRY(const Fd log, sys::open(directory_ + "/shim.log", O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW, 0600));
  if (::dup2(log.get(), STDERR_FILENO) < 0) return Error::last_errno("dup2 shim.log");
  return {};
}

Result<uint64_t> LogFiles::last_seq(int fd, const char* name) const {
  TRY(const uint64_t seq, repair_tail(fd).context(name));
  if (seq != 0) return seq;
  // Just rotated: the numbers go on from the file before.
  auto before = sys::open(directory_ + "/" + name + ".1", O_RDWR | O_NOFOLLOW);
  if (!before) return uint64_t{0};
  return repair_tail(before->get()).context(name);
}

Result<LogFiles::LastSeq> LogFiles::settle() {
  LastSeq last;
  TRY(last.flows, last_seq(flows_.get(), "flows.jsonl"));
  TRY(last.blocked, last_seq(blocked_.get(), "blocked.jsonl"));

  auto* slots = static_cast<InFlightSlot*>(table_);
  std::vector<size_t> open;
  for (const size_t i : touched_slots(in_flight_.get())) {
    if (std::atomic_ref<uint32_t>(slots[i].state).load(std::memory_order_acquire) == 0) continue;
    const uint64_t last_of_its_log = slots[i].log == 0 ? last.flows : last.blocked;
    if (slots[i].seq != 0 && slots[i].seq <= last_of_its_log) {
      // Its line is in the file: the proxy died between the write and the release of the slot.
      std::atomic_ref<uint32_t>(slots[i].state).store(0, std::memory_order_release);
    } else {
      open.push_back(i);
    }
  }
  std::sort(open.begin(), open.end(), [&](size_t a, size_t b) { return slots[a].started_us < slots[b].started_us; });
  for (const size_t i : open) {
    oci::FlowEvent event = event_of(slots[i], i, container_name_);
    event.seq = last.flows + 1;
    // The number first, then the line, then free: a kill in between must not write the line twice.
    slots[i].log = 0;
    slots[i].seq = event.seq;
    std::string line;
    oci::print(event, line);
    TRY_VOID(sys::write_all(flows_.get(), line).context("flows.jsonl"));
    last.flows = event.seq;
    std::atomic_ref<uint32_t>(slots[i].state).store(0, std::memory_order_release);
  }
  return last;
}

Result<void> LogFiles::rotate(const std::string& log) {
  if (log != "flows" && log != "blocked") return Error(EINVAL, "rotate '" + log + "': no such log");
  const std::string path = directory_ + "/" + log + ".jsonl";
  for (int i = kKept; i > 1; --i) {
    const std::string older = path + "." + std::to_string(i);
    const std::string newer = path + "." + std::to_string(i - 1);
    if (::rename(newer.c_str(), older.c_str()) < 0 && errno != ENOENT) return Error::last_errno("rename '" + newer + "'");
  }
  if (::rename(path.c_str(), (path + ".1").c_str()) < 0) return Error::last_errno("rename '" + path + "'");
  TRY(Fd fresh, open_log(path));
  (log == "flows" ? flows_ : blocked_) = std::move(fresh);
  return {};
}

void LogFiles::remove_empty_files() const {
  for (const char* name : {"/flows.jsonl", "/blocked.jsonl", "/shim.log"}) {
    const std::string path = directory_ + name;
    struct stat status = {};
    if (::lstat(path.c_str(), &status) == 0 && status.st_size == 0) (void)::unlink(path.c_str());
  }
}

void LogFiles::remove_empty_directory() const { (void)::rmdir(directory_.c_str()); }

}  // namespace leash::shim
