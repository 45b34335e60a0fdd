// WsQueue against a plain string: whatever is pushed, gathered and advanced, the bytes come out in order.
#include "common/ws_queue.h"

#include <array>

#include "common/rng.h"
#include "test/support/catch.h"

namespace dlb {
namespace {

std::string gathered(const WsQueue& queue, std::size_t most_parts) {
  std::vector<iovec> parts(most_parts);
  std::string out;
  const int count = queue.gather(parts);
  for (int i = 0; i < count; ++i) {
    const iovec& part = parts[static_cast<std::size_t>(i)];
    out.append(static_cast<const char*>(part.iov_base), part.iov_len);
  }
  return out;
}

TEST_CASE("bytes leave in the order of the frames, however they are taken", "[ws]") {
  Rng rng(3);
  WsQueue queue;
  std::string expected;
  std::uint64_t pushed = 0;
  for (int step = 0; step < 20000; ++step) {
    if (rng.below(2) == 0 && queue.frames() < 300) {
      const WsFramePtr frame =
          WsFrame::text(std::string(rng.below(50), static_cast<char>('a' + pushed % 26)));
      expected += frame->bytes();
      queue.push(frame, rng.below(2) == 0 ? WsQueue::Kind::Live : WsQueue::Kind::Answer);
      ++pushed;
    } else {
      const std::string front = gathered(queue, 1 + rng.below(8));
      REQUIRE(expected.starts_with(front));
      REQUIRE(front.empty() == queue.empty());
      const std::size_t taken = front.empty() ? 0 : rng.below(front.size() + 1);
      queue.advance(taken);
      expected.erase(0, taken);
    }
    REQUIRE(queue.empty() == expected.empty());
    REQUIRE(queue.cost() >= expected.size());
    REQUIRE((queue.cost() == 0) == queue.empty());
  }
}

TEST_CASE("the kinds are counted apart, each entry with its fixed cost", "[ws]") {
  WsQueue queue;
  const WsFramePtr frame = WsFrame::text("abcd");  // 6 bytes
  queue.push(frame, WsQueue::Kind::Live);
  queue.push(frame, WsQueue::Kind::Answer);
  queue.push(frame, WsQueue::Kind::Answer);
  CHECK(queue.live_cost() == 38);
  CHECK(queue.answer_cost() == 76);
  queue.advance(5);
  CHECK(queue.live_cost() == 38);
  queue.advance(1);
  CHECK(queue.live_cost() == 0);
  queue.advance(12);
  CHECK(queue.empty());
  CHECK(queue.cost() == 0);
  CHECK(frame.use_count() == 1);
}

TEST_CASE("dropping leaves what has begun, and what was presented to a record layer", "[ws]") {
  const auto filled = [] {
    WsQueue queue;
    for (const char* text : {"aaaa", "bbbb", "cccc"}) queue.push(WsFrame::text(text), WsQueue::Kind::Live);
    return queue;
  };
  WsQueue untouched = filled();
  untouched.drop_behind(0);
  CHECK(untouched.empty());
  CHECK(untouched.cost() == 0);

  WsQueue begun = filled();
  begun.advance(3);
  begun.drop_behind(0);
  CHECK(begun.frames() == 1);
  CHECK(gathered(begun, 8) == "aaa");

  WsQueue presented = filled();
  presented.advance(6);
  presented.drop_behind(7);
  CHECK(presented.frames() == 2);
  presented.drop_behind(6);
  CHECK(presented.frames() == 1);
  CHECK(presented.live_cost() == 38);
}

}  // namespace
}  // namespace dlb
