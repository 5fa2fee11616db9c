// The in-flight table: one slot of shared memory per exchange that is under way, so that the shim can
// write the line of every exchange that a killed proxy left behind (oci-spec/proxy_protocol.h). A slot
// is taken before anything is forwarded and freed after its line is in the log.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "oci-spec/proxy_protocol.h"

namespace leash::proxy {

class InFlightTable {
 public:
  InFlightTable() = default;
  ~InFlightTable();
  InFlightTable(const InFlightTable&) = delete;
  InFlightTable& operator=(const InFlightTable&) = delete;

  // Maps the shim's file. The shim has written the lines of what a former proxy left under way.
  [[nodiscard]] Result<void> map(Fd file);

  // nullptr when all are taken: the connection is then refused, since it could end without a line.
  [[nodiscard]] oci::InFlightSlot* take();
  void release(oci::InFlightSlot* slot);
  [[nodiscard]] size_t in_use() const { return size_ - free_.size(); }

 private:
  oci::InFlightSlot* slots_ = nullptr;
  size_t size_ = 0;
  std::vector<uint32_t> free_;
};

// Copies `text` into one of a slot's character arrays, cut to fit.
void copy_text(std::span<char> field, std::string_view text);

}  // namespace leash::proxy
