// B12 as a table of moments: when the listener may close, when the process may go, and how much is cut.
#include "backend/drain.h"

#include "common/rng.h"
#include "test/support/catch.h"

namespace dlb::backend {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Phase = DrainState::Phase;

constexpr TimePoint at(milliseconds ms) { return TimePoint{} + seconds(1000) + ms; }

TEST_CASE("an idle drain still waits out the notice, then stops with nothing cut") {
  DrainState drain({seconds(3), seconds(5)});
  CHECK(drain.next_deadline() == kNever);
  const auto begun = drain.on_signal(at(milliseconds(0)), 0);
  CHECK(begun.entered_notice);
  CHECK_FALSE(begun.entered_finishing);
  CHECK(drain.next_deadline() == at(seconds(3)));
  CHECK_FALSE(drain.advance(at(milliseconds(2999)), 0).entered_finishing);
  const auto ended = drain.advance(at(seconds(3)), 0);
  CHECK(ended.entered_finishing);
  CHECK(ended.entered_stopped);
  CHECK(ended.cut == 0);
  CHECK(drain.next_deadline() == kNever);
}

TEST_CASE("work that runs is waited for up to the drain timeout") {
  DrainState drain({seconds(3), seconds(5)});
  drain.on_signal(at(milliseconds(0)), 2);
  const auto finishing = drain.advance(at(seconds(3)), 2);
  CHECK(finishing.entered_finishing);
  CHECK_FALSE(finishing.entered_stopped);
  CHECK(drain.next_deadline() == at(seconds(8)));
  SECTION("it ends in time") {
    CHECK_FALSE(drain.advance(at(seconds(4)), 1).entered_stopped);
    const auto stopped = drain.advance(at(seconds(5)), 0);
    CHECK(stopped.entered_stopped);
    CHECK(stopped.cut == 0);
  }
  SECTION("it does not") {
    CHECK_FALSE(drain.advance(at(milliseconds(7999)), 2).entered_stopped);
    const auto stopped = drain.advance(at(seconds(8)), 2);
    CHECK(stopped.entered_stopped);
    CHECK(stopped.cut == 2);
  }
}

TEST_CASE("a second signal cuts at once, in the notice and after it") {
  DrainState drain({seconds(3), seconds(5)});
  drain.on_signal(at(milliseconds(0)), 4);
  SECTION("in the notice") {
    const auto cut = drain.on_signal(at(milliseconds(10)), 4);
    CHECK(cut.entered_stopped);
    CHECK(cut.cut == 4);
  }
  SECTION("while finishing") {
    drain.advance(at(seconds(3)), 4);
    const auto cut = drain.on_signal(at(seconds(4)), 3);
    CHECK(cut.entered_stopped);
    CHECK(cut.cut == 3);
  }
  CHECK(drain.phase() == Phase::Stopped);
  CHECK_FALSE(drain.on_signal(at(seconds(5)), 1).entered_stopped);
  CHECK_FALSE(drain.advance(at(seconds(9)), 1).entered_stopped);
}

TEST_CASE("the listener waits for a recent prober that has not been told") {
  DrainState drain({milliseconds(200), seconds(5)});
  drain.note_probe(7, at(milliseconds(-500)));
  drain.note_probe(8, at(milliseconds(-400)));
  drain.note_probe(9, at(seconds(-20)));  // gone long since
  drain.on_signal(at(milliseconds(0)), 0);
  CHECK(drain.untold(at(milliseconds(0))) == 2);
  CHECK_FALSE(drain.advance(at(milliseconds(300)), 0).entered_finishing);
  drain.note_probe(7, at(milliseconds(500)));
  CHECK_FALSE(drain.advance(at(milliseconds(500)), 0).entered_finishing);
  CHECK(drain.next_deadline() == at(milliseconds(4600)));
  SECTION("told: it closes at once") {
    drain.note_probe(8, at(milliseconds(600)));
    CHECK(drain.advance(at(milliseconds(600)), 0).entered_finishing);
  }
  SECTION("never heard of again: it closes when its window is over") {
    CHECK_FALSE(drain.advance(at(milliseconds(4599)), 0).entered_finishing);
    CHECK(drain.advance(at(milliseconds(4600)), 0).entered_finishing);
  }
}

TEST_CASE("being told early does not shorten the notice") {
  DrainState drain({seconds(3), seconds(5)});
  drain.note_probe(1, at(milliseconds(-100)));
  drain.on_signal(at(milliseconds(0)), 0);
  drain.note_probe(1, at(milliseconds(900)));
  CHECK_FALSE(drain.advance(at(milliseconds(900)), 0).entered_finishing);
  CHECK(drain.next_deadline() == at(seconds(3)));
}

TEST_CASE("a notice of zero goes on at once") {
  DrainState drain({seconds(0), seconds(5)});
  const auto step = drain.on_signal(at(milliseconds(0)), 0);
  CHECK(step.entered_notice);
  CHECK(step.entered_finishing);
  CHECK(step.entered_stopped);
}

TEST_CASE("probers are bounded and the one that asked longest ago is forgotten") {
  DrainState drain({seconds(0), seconds(5)});
  for (std::uint64_t id = 1; id <= DrainState::kMaxProbers + 1; ++id) {
    drain.note_probe(id, at(milliseconds(-1000 + static_cast<int>(id))));
  }
  CHECK(drain.untold(at(milliseconds(0))) == DrainState::kMaxProbers);
}

TEST_CASE("whatever comes in, a drain ends within notice, prober window and timeout, and stops once") {
  Rng rng(11);
  for (int round = 0; round < 2000; ++round) {
    const auto notice = milliseconds(rng.below(4000));
    const auto timeout = milliseconds(rng.below(6000));
    DrainState drain({notice, timeout});
    TimePoint now = at(milliseconds(0));
    for (int i = 0; i < 20; ++i) {
      drain.note_probe(rng.below(100), now);
      now += milliseconds(rng.below(500));
    }
    const TimePoint begun = now;
    int stopped = drain.on_signal(now, rng.below(3)).entered_stopped ? 1 : 0;
    const TimePoint last = begun + std::max<Duration>(notice, DrainState::kProberWindow) + timeout;
    while (now < last) {
      now = std::min(last, now + milliseconds(1 + rng.below(400)));
      if (rng.below(2) == 0) drain.note_probe(rng.below(100), now);
      stopped += drain.advance(now, rng.below(3)).entered_stopped ? 1 : 0;
    }
    stopped += drain.advance(last + seconds(60), 1).entered_stopped ? 1 : 0;
    REQUIRE(drain.phase() == Phase::Stopped);
    REQUIRE(stopped == 1);
  }
}

}  // namespace
}  // namespace dlb::backend
