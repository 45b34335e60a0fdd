#include "common/buffer.h"

#include <cstdlib>

namespace dlb {

BufferPool::BufferPool(std::size_t block_bytes, std::size_t max_blocks, std::size_t max_cached)
    : block_bytes_(block_bytes), max_blocks_(max_blocks), max_cached_(max_cached) {
  DLB_CHECK(block_bytes_ >= sizeof(FreeBlock) && block_bytes_ <= UINT32_MAX);
}

BufferPool::~BufferPool() {
  DLB_CHECK_MSG(in_use_ == 0, "a Buffer outlives its pool");
  trim();
}

Buffer BufferPool::acquire() {
  if (in_use_ >= max_blocks_) {
    ++refusals_;
    return {};
  }
  char* block = nullptr;
  if (free_ != nullptr) {
    block = reinterpret_cast<char*>(free_);
    free_ = free_->next;
    --cached_;
  } else {
    block = static_cast<char*>(std::malloc(block_bytes_));
    if (block == nullptr) {
      ++refusals_;
      return {};
    }
  }
  ++in_use_;
  return Buffer(this, block);
}

void BufferPool::give_back(char* block) {
  --in_use_;
  if (cached_ >= max_cached_) {
    std::free(block);
    return;
  }
  auto* free_block = reinterpret_cast<FreeBlock*>(block);
  free_block->next = free_;
  free_ = free_block;
  ++cached_;
}

void BufferPool::trim() {
  while (free_ != nullptr) {
    FreeBlock* block = free_;
    free_ = block->next;
    std::free(block);
  }
  cached_ = 0;
}

}  // namespace dlb
