// WorkerBlocks: one worker's blocks by what they are for. Sizes and bounds follow the options; when a reload
// changes a size, the blocks of the old one are given back as their connections end. One thread.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "common/buffer.h"
#include "lb/backend_set.h"

namespace dlb::lb {

struct Options;

// Connections that a worker may have to hold at a time, and a few more.
std::size_t connection_capacity(const Options& options);

class WorkerBlocks {
 public:
  explicit WorkerBlocks(const Options& options);

  // From now on, as `options` say.
  void apply(const Options& options);
  // Frees what is not in use.
  void trim();

  // A block with room for `bytes`: 4 KiB, one I/O buffer, or twice the head limit. !valid() when memory is
  // out or more than the largest block is asked for.
  Buffer acquire(std::size_t bytes);
  // For the body of a response: feeds may have a size of their own.
  Buffer acquire_body(TransportClass transport) {
    return transport == TransportClass::Feed ? feed_->acquire() : io_->acquire();
  }
  BufferPool& io() { return *io_; }
  BufferPool& access() { return *access_; }

  // Pools of sizes that are no longer in force.
  std::size_t older() const { return older_.size(); }

 private:
  void make(std::unique_ptr<BufferPool>& pool, std::size_t block_bytes, std::size_t max_blocks,
            std::size_t max_cached);

  std::unique_ptr<BufferPool> small_, io_, feed_, head_, access_;
  std::vector<std::unique_ptr<BufferPool>> older_;
};

}  // namespace dlb::lb
