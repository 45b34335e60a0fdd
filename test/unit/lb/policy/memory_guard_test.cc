#include "lb/policy/memory_guard.h"

#include "common/rng.h"
#include "test/support/catch.h"

namespace dlb::lb {

TEST_CASE("memory guard: on at the limit, off only 5 points below") {
  MemoryGuard guard({.max_percent = 80, .max_socket_bytes = 0});
  CHECK_FALSE(guard.update({.unreclaimable_percent = 79.9}));
  CHECK(guard.update({.unreclaimable_percent = 80}));
  CHECK(guard.reason() == MemoryGuard::Reason::Memory);
  CHECK_FALSE(guard.update({.unreclaimable_percent = 76}));
  CHECK_FALSE(guard.update({.unreclaimable_percent = 75}));
  CHECK(guard.shedding());
  CHECK(guard.update({.unreclaimable_percent = 74.9}));
  CHECK_FALSE(guard.shedding());
}

TEST_CASE("memory guard: socket bytes count on their own, and small buffers come at half") {
  MemoryGuard guard({.max_percent = 80, .max_socket_bytes = 1000});
  guard.update({.unreclaimable_percent = 10, .socket_bytes = 500});
  CHECK_FALSE(guard.small_buffers());
  guard.update({.unreclaimable_percent = 10, .socket_bytes = 501});
  CHECK(guard.small_buffers());
  guard.update({.unreclaimable_percent = 10, .socket_bytes = 460});
  CHECK(guard.small_buffers());
  guard.update({.unreclaimable_percent = 10, .socket_bytes = 450});
  CHECK_FALSE(guard.small_buffers());
  CHECK(guard.update({.unreclaimable_percent = 10, .socket_bytes = 1000}));
  CHECK(guard.reason() == MemoryGuard::Reason::Sockets);
  CHECK_FALSE(guard.update({.unreclaimable_percent = 10, .socket_bytes = 951}));
  CHECK(guard.update({.unreclaimable_percent = 10, .socket_bytes = 949}));
}

TEST_CASE("memory guard: it ends only when both figures are below") {
  MemoryGuard guard({.max_percent = 80, .max_socket_bytes = 1000});
  CHECK(guard.update({.unreclaimable_percent = 90, .socket_bytes = 1200}));
  CHECK_FALSE(guard.update({.unreclaimable_percent = 50, .socket_bytes = 960}));
  CHECK_FALSE(guard.update({.unreclaimable_percent = 78, .socket_bytes = 0}));
  CHECK(guard.update({.unreclaimable_percent = 50, .socket_bytes = 0}));
}

TEST_CASE("memory guard: what is not known turns nothing on and keeps nothing on") {
  MemoryGuard guard({.max_percent = 80, .max_socket_bytes = 1000});
  CHECK_FALSE(guard.update({}));
  CHECK(guard.clear());
  CHECK(guard.update({.unreclaimable_percent = 99}));
  CHECK(guard.update({}));
  CHECK_FALSE(guard.shedding());
}

TEST_CASE("memory guard: while it sheds, memory is never called clear") {
  MemoryGuard guard({.max_percent = 80, .max_socket_bytes = 1000});
  Rng rng(3);
  for (int i = 0; i < 10'000; ++i) {
    guard.update({.unreclaimable_percent = static_cast<double>(rng.next() % 1000) / 10,
                  .socket_bytes = static_cast<std::int64_t>(rng.next() % 1300)});
    CHECK_FALSE((guard.shedding() && guard.clear()));
  }
}

}  // namespace dlb::lb
