#include "lb/handover.h"

#include <string>
#include <vector>

#include "lb/options.h"
#include "test/support/catch.h"

namespace dlb::lb {
namespace {

Options three() {
  Options options;
  for (const char* id : {"a", "b", "c"}) {
    BackendOption backend;
    backend.id = id;
    backend.url = std::string("http://") + id + ":1";
    options.backends.push_back(backend);
  }
  return options;
}

TEST_CASE("health and drain state go from one process to the next") {
  const auto before = make_backend_set(three());
  before->at(0).active_health = HealthState::Up;
  before->at(1).active_health = HealthState::Down;
  before->at(1).admin = AdminState::Drain;
  before->at(2).admin = AdminState::Maintenance;
  const auto after = make_backend_set(three());
  CHECK(take_over_backends(*after, three(), describe_backends(*before, three())) == 3);
  CHECK(after->at(0).healthy);
  CHECK(after->at(0).checked_at_ns == 0);  // it is checked before anybody is accepted
  CHECK_FALSE(after->at(1).healthy);
  CHECK(after->at(1).active_health == HealthState::Down);
  CHECK(after->at(1).admin == AdminState::Drain);
  CHECK(after->at(2).admin == AdminState::Maintenance);
}

TEST_CASE("what is not understood, or of another backend, is passed over") {
  Options other = three();
  other.backends[1].url = "http://elsewhere:1";
  const auto set = make_backend_set(other);
  const std::string text =
      "b http://b:1 drain up\n"
      "c http://c:1 drain 99\n"
      "c http://c:1 gone up\n"
      "c http://c:1\n\n \n"
      "a http://a:1 drain up and something new\n"
      "c http://c:1 drain do";
  CHECK(take_over_backends(*set, other, text) == 1);
  CHECK(set->at(0).admin == AdminState::Drain);
  CHECK(set->at(1).admin == AdminState::Ready);
  CHECK(set->at(2).admin == AdminState::Ready);
}

TEST_CASE("a weight that was set goes on for as long as the file says the same") {
  const auto before = make_backend_set(three());
  before->at(0).weight = 7;
  before->at(1).weight = 7;
  Options other = three();
  other.backends[1].weight = 3;
  const auto after = make_backend_set(other);
  CHECK(take_over_backends(*after, other, describe_backends(*before, three())) == 3);
  CHECK(after->at(0).weight == 7);
  CHECK(after->at(1).weight == 3);
  CHECK(after->at(2).weight == 1);
}

TEST_CASE("ejections and their number go on; numbers that make no sense are passed over") {
  const auto before = make_backend_set(three());
  before->at(1).ejected_until_ns = 123'456'789'000;
  before->at(1).ejection.times = 2;
  const auto after = make_backend_set(three());
  take_over_backends(*after, three(), describe_backends(*before, three()));
  CHECK(after->at(0).ejected_until_ns == 0);
  CHECK(after->at(1).ejected_until_ns == 123'456'789'000);
  CHECK(after->at(1).ejection.times == 2);
  const std::string odd =
      "c http://c:1 ready up weight=x file-weight=1 ejected=99999999999 ejected-until-ns=-5 weight=65536\n";
  CHECK(take_over_backends(*after, three(), odd) == 1);
  CHECK(after->at(2).weight == 1);
  CHECK(after->at(2).ejected_until_ns == 0);
  CHECK(after->at(2).ejection.times == 1000);
}

struct Told final : BackendEvents {
  void on_capacity_change(std::uint32_t backend) override { capacity.push_back(backend); }
  void on_backend_out(std::uint32_t backend) override { out.push_back(backend); }
  void on_memory_guard(bool) override {}
  std::vector<std::uint32_t> capacity, out;
};

TEST_CASE("what is set in the new process is followed by the old one") {
  const auto here = make_backend_set(three());
  const auto there = make_backend_set(three());
  Told told;
  there->at(1).admin = AdminState::Drain;
  CHECK(take_over_setting(*here, describe_setting(there->at(1)), told));
  CHECK(here->at(1).admin == AdminState::Drain);
  CHECK(told.out == std::vector<std::uint32_t>{1});
  there->at(1).admin = AdminState::Ready;
  there->at(1).weight = 0;
  CHECK(take_over_setting(*here, describe_setting(there->at(1)), told));
  CHECK(here->at(1).admin == AdminState::Ready);
  CHECK(here->at(1).weight == 0);
  CHECK(told.capacity == std::vector<std::uint32_t>{1});
  for (const char* line : {"", "z http://z:1 drain weight=1", "a http://a:1 gone weight=1", "a http://a:1 drain",
                           "a http://a:1 drain weight=65536"}) {
    CHECK_FALSE(take_over_setting(*here, line, told));
  }
  CHECK(here->at(0).admin == AdminState::Ready);
}

}  // namespace
}  // namespace dlb::lb
