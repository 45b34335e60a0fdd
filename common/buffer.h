// Fixed blocks from a bounded pool, and Buffer: one block with a read and a write cursor.
//
//   |---- consumed ----|---- readable: data() ----|---- writable() ----|
//   0               begin_                       end_            block size
//
// A connection that has nothing to hold returns its block, so that idle connections hold none. At the pool's
// cap acquire() answers an empty Buffer: the caller stops reading (or refuses) until a block comes back. One
// thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "common/check.h"

namespace dlb {

class Buffer;

class BufferPool {
 public:
  // Blocks of `block_bytes`, at most `max_blocks` at a time, of which up to `max_cached` free ones are kept.
  BufferPool(std::size_t block_bytes, std::size_t max_blocks, std::size_t max_cached);
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  ~BufferPool();

  Buffer acquire();  // !valid() at the cap

  std::size_t block_bytes() const { return block_bytes_; }
  std::size_t in_use() const { return in_use_; }
  void set_max_blocks(std::size_t max_blocks) { max_blocks_ = max_blocks; }
  // Frees the cached blocks that are too many.
  void set_max_cached(std::size_t max_cached) {
    max_cached_ = max_cached;
    if (cached_ > max_cached) trim();
  }
  std::size_t cached() const { return cached_; }
  std::uint64_t refusals() const { return refusals_; }
  void trim();  // frees all cached blocks

 private:
  friend class Buffer;
  struct FreeBlock {
    FreeBlock* next;
  };
  void give_back(char* block);

  std::size_t block_bytes_;
  std::size_t max_blocks_;
  std::size_t max_cached_;
  FreeBlock* free_ = nullptr;
  std::size_t cached_ = 0;
  std::size_t in_use_ = 0;
  std::uint64_t refusals_ = 0;
};

class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) {
      reset();
      swap(other);
    }
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { reset(); }

  bool valid() const { return block_ != nullptr; }
  void reset() {
    if (block_ == nullptr) return;
    pool_->give_back(block_);
    pool_ = nullptr;
    block_ = nullptr;
    begin_ = end_ = 0;
  }

  std::size_t capacity() const { return block_ == nullptr ? 0 : pool_->block_bytes(); }
  std::size_t size() const { return end_ - begin_; }
  bool empty() const { return begin_ == end_; }
  char* begin() { return block_ + begin_; }
  std::string_view data() const { return {block_ + begin_, static_cast<std::size_t>(end_ - begin_)}; }
  std::span<char> writable() { return {block_ + end_, capacity() - end_}; }
  void commit(std::size_t bytes) {
    DLB_CHECK(bytes <= capacity() - end_);
    end_ += static_cast<std::uint32_t>(bytes);
  }
  void consume(std::size_t bytes) {
    DLB_CHECK(bytes <= size());
    begin_ += static_cast<std::uint32_t>(bytes);
    if (begin_ == end_) begin_ = end_ = 0;
  }
  void clear() { begin_ = end_ = 0; }
  // Forgets all readable bytes behind the first `size`.
  void truncate(std::size_t size_kept) {
    DLB_CHECK(size_kept <= size());
    end_ = begin_ + static_cast<std::uint32_t>(size_kept);
  }
  // Moves the readable bytes to the front so that writable() is as large as it can be. Views into data()
  // move.
  void compact() {
    if (begin_ == 0) return;
    std::memmove(block_, block_ + begin_, size());
    end_ -= begin_;
    begin_ = 0;
  }
  // Appends all of `bytes` or nothing.
  bool append(std::string_view bytes) {
    if (bytes.size() > capacity() - end_) return false;
    if (!bytes.empty()) std::memcpy(block_ + end_, bytes.data(), bytes.size());  // an empty view may be null
    end_ += static_cast<std::uint32_t>(bytes.size());
    return true;
  }

 private:
  friend class BufferPool;
  Buffer(BufferPool* pool, char* block) : pool_(pool), block_(block) {}
  void swap(Buffer& other) {
    std::swap(pool_, other.pool_);
    std::swap(block_, other.block_);
    std::swap(begin_, other.begin_);
    std::swap(end_, other.end_);
  }

  BufferPool* pool_ = nullptr;
  char* block_ = nullptr;
  std::uint32_t begin_ = 0;
  std::uint32_t end_ = 0;
};

}  // namespace dlb
