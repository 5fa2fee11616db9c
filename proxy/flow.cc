#include "proxy/flow.h"

#include <algorithm>
#include <ctime>

#include "oci-spec/policy.h"

namespace leash::proxy {

namespace {

std::string base36(uint64_t number) {
  std::string text;
  do {
    text += "0123456789abcdefghijklmnopqrstuvwxyz"[number % 36];
    number /= 36;
  } while (number != 0);
  std::reverse(text.begin(), text.end());
  return text;
}

}  // namespace

int64_t now_us() {
  struct timespec now = {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
}

void Flow::judge(const oci::Verdict& verdict, std::string_view at_layer) {
  event.rule = verdict.rule;
  if (verdict.allowed && !verdict.observed) return;
  event.reason = verdict.reason;
  event.observed = verdict.observed;
  if (verdict.allowed) return;
  is_blocked = true;
  layer = at_layer;
  event.decision = "deny";
}

void Flow::refuse(const oci::Policy& policy, std::string_view reason, std::string_view at_layer) {
  event.reason = reason;
  if (policy.mode == oci::PolicyMode::kObserve) {
    // Never "blocked" here: it failed, as it would have without us or because we cannot carry it.
    event.observed = true;
    event.error = reason;
    return;
  }
  is_blocked = true;
  layer = at_layer;
  event.decision = "deny";
}

FlowLog::FlowLog(LogWriter& writer, InFlightTable& table, std::string container)
    : writer_(writer), table_(table), container_(std::move(container)),
      id_prefix_(base36(static_cast<uint64_t>(now_us() / 1000)) + "-") {}

std::string FlowLog::next_id() { return id_prefix_ + base36(++id_); }

bool FlowLog::begin(Flow& flow, uint64_t up, uint64_t down) {
  oci::InFlightSlot* const slot = table_.take();
  if (slot == nullptr) return false;
  flow = Flow();
  flow.slot = slot;
  flow.started = Clock::now();
  flow.first_up = up;
  flow.first_down = down;
  flow.event.time_us = slot->started_us;
  flow.event.id = next_id();
  return true;
}

void FlowLog::publish(Flow& flow) {
  oci::InFlightSlot& slot = *flow.slot;
  slot.port = flow.event.port;
  slot.status = static_cast<uint16_t>(flow.event.status);
  copy_text(slot.scheme, flow.event.scheme);
  copy_text(slot.method, flow.event.method);
  copy_text(slot.host, flow.event.host);
  copy_text(slot.path, flow.event.path);
}

void FlowLog::end(Flow& flow, uint64_t up, uint64_t down) {
  oci::FlowEvent& event = flow.event;
  event.container = container_;
  event.bytes_up = up - flow.first_up;
  event.bytes_down = down - flow.first_down;
  count(flow, up, down);
  event.duration_ms = std::chrono::duration<double, std::milli>(Clock::now() - flow.started).count();
  oci::InFlightSlot* const slot = flow.slot;
  flow.slot = nullptr;
  if (!flow.is_blocked) {
    writer_.write(event, slot);
    return;
  }
  oci::BlockedEvent blocked;
  blocked.time_us = event.time_us;
  blocked.id = std::move(event.id);
  blocked.container = event.container;
  blocked.decision = event.decision;
  blocked.reason = std::move(event.reason);
  blocked.layer = flow.layer;
  blocked.rule = std::move(event.rule);
  blocked.scheme = std::move(event.scheme);
  blocked.host = std::move(event.host);
  blocked.port = event.port;
  blocked.method = std::move(event.method);
  blocked.path = std::move(event.path);
  blocked.sni = std::move(event.sni);
  blocked.dst_ip = std::move(event.dst_ip);
  blocked.bytes_up = event.bytes_up;
  blocked.bytes_down = event.bytes_down;
  blocked.process = std::move(event.process);
  writer_.write(blocked, slot);
}

void FlowLog::write(oci::BlockedEvent event) {
  event.container = container_;
  event.id = next_id();
  if (event.time_us == 0) event.time_us = now_us();
  writer_.write(event);
}

void FlowLog::write(oci::FlowEvent event) {
  event.container = container_;
  event.id = next_id();
  if (event.time_us == 0) event.time_us = now_us();
  writer_.write(event);
}

}  // namespace leash::proxy
