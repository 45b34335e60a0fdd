#include "lb/ejections.h"

#include <memory>
#include <string>

#include "test/support/catch.h"

namespace dlb::lb {
namespace {

using namespace std::chrono_literals;
using Action = OutlierDecision::Action;

constexpr TimePoint at(Duration since_start) { return TimePoint(1'000'000s + since_start); }

struct Pool {
  explicit Pool(std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      BackendOption backend;
      backend.id = "sys" + std::to_string(i + 2);
      options.backends.push_back(backend);
    }
    set = make_backend_set(options);
    for (const auto& backend : *set) backend->healthy = true;
    ejections = std::make_unique<Ejections>(options, *set, 1);
  }
  // A failure of `index` that was given out and failed at `when`; what came of it.
  Action fail(std::uint32_t index, Duration when) {
    if (!ejections->note_failure(set->at(index), at(when))) return Action::None;
    const OutlierDecision decision = ejections->failed(set->at(index), at(when));
    ejections->carry_out(index, decision, at(when));
    return decision.action;
  }
  bool ejected(std::uint32_t index, Duration when) const {
    return set->at(index).ejected_until_ns > at(when).time_since_epoch().count();
  }
  Options options;
  std::unique_ptr<BackendSet> set;
  std::unique_ptr<Ejections> ejections;
};

TEST_CASE("ejections: the fifth failure in a row is published in the backend") {
  Pool pool(3);
  for (int i = 0; i < 4; ++i) CHECK(pool.fail(0, 1s) == Action::None);
  CHECK_FALSE(pool.ejected(0, 1s));
  const std::uint64_t changes = pool.set->changes();
  CHECK(pool.fail(0, 1s) == Action::Eject);
  CHECK(pool.ejected(0, 1s));
  CHECK(pool.set->changes() != changes);
  CHECK(pool.set->at(0).ejection.times == 1);
  CHECK(pool.fail(0, 2s) == Action::None);  // given to it before its ejection is over: says nothing new
}

TEST_CASE("ejections: a success between failures starts the row anew, without asking anybody") {
  Pool pool(3);
  for (int i = 0; i < 20; ++i) {
    if (i % 4 == 3) CHECK_FALSE(Ejections::note_success(pool.set->at(0), at(1s)));
    CHECK(pool.fail(0, 1s) == Action::None);
  }
}

TEST_CASE("ejections: who is not known any more, or not yet, is not judged") {
  Pool pool(3);
  Backend stranger(0, "other", "http://b:1", {}, 1);
  for (int i = 0; i < 9; ++i) pool.ejections->note_failure(stranger, at(1s));
  CHECK(pool.ejections->failed(stranger, at(1s)).action == Action::None);
}

TEST_CASE("ejections: without max-ejected-percent nobody is, and all that are end") {
  Pool pool(3);
  for (int i = 0; i < 5; ++i) pool.fail(0, 1s);
  REQUIRE(pool.ejected(0, 1s));
  pool.options.max_ejected_percent = 0;
  pool.ejections->apply(pool.options, *pool.set, at(2s));
  CHECK_FALSE(pool.ejected(0, 2s));
  for (int i = 0; i < 9; ++i) CHECK(pool.fail(0, 3s) == Action::None);
}

TEST_CASE("ejections: a share of failures out of line ejects at the sample") {
  Pool pool(3);
  const auto sample = [&pool](Duration when) {
    int ejected = 0;
    pool.ejections->sample(at(when), [&](std::uint32_t index, const OutlierDecision& decision) {
      pool.ejections->carry_out(index, decision, at(when));
      ejected += decision.action == Action::Eject;
    });
    return ejected;
  };
  CHECK(sample(0s) == 0);
  for (std::uint32_t i = 0; i < 3; ++i) pool.set->at(i).counters.responses_2xx = i == 0 ? 40 : 100;
  pool.set->at(0).counters.responses_5xx = 60;
  CHECK(sample(1s) == 1);
  CHECK(pool.ejected(0, 1s));
}

}  // namespace
}  // namespace dlb::lb
