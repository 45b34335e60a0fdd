#include "lb/worker_blocks.h"

#include "lb/options.h"
#include "test/support/catch.h"

namespace dlb::lb {
namespace {

TEST_CASE("blocks in use keep their size when a reload changes it, new ones have the new one") {
  Options options;
  options.proxy_buffer_bytes = kib(64);
  WorkerBlocks blocks(options);
  Buffer old = blocks.io().acquire();
  const std::size_t large = old.capacity();
  options.proxy_buffer_bytes = kib(16);
  options.max_header_bytes = kib(8);
  blocks.apply(options);
  CHECK(blocks.io().acquire().capacity() < large);
  CHECK(old.capacity() == large);
  CHECK(blocks.older() == 1);
  blocks.apply(options);
  CHECK(blocks.older() == 1);
  old.reset();
  blocks.apply(options);
  CHECK(blocks.older() == 0);
}

TEST_CASE("a block is the smallest that has room") {
  const Options options;
  WorkerBlocks blocks(options);
  CHECK(blocks.acquire(1).capacity() == 4096);
  CHECK(blocks.acquire(4097).capacity() == blocks.io().block_bytes());
  CHECK(blocks.acquire(blocks.io().block_bytes() + 1).capacity() > blocks.io().block_bytes());
  CHECK_FALSE(blocks.acquire(std::size_t{1} << 20).valid());
}

}  // namespace
}  // namespace dlb::lb
