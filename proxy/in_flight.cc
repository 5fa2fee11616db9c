#include "proxy/in_flight.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/sys.h"

namespace leash::proxy {

namespace {

constexpr size_t kTableBytes = sizeof(oci::InFlightSlot) * oci::kInFlightSlots;

void set_state(oci::InFlightSlot& slot, uint32_t state) {
  std::atomic_ref(slot.state).store(state, std::memory_order_release);
}

}  // namespace

InFlightTable::~InFlightTable() {
  if (slots_ != nullptr) ::munmap(slots_, kTableBytes);
}

Result<void> InFlightTable::map(Fd file) {
  TRY(const struct stat status, sys::fstat(file.get()));
  if (static_cast<size_t>(status.st_size) < kTableBytes) return Error(EINVAL, "in-flight table is too small");
  void* const memory = ::mmap(nullptr, kTableBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return Error::last_errno("map in-flight table");
  slots_ = static_cast<oci::InFlightSlot*>(memory);
  // All are free: the shim has seen to that. Looking would allocate every page of the file. Handed out
  // from the back of the vector, the lowest slots first, so that few pages are touched.
  free_.reserve(oci::kInFlightSlots);
  for (uint32_t i = oci::kInFlightSlots; i-- > 0;) free_.push_back(i);
  size_ = free_.size();
  return {};
}

oci::InFlightSlot* InFlightTable::take() {
  if (free_.empty()) return nullptr;
  oci::InFlightSlot& slot = slots_[free_.back()];
  free_.pop_back();
  struct timespec now = {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  slot.log = 0;
  slot.seq = 0;
  slot.started_us = int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
  slot.bytes_up = 0;
  slot.bytes_down = 0;
  slot.port = 0;
  slot.status = 0;
  slot.scheme[0] = slot.method[0] = slot.host[0] = slot.path[0] = '\0';
  set_state(slot, 1);
  return &slot;
}

void InFlightTable::release(oci::InFlightSlot* slot) {
  if (slot == nullptr) return;
  set_state(*slot, 0);
  free_.push_back(static_cast<uint32_t>(slot - slots_));
}

void copy_text(std::span<char> field, std::string_view text) {
  const size_t length = std::min(text.size(), field.size() - 1);
  std::memcpy(field.data(), text.data(), length);
  field[length] = '\0';
}

}  // namespace leash::proxy
