#include "lb/worker_blocks.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "lb/access_log.h"
#include "lb/options.h"

namespace dlb::lb {
namespace {

constexpr std::size_t kSmallBlock = 4096;
// Room for what we add to a head behind the largest one that we take.
constexpr std::size_t kHeadAdditions = 1024;
constexpr std::size_t kCachedBlocks = 256;
constexpr std::size_t kCachedFeedBlocks = 16;
constexpr std::size_t kCachedHeadBlocks = 8;

}  // namespace

std::size_t connection_capacity(const Options& options) {
  return options.client_max_connections == 0
             ? std::numeric_limits<std::uint32_t>::max() / 2
             : static_cast<std::size_t>(options.client_max_connections + options.client_connection_burst) +
                   64;
}

WorkerBlocks::WorkerBlocks(const Options& options) { apply(options); }

// Blocks are bounded by the connections that may hold them: no pool runs dry before the connection cap is
// met.
void WorkerBlocks::apply(const Options& options) {
  const std::size_t connections = connection_capacity(options);
  const auto head = static_cast<std::size_t>(options.max_header_bytes.bytes);
  const auto body = static_cast<std::size_t>(options.proxy_buffer_bytes.bytes);
  const auto feed = static_cast<std::size_t>(options.proxy_feed_buffer_bytes.bytes);
  std::erase_if(older_, [](const auto& pool) { return pool->in_use() == 0; });
  make(small_, kSmallBlock, connections * 4, kCachedBlocks);
  make(io_, std::max(body, head) + kHeadAdditions, connections * 4, kCachedBlocks);
  make(feed_, feed > 0 ? feed : body, connections, kCachedFeedBlocks);
  make(head_, head * 2 + kHeadAdditions, connections * 2, kCachedHeadBlocks);
  make(access_, AccessNote::kBlockBytes, connections, kCachedBlocks);
}

void WorkerBlocks::make(std::unique_ptr<BufferPool>& pool, std::size_t block_bytes, std::size_t max_blocks,
                        std::size_t max_cached) {
  if (pool != nullptr && pool->block_bytes() == block_bytes) return pool->set_max_blocks(max_blocks);
  auto old = std::exchange(pool, std::make_unique<BufferPool>(block_bytes, max_blocks, max_cached));
  if (old == nullptr || old->in_use() == 0) return;
  old->set_max_cached(0);
  older_.push_back(std::move(old));
}

void WorkerBlocks::trim() {
  for (const auto* pool : {&small_, &io_, &feed_, &head_}) (*pool)->trim();
}

Buffer WorkerBlocks::acquire(std::size_t bytes) {
  for (const auto* pool : {&small_, &io_, &head_}) {
    if (bytes <= (*pool)->block_bytes()) return (*pool)->acquire();
  }
  return {};
}

}  // namespace dlb::lb
