// Buffer: bytes read and not yet used, in one run of memory. Blocks of 16 KiB come from a free list
// and go back when the buffer is empty, so that an idle connection holds none; only a large message
// head makes a buffer grow beyond a block.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace leash::proxy {

// The size of a TLS record, and of every read.
inline constexpr size_t kBlockBytes = size_t{16} << 10;

class BlockPool {
 public:
  [[nodiscard]] std::unique_ptr<char[]> take();
  void give(std::unique_ptr<char[]> block);

  // What buffers have grown beyond a block, all together. Bounded by those who read what the container
  // sends: thousands of connections with a large head each would else be hundreds of megabytes.
  [[nodiscard]] bool may_enlarge() const { return enlarged_ < kMaxEnlarged; }
  void enlarged(size_t bytes) { enlarged_ += bytes; }
  void dropped(size_t bytes) { enlarged_ -= bytes; }

 private:
  static constexpr size_t kMaxFree = 64;
  static constexpr size_t kMaxEnlarged = size_t{16} << 20;
  size_t enlarged_ = 0;
  std::vector<std::unique_ptr<char[]>> free_;
};

class Buffer {
 public:
  explicit Buffer(BlockPool& pool) : pool_(pool) {}
  ~Buffer() { drop(); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  [[nodiscard]] std::string_view view() const { return {memory_.get() + begin_, end_ - begin_}; }
  [[nodiscard]] std::span<char> bytes() { return {memory_.get() + begin_, end_ - begin_}; }
  [[nodiscard]] size_t size() const { return end_ - begin_; }
  [[nodiscard]] bool empty() const { return begin_ == end_; }
  // room() would have to grow it, and there is too much of that already.
  [[nodiscard]] bool is_stuck() const { return capacity_ != 0 && size() == capacity_ && !pool_.may_enlarge(); }

  // Room for at least one byte; moves or enlarges what is there if needed, so views become invalid.
  [[nodiscard]] std::span<char> room();
  void filled(size_t length) { end_ += length; }
  // The first `length` bytes are done with.
  void consume(size_t length) { begin_ += length; }
  // Gives the memory back if the buffer is empty.
  void release();

 private:
  void drop();

  BlockPool& pool_;
  std::unique_ptr<char[]> memory_;
  size_t capacity_ = 0;
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace leash::proxy
