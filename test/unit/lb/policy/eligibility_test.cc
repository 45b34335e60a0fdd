#include "lb/policy/eligibility.h"

#include "test/support/catch.h"

namespace dlb::lb {
namespace {

constexpr double kThreshold = 75;

BackendView sound() {
  BackendView view;
  view.healthy = true;
  view.accepting = true;
  view.score = 10;
  return view;
}

// The table above eligible(), row by row: each row's axis fails, all axes after it fail too, those before it
// pass.
TEST_CASE("the first failing axis of the truth table decides") {
  struct Row {
    void (*fail)(BackendView&);
    Eligibility verdict;
  };
  const Row rows[] = {
      {[](BackendView& v) { v.draining = true; }, Eligibility::Draining},
      {[](BackendView& v) { v.weight = 0; }, Eligibility::NoWeight},
      {[](BackendView& v) { v.healthy = false; }, Eligibility::Down},
      {[](BackendView& v) { v.ejected = true; }, Eligibility::Ejected},
      {[](BackendView& v) { v.memory_blocked = true; }, Eligibility::Memory},
      {[](BackendView& v) { v.slot_free = false; }, Eligibility::NoSlot},
      {[](BackendView& v) { v.connection_free = false; }, Eligibility::NoConnection},
      {[](BackendView& v) { v.score = 80; }, Eligibility::OverThreshold},
      {[](BackendView& v) { v.resting = true; }, Eligibility::Resting},
  };
  constexpr std::size_t kRows = std::size(rows);
  for (unsigned failing = 0; failing < (1U << kRows); ++failing) {
    BackendView view = sound();
    Eligibility expected = Eligibility::Eligible;
    for (std::size_t i = kRows; i-- > 0;) {
      if ((failing & (1U << i)) == 0) continue;
      rows[i].fail(view);
      expected = rows[i].verdict;
    }
    CAPTURE(failing);
    CHECK(eligible(view, kThreshold) == expected);
  }
}

TEST_CASE("a score equal to the threshold is not under it") {
  BackendView view = sound();
  view.score = 75;
  CHECK(eligible(view, 75) == Eligibility::OverThreshold);
  view.score = 74.999;
  CHECK(eligible(view, 75) == Eligibility::Eligible);
  view.score = 200;
  CHECK(eligible(view, kNoThreshold) == Eligibility::Eligible);
}

TEST_CASE("exclusion and acceptance of connections are no axes of eligibility") {
  BackendView view = sound();
  view.excluded = true;
  view.accepting = false;
  CHECK(eligible(view, kThreshold) == Eligibility::Eligible);
}

}  // namespace
}  // namespace dlb::lb
