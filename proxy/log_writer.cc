#include "proxy/log_writer.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace leash::proxy {

void LogWriter::open(Log log, Fd fd, uint64_t last_seq, uint64_t max_size) {
  File& target = file(log);
  target.seq = last_seq;
  target.max_size = max_size;
  replace(log, std::move(fd));
}

void LogWriter::replace(Log log, Fd fd) {
  File& target = file(log);
  struct stat status = {};
  target.size = ::fstat(fd.get(), &status) == 0 ? static_cast<uint64_t>(status.st_size) : 0;
  target.fd = std::move(fd);
  target.asked = false;
}

void LogWriter::write(oci::FlowEvent& event, oci::InFlightSlot* slot) {
  event.seq = ++file(Log::kFlows).seq;
  line_.clear();
  oci::print(event, line_);
  append(Log::kFlows, slot);
}

void LogWriter::write(oci::BlockedEvent& event, oci::InFlightSlot* slot) {
  event.seq = ++file(Log::kBlocked).seq;
  line_.clear();
  oci::print(event, line_);
  append(Log::kBlocked, slot);
}

void LogWriter::append(Log log, oci::InFlightSlot* slot) {
  File& target = file(log);
  // Before the write: a proxy killed between the two leaves a slot from which the shim can tell, by
  // looking for this number at the end of the file, whether the line made it.
  if (slot != nullptr) {
    slot->log = log == Log::kFlows ? 0 : 1;
    slot->seq = target.seq;
  }
  if (!target.waiting.empty() || !put(target, line_, slot)) {
    target.waiting.push_back({line_, slot});
    if (on_trouble_) on_trouble_();
    return;
  }
  if (target.max_size != 0 && target.size >= target.max_size && !target.asked && on_full_) {
    target.asked = true;
    on_full_(log);
  }
}

bool LogWriter::put(File& target, std::string_view text, oci::InFlightSlot* slot) {
  ssize_t written = 0;
  do {
    written = ::write(target.fd.get(), text.data(), text.size());
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(text.size())) {
    target.size += text.size();
    table_.release(slot);
    return true;
  }
  // A part of a line is no line. Nobody else writes to the file, so its old end is where it was.
  if (written > 0) {
    const int cut = ::ftruncate(target.fd.get(), static_cast<off_t>(target.size));
    if (cut != 0) target.size += static_cast<uint64_t>(written);
  }
  return false;
}

bool LogWriter::retry() {
  for (File& target : files_) {
    while (!target.waiting.empty()) {
      const Line& line = target.waiting.front();
      if (!put(target, line.text, line.slot)) break;
      target.waiting.pop_front();
    }
  }
  return healthy();
}

}  // namespace leash::proxy
