// Flow: one exchange on its way to its line. Every connection and every request ends in exactly one
// line with exactly one state; the bytes of a connection's lines add up to what crossed.
#pragma once

#include <string>
#include <string_view>

#include "oci-spec/event.h"
#include "oci-spec/rules.h"
#include "proxy/asio.h"
#include "proxy/in_flight.h"
#include "proxy/log_writer.h"

namespace leash::proxy {

struct Flow {
  oci::FlowEvent event;       // also what a blocked.jsonl line is made of
  bool is_blocked = false;
  std::string_view layer;     // of reasons.h; where it was refused
  oci::InFlightSlot* slot = nullptr;
  Clock::time_point started;
  uint64_t first_up = 0;      // the connection's counters when it began
  uint64_t first_down = 0;

  // The policy's word on it: blocked, observed, or neither.
  void judge(const oci::Verdict& verdict, std::string_view at_layer);
  // Refused for a reason that even observe mode cannot let pass.
  void refuse(const oci::Policy& policy, std::string_view reason, std::string_view at_layer);
};

class FlowLog {
 public:
  // Borrowed things outlive this. `container` is the name that lines carry.
  FlowLog(LogWriter& writer, InFlightTable& table, std::string container);

  // False when the in-flight table is full: what cannot be recorded is not served.
  [[nodiscard]] bool begin(Flow& flow, uint64_t up, uint64_t down);
  // Shows the shim what the exchange is about, and how far it got.
  static void publish(Flow& flow);
  static void count(Flow& flow, uint64_t up, uint64_t down) {
    flow.slot->bytes_up = up - flow.first_up;
    flow.slot->bytes_down = down - flow.first_down;
  }
  // Writes the line and frees the slot.
  void end(Flow& flow, uint64_t up, uint64_t down);

  // Events that are no exchange of ours: DNS, refused packets.
  void write(oci::BlockedEvent event);
  void write(oci::FlowEvent event);
  [[nodiscard]] std::string next_id();
  [[nodiscard]] bool is_healthy() const { return writer_.healthy(); }

 private:
  LogWriter& writer_;
  InFlightTable& table_;
  std::string container_;
  std::string id_prefix_;  // differs between the proxies that a container has had
  uint64_t id_ = 0;
};

[[nodiscard]] int64_t now_us();

}  // namespace leash::proxy
