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
  CHECK_FALSE(ended.entered_stopped);  // closing the listener may bring requests to light
  const auto stopped = drain.advance(at(seconds(3)), 0);
  CHECK(stopped.entered_stopped);
  CHECK(stopped.cut == 0);
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

TEST_CASE("the listener waits for recent probers that have not been told, by their own cadence") {
  DrainState drain({milliseconds(200), seconds(5)});
  for (const int ms : {-4500, -2500, -500})
    drain.note_probe(7, at(milliseconds(ms)));                                   // each 2 s: until 4.5 s
  for (const int ms : {-1400, -400}) drain.note_probe(8, at(milliseconds(ms)));  // each 1 s: until 2.1 s
  drain.note_probe(9, at(seconds(-20)));                                         // gone long since
  drain.on_signal(at(milliseconds(0)), 0);
  CHECK(drain.untold(at(milliseconds(0))) == 2);
  CHECK_FALSE(drain.advance(at(milliseconds(300)), 0).entered_finishing);
  drain.note_probe(8, at(milliseconds(600)));
  CHECK_FALSE(drain.advance(at(milliseconds(600)), 0).entered_finishing);
  CHECK(drain.next_deadline() == at(milliseconds(4500)));
  SECTION("told: it closes when what was sent before has come") {
    drain.note_probe(7, at(milliseconds(1500)));
    CHECK_FALSE(drain.advance(at(milliseconds(1500)), 0).entered_finishing);
    drain.note_probe(7, at(milliseconds(1600)));  // told already
    CHECK(drain.next_deadline() == at(milliseconds(1500)) + DrainState::kAfterTelling);
    CHECK(drain.advance(at(milliseconds(1500)) + DrainState::kAfterTelling, 0).entered_finishing);
  }
  SECTION("never heard of again: it closes when nobody is expected any more") {
    CHECK_FALSE(drain.advance(at(milliseconds(4499)), 0).entered_finishing);
    CHECK(drain.advance(at(milliseconds(4500)), 0).entered_finishing);
  }
}

TEST_CASE(
    "whoever asked in a burst or once holds a drain up shortly, whoever asks seldom at most five seconds") {
  DrainState drain({milliseconds(0), seconds(5)});
  TimePoint end{};
  SECTION("burst") {
    for (int ms = -500; ms <= 0; ms += 50) drain.note_probe(1, at(milliseconds(ms)));
    end = at(milliseconds(200));
  }
  SECTION("once") {
    drain.note_probe(1, at(milliseconds(0)));
    end = at(seconds(3));
  }
  SECTION("seldom") {
    for (const int s : {-3600, 0}) drain.note_probe(1, at(seconds(s)));
    end = at(seconds(5));
  }
  SECTION("a question out of turn in a steady row does not shorten the wait") {
    for (const int ms : {-2050, -50, 0}) drain.note_probe(1, at(milliseconds(ms)));
    end = at(seconds(5));
  }
  drain.on_signal(at(milliseconds(0)), 0);
  CHECK(drain.next_deadline() == end);
}

TEST_CASE("being told early does not shorten the notice") {
  DrainState drain({seconds(3), seconds(5)});
  drain.note_probe(1, at(milliseconds(-100)));
  drain.on_signal(at(milliseconds(0)), 0);
  drain.note_probe(1, at(milliseconds(900)));
  CHECK_FALSE(drain.advance(at(milliseconds(900)), 0).entered_finishing);
  CHECK(drain.next_deadline() == at(seconds(3)));
}

TEST_CASE(
    "who is told late in the notice has its last requests served, who asks for the first time had none") {
  DrainState drain({seconds(1), seconds(5)});
  for (const int ms : {-2000, -1000, 0}) drain.note_probe(1, at(milliseconds(ms)));
  drain.on_signal(at(milliseconds(100)), 0);
  drain.note_probe(1, at(milliseconds(1000)));
  CHECK(drain.next_deadline() == at(milliseconds(1000)) + DrainState::kAfterTelling);
  drain.note_probe(2, at(milliseconds(1090)));
  CHECK(drain.next_deadline() == at(milliseconds(1000)) + DrainState::kAfterTelling);
}

TEST_CASE("a notice of zero goes on at once") {
  DrainState drain({seconds(0), seconds(5)});
  const auto step = drain.on_signal(at(milliseconds(0)), 0);
  CHECK(step.entered_notice);
  CHECK(step.entered_finishing);
  CHECK(drain.advance(at(milliseconds(0)), 0).entered_stopped);
}

TEST_CASE("what closing the listener brings to light is waited for") {
  DrainState drain({seconds(0), seconds(5)});
  CHECK_FALSE(drain.on_signal(at(milliseconds(0)), 0).entered_stopped);
  CHECK_FALSE(drain.advance(at(milliseconds(0)), 1).entered_stopped);
  CHECK(drain.advance(at(milliseconds(1)), 0).entered_stopped);
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
    const TimePoint last =
        begun + std::max<Duration>(notice, DrainState::kProberWindow) + DrainState::kAfterTelling + timeout;
    while (now < last) {
      now = std::min(last, now + milliseconds(1 + rng.below(400)));
      if (rng.below(2) == 0) drain.note_probe(rng.below(100), now);
      stopped += drain.advance(now, rng.below(3)).entered_stopped ? 1 : 0;
    }
    for (int i = 0; i < 2; ++i) stopped += drain.advance(last + seconds(60), 1).entered_stopped ? 1 : 0;
    REQUIRE(drain.phase() == Phase::Stopped);
    REQUIRE(stopped == 1);
  }
}

}  // namespace
}  // namespace dlb::backend
