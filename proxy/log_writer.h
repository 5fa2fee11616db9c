// LogWriter: the only writer of flows.jsonl and blocked.jsonl. One line is one write(2) with O_APPEND,
// numbered without holes. What cannot be written (disk full) is kept, in order, and tried again; until
// it is written the proxy serves nobody new: no traffic without its line.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "oci-spec/event.h"
#include "oci-spec/proxy_protocol.h"
#include "proxy/in_flight.h"

namespace leash::proxy {

enum class Log { kFlows, kBlocked };

class LogWriter {
 public:
  explicit LogWriter(InFlightTable& table) : table_(table) {}

  // The file and the last seq that is in it.
  void open(Log log, Fd file, uint64_t last_seq, uint64_t max_size);
  // The fresh file after a rotation.
  void replace(Log log, Fd file);
  // Called once for each time a file has outgrown max_size.
  void on_full(std::function<void(Log)> ask_for_rotation) { on_full_ = std::move(ask_for_rotation); }

  // Called when a line could not be written: somebody must call retry() from time to time.
  void on_trouble(std::function<void()> trouble) { on_trouble_ = std::move(trouble); }

  // Writes one event as its line, numbered here. `slot`, if any, is released once the line is in the file.
  void write(oci::FlowEvent& event, oci::InFlightSlot* slot = nullptr);
  void write(oci::BlockedEvent& event, oci::InFlightSlot* slot = nullptr);

  // False while lines are waiting: nothing new may be served.
  [[nodiscard]] bool healthy() const { return files_[0].waiting.empty() && files_[1].waiting.empty(); }
  // Tries the waiting lines again; true when none is left.
  bool retry();

 private:
  struct Line {
    std::string text;
    oci::InFlightSlot* slot;
  };
  struct File {
    Fd fd;
    uint64_t seq = 0;
    uint64_t size = 0;
    uint64_t max_size = 0;
    bool asked = false;
    std::deque<Line> waiting;
  };

  File& file(Log log) { return files_[log == Log::kFlows ? 0 : 1]; }
  void append(Log log, oci::InFlightSlot* slot);
  bool put(File& file, std::string_view text, oci::InFlightSlot* slot);

  InFlightTable& table_;
  std::string line_;  // of the event at hand; kept for its capacity
  std::array<File, 2> files_;
  std::function<void(Log)> on_full_;
  std::function<void()> on_trouble_;
};

}  // namespace leash::proxy
