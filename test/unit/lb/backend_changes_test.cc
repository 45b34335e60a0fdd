#include "lb/backend_changes.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/rng.h"
#include "lb/options.h"
#include "lb/policy/policy.h"
#include "test/support/catch.h"

namespace dlb::lb {
namespace {

using Indexes = std::vector<std::uint32_t>;

Options with(const std::vector<std::pair<std::string, int>>& backends) {
  Options options;
  for (const auto& [id, port] : backends) {
    BackendOption one;
    one.id = id;
    one.url = "http://127.0.0.1:" + std::to_string(port);
    one.address = *Address::parse("127.0.0.1:" + std::to_string(port));
    options.backends.push_back(one);
  }
  return options;
}

// Configurations one after the other, as the reloader steps through them.
struct Steps {
  explicit Steps(Options first) : options(std::move(first)), set(*make_backend_set(options)) {
    for (const auto& backend : set) up(backend->index);
  }
  void up(std::uint32_t index) {
    set.at(index).checked_at_ns = 1;
    set.at(index).healthy = true;
  }
  BackendChanges reload(Options next) {
    BackendChanges changes = change_backends(set, options, next, seen_by_all);
    options = std::move(next);
    set = changes.set;
    return changes;
  }
  void retire(const BackendChanges& changes) { retire_backends(set, changes.leaving, ++serial); }
  std::string listed() const {
    std::string text;
    for (const std::uint32_t index : set.members()) text += set.at(index).id + std::to_string(index) + " ";
    return text;
  }

  Options options;
  BackendSet set;
  std::uint64_t serial = 1;
  std::uint64_t seen_by_all = 1;
};

TEST_CASE("the same backends stay the same objects with all that is known of them") {
  Steps steps(with({{"a", 1}, {"b", 2}}));
  Backend& a = steps.set.at(0);
  a.counters.requests = 7;
  a.connect_failures_in_row = 1;
  a.ejected_until_ns = 99;
  a.admin = AdminState::Drain;
  const BackendChanges same = steps.reload(with({{"a", 1}, {"b", 2}}));
  CHECK(same.added.empty());
  CHECK(same.leaving.empty());
  CHECK(&steps.set.at(0) == &a);
  CHECK(a.healthy);
  CHECK(a.counters.requests == 7);
  CHECK(a.connect_failures_in_row == 1);
  CHECK(a.ejected_until_ns == 99);
  CHECK(a.admin == AdminState::Drain);
}

TEST_CASE("members are listed as the file has them, indexes stay") {
  Steps steps(with({{"a", 1}, {"b", 2}}));
  const BackendChanges changes = steps.reload(with({{"n", 3}, {"b", 2}, {"a", 1}}));
  CHECK(steps.listed() == "n2 b1 a0 ");
  CHECK(changes.added == Indexes{2});
  CHECK_FALSE(steps.set.at(2).healthy);
}

TEST_CASE("a weight changes when the file's figure does, and stays as it was set by hand otherwise") {
  Steps steps(with({{"a", 1}, {"b", 2}}));
  steps.set.at(0).weight = 5;
  steps.set.at(1).weight = 5;
  Options next = with({{"a", 1}, {"b", 2}});
  next.backends[1].weight = 3;
  steps.reload(next);
  CHECK(steps.set.at(0).weight == 5);
  CHECK(steps.set.at(1).weight == 3);
}

TEST_CASE("one that leaves serves until it is retired, then it gets nothing") {
  Steps steps(with({{"a", 1}, {"b", 2}}));
  const BackendChanges changes = steps.reload(with({{"b", 2}}));
  CHECK(changes.leaving == Indexes{0});
  CHECK(steps.listed() == "b1 ");
  CHECK_FALSE(steps.set.at(0).taken_out());
  CHECK(steps.set.at(0).healthy);
  steps.retire(changes);
  CHECK(steps.set.at(0).taken_out());
  CHECK(backend_state(steps.set.at(0), {}) == "gone");
}

TEST_CASE("one that comes back while it leaves goes on; once gone it has to be checked again") {
  Steps steps(with({{"a", 1}, {"b", 2}}));
  steps.set.at(0).counters.requests = 7;
  steps.reload(with({{"b", 2}}));
  BackendChanges back = steps.reload(with({{"a", 1}, {"b", 2}}));
  CHECK(back.added.empty());
  CHECK(back.leaving.empty());
  CHECK(steps.set.at(0).healthy);

  steps.retire(steps.reload(with({{"b", 2}})));
  steps.seen_by_all = steps.serial;
  back = steps.reload(with({{"a", 1}, {"b", 2}}));
  CHECK(back.added == Indexes{0});
  CHECK(steps.listed() == "a0 b1 ");
  CHECK_FALSE(steps.set.at(0).healthy);
  CHECK(steps.set.at(0).checked_at_ns == 0);
  CHECK(steps.set.at(0).counters.requests == 7);
}

TEST_CASE("a place is given away only when it is idle and every worker knows that its backend is gone") {
  Steps steps(with({{"a", 1}, {"b", 2}}));
  steps.set.at(0).slots.try_reserve(0);
  steps.set.at(0).counters.requests = 7;
  steps.retire(steps.reload(with({{"b", 2}})));
  steps.seen_by_all = steps.serial;
  CHECK(steps.reload(with({{"b", 2}, {"c", 3}})).added == Indexes{2});  // a request still runs on a

  steps.set.at(0).slots.release();
  steps.seen_by_all = steps.serial - 1;
  CHECK(steps.reload(with({{"b", 2}, {"c", 3}, {"d", 4}})).added == Indexes{3});

  steps.seen_by_all = steps.serial;
  CHECK(steps.reload(with({{"b", 2}, {"c", 3}, {"d", 4}, {"e", 5}})).added == Indexes{0});
  CHECK(steps.listed() == "b1 c2 d3 e0 ");
  CHECK(steps.set.at(0).counters.requests == 0);
  CHECK(steps.set.departed().requests == 7);
}

TEST_CASE("an id at another address is another server with the counters and the admin state of the first") {
  Steps steps(with({{"a", 1}, {"b", 2}}));
  steps.set.at(0).counters.requests = 7;
  steps.set.at(0).admin = AdminState::Drain;
  const BackendChanges moved = steps.reload(with({{"a", 9}, {"b", 2}}));
  CHECK(moved.added == Indexes{2});
  CHECK(moved.leaving == Indexes{0});
  CHECK(steps.listed() == "a2 b1 ");
  Backend& fresh = steps.set.at(2);
  CHECK_FALSE(fresh.healthy);
  CHECK(fresh.counters.requests == 7);
  CHECK(fresh.admin == AdminState::Drain);
  ++steps.set.at(0).counters.requests;  // what still runs there counts for the id
  CHECK(fresh.counters.requests == 8);
  CHECK(fresh.counted);
  CHECK_FALSE(steps.set.at(0).counted);

  SECTION("and back again: the first one's place, whose counters are counted once") {
    steps.retire(moved);
    steps.seen_by_all = steps.serial;
    CHECK(steps.reload(with({{"a", 1}, {"b", 2}})).added == Indexes{0});
    CHECK(steps.set.at(0).counted);
    CHECK_FALSE(steps.set.at(2).counted);
  }
}

// Whatever the sequence: members are the file's in its order, no index is lost or shared, nothing that runs
// is thrown out, and the sum of what was ever counted is kept.
TEST_CASE("random reloads keep every request and every count") {
  Rng rng(20240607);
  const std::string names = "abcdefgh";
  Steps steps(with({{"a", 1}}));
  std::vector<std::shared_ptr<Backend>> running;
  std::uint64_t requests = 0;
  for (int step = 0; step < 2000; ++step) {
    std::vector<std::pair<std::string, int>> wanted;
    for (const char name : names) {
      if (rng.next() % 2 == 0)
        wanted.emplace_back(std::string(1, name), static_cast<int>(rng.next() % 2) + 1);
    }
    const std::size_t size = steps.set.size();
    const BackendChanges changes = steps.reload(with(wanted));
    REQUIRE(steps.set.size() >= size);
    REQUIRE(steps.set.members().size() == wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const Backend& member = steps.set.at(steps.set.members()[i]);
      REQUIRE(member.id == wanted[i].first);
      REQUIRE(member.address.port() == wanted[i].second);
      REQUIRE(member.membership == Membership::Member);
    }
    for (const auto& backend : running) REQUIRE(steps.set.shared_at(backend->index) == backend);
    if (rng.next() % 3 != 0) steps.retire(changes);
    if (rng.next() % 3 != 0) steps.seen_by_all = steps.serial;
    for (const auto& backend : steps.set) {
      REQUIRE(steps.set.shared_at(backend->index) == backend);
      if (backend->taken_out() || rng.next() % 2 == 0) continue;
      backend->slots.try_reserve(0);
      ++backend->counters.requests;
      ++requests;
      running.push_back(backend);
    }
    while (running.size() > rng.next() % 8) {
      running.back()->slots.release();
      running.pop_back();
    }
    std::uint64_t counted = steps.set.departed().requests;
    for (const auto& backend : steps.set) {
      if (backend->counted) counted += backend->counters.requests;
    }
    REQUIRE(counted == requests);
  }
  CHECK(steps.set.size() < 40);  // places are used again
}

}  // namespace
}  // namespace dlb::lb
