#include "proxy/buffer.h"

#include <cstring>
#include <utility>

namespace leash::proxy {

std::unique_ptr<char[]> BlockPool::take() {
  if (free_.empty()) return std::unique_ptr<char[]>(new char[kBlockBytes]);
  std::unique_ptr<char[]> block = std::move(free_.back());
  free_.pop_back();
  return block;
}

void BlockPool::give(std::unique_ptr<char[]> block) {
  if (free_.size() < kMaxFree) free_.push_back(std::move(block));
}

void Buffer::drop() {
  if (capacity_ == kBlockBytes) pool_.give(std::move(memory_));
  if (capacity_ > kBlockBytes) pool_.dropped(capacity_);
  memory_.reset();
  capacity_ = begin_ = end_ = 0;
}

void Buffer::release() {
  if (empty()) drop();
}

std::span<char> Buffer::room() {
  if (memory_ == nullptr) {
    memory_ = pool_.take();
    capacity_ = kBlockBytes;
  }
  if (begin_ == end_) begin_ = end_ = 0;
  if (end_ == capacity_ && begin_ > 0) {
    std::memmove(memory_.get(), memory_.get() + begin_, size());
    end_ -= std::exchange(begin_, 0);
  }
  if (end_ == capacity_) {
    const size_t length = size();
    std::unique_ptr<char[]> larger(new char[capacity_ * 2]);
    std::memcpy(larger.get(), memory_.get(), length);
    const size_t capacity = capacity_ * 2;
    drop();
    pool_.enlarged(capacity);
    memory_ = std::move(larger);
    capacity_ = capacity;
    end_ = length;
  }
  return {memory_.get() + end_, capacity_ - end_};
}

}  // namespace leash::proxy
