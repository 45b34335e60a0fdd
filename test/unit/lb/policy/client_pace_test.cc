#include "lb/policy/client_pace.h"

#include "common/rng.h"
#include "test/support/catch.h"

namespace dlb::lb {
namespace {

using Owes = ClientPace::Owes;
using Verdict = ClientPace::Verdict;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kWindow = seconds(30);
constexpr std::uint64_t kRate = 1024;
const TimePoint kStart{seconds(1000)};

TEST_CASE("a client that owes for a whole window and moves too little is too slow") {
  ClientPace pace;
  pace.watch(Owes::Body, 0);
  pace.set_owes(Owes::Body, kStart);
  CHECK(pace.judge(kStart + seconds(29), 29, kRate, kWindow) == Verdict::Unripe);
  CHECK(pace.judge(kStart + kWindow, 30, kRate, kWindow) == Verdict::TooSlow);
}

TEST_CASE("each window is judged by its own bytes") {
  ClientPace pace;
  pace.watch(Owes::Reads, 100);
  pace.set_owes(Owes::Reads, kStart);
  std::int64_t moved = 100 + 30 * 1024;  // exactly the rate
  CHECK(pace.judge(kStart + kWindow, moved, kRate, kWindow) == Verdict::InTime);
  moved += 30 * 1024 - 1;
  CHECK(pace.judge(kStart + kWindow * 2, moved, kRate, kWindow) == Verdict::TooSlow);
}

TEST_CASE("time in which others owe does not count") {
  ClientPace pace;
  pace.watch(Owes::Reads, 0);
  TimePoint now = kStart;
  for (int round = 0; round < 29; ++round) {
    pace.set_owes(Owes::Reads, now);
    now += seconds(1);
    pace.set_owes(Owes::Nothing, now);
    now += seconds(60);
    CHECK(pace.judge(now, 0, kRate, kWindow) == Verdict::Unripe);
  }
  pace.set_owes(Owes::Reads, now);
  CHECK(pace.judge(now + milliseconds(999), 0, kRate, kWindow) == Verdict::Unripe);
  CHECK(pace.judge(now + seconds(1), 0, kRate, kWindow) == Verdict::TooSlow);
}

TEST_CASE("who owes nothing now is not cut for what it owed before") {
  ClientPace pace;
  pace.watch(Owes::Body, 0);
  pace.set_owes(Owes::Body, kStart);
  pace.set_owes(Owes::Nothing, kStart + seconds(100));
  CHECK(pace.judge(kStart + seconds(100), 0, kRate, kWindow) == Verdict::Unripe);
}

TEST_CASE("another debt begins another window") {
  ClientPace pace;
  pace.watch(Owes::Body, 0);
  pace.set_owes(Owes::Body, kStart);
  pace.set_owes(Owes::Nothing, kStart + seconds(29));
  pace.watch(Owes::Reads, 0);
  pace.set_owes(Owes::Reads, kStart + seconds(29));
  CHECK(pace.watched() == Owes::Reads);
  CHECK(pace.judge(kStart + seconds(58), 0, kRate, kWindow) == Verdict::Unripe);
  CHECK(pace.judge(kStart + seconds(59), 0, kRate, kWindow) == Verdict::TooSlow);
}

TEST_CASE("bytes below 0 at the start of a window are bytes of answers before") {
  ClientPace pace;
  pace.watch(Owes::Reads, -50'000);
  pace.set_owes(Owes::Reads, kStart);
  CHECK(pace.judge(kStart + kWindow, -50'000 + 30 * 1024, kRate, kWindow) == Verdict::InTime);
  CHECK(pace.judge(kStart + kWindow * 2, 0, kRate, kWindow) == Verdict::TooSlow);
}

TEST_CASE("a client that is at the rate whenever it owes is never cut, one at half of it always") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    Rng rng(seed);
    ClientPace good, bad;
    for (ClientPace* one : {&good, &bad}) one->watch(Owes::Reads, 0);
    TimePoint now = kStart;
    std::int64_t owed_ms = 0;
    bool cut = false;
    for (int step = 0; step < 2000 && !cut; ++step) {
      const auto owing = static_cast<std::int64_t>(rng.below(2000)) + 1;
      for (ClientPace* one : {&good, &bad}) one->set_owes(Owes::Reads, now);
      now += milliseconds(owing);
      owed_ms += owing;
      const std::int64_t moved = owed_ms * 1024 / 1000 + 2;
      REQUIRE(good.judge(now, moved, kRate, kWindow) != Verdict::TooSlow);
      cut = bad.judge(now, moved / 2, kRate, kWindow) == Verdict::TooSlow;
      for (ClientPace* one : {&good, &bad}) one->set_owes(Owes::Nothing, now);
      now += milliseconds(rng.below(100'000));
    }
    CHECK(cut);
    CHECK(owed_ms >= 30'000);
    CHECK(owed_ms <= 32'000);  // the step in which the window became full
  }
}

}  // namespace
}  // namespace dlb::lb
