#include "lb/waiting_line.h"

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "lb/options.h"
#include "test/support/catch.h"

namespace dlb::lb {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint at(Duration since_start) { return TimePoint(1'000'000s + since_start); }

struct Scene final : WaitingLine::Observer {
  struct One final : Waiter {
    explicit One(Scene& owner, TransportClass kind = TransportClass::Message)
        : scene(owner), transport(kind) {}
    TransportClass transport_class() const override { return transport; }
    std::span<const std::uint32_t> tried() const override { return failed; }
    void on_slot(const Choice& choice) override {
      CHECK_FALSE(waiting());
      got.push_back(choice.backend);
      scene.served.push_back(this);
    }
    void on_retry_granted() override { scene.retried.push_back(this); }

    Scene& scene;
    TransportClass transport;
    std::vector<std::uint32_t> failed, got;
  };

  // `backends` of one slot each, all taken.
  explicit Scene(std::size_t backends) {
    options.stats_path = "";
    options.backend_cap = 1;
    for (std::size_t i = 0; i < backends; ++i) {
      options.backends.emplace_back().id = "b" + std::to_string(i);
    }
    set = make_backend_set(options);
    for (const auto& backend : *set) backend->healthy = backend->accepting = true;
    router = std::make_unique<Router>(options, *set, 1);
    line = std::make_unique<WaitingLine>(*router, places, *this, backends);
    for (std::size_t i = 0; i < backends; ++i)
      CHECK(router->pick(TransportClass::Message, at(0s)).status == PickStatus::Picked);
  }
  ~Scene() {
    for (One& one : waiters) line->leave(one);
    CHECK(places.taken() == 0);
  }
  void on_line_changed() override { changes.push_back(line->waiting_for_slot()); }
  One& join(TransportClass kind = TransportClass::Message, Duration since = 0s) {
    One& one = waiters.emplace_back(*this, kind);
    CHECK(line->join_for_slot(one, 100, at(since)));
    return one;
  }
  // The slot that was taken at the start, still reserved.
  void connection_released(std::uint32_t backend) {
    router->release_connection(backend, TransportClass::Message);
  }

  Options options;
  std::unique_ptr<BackendSet> set;
  std::unique_ptr<Router> router;
  SlotCounter places;
  std::unique_ptr<WaitingLine> line;
  std::deque<One> waiters;
  std::vector<One*> served, retried;
  std::vector<std::size_t> changes;
};

TEST_CASE("waiting line: a freed slot goes to the one that has waited longest") {
  Scene scene(1);
  Scene::One& first = scene.join();
  scene.join();
  scene.line->serve(at(1s));
  CHECK(scene.served.empty());  // nothing is free

  scene.connection_released(0);
  CHECK(scene.line->serve_with(0, at(1s)));
  CHECK(scene.served == std::vector<Scene::One*>{&first});
  CHECK(scene.set->at(0).slots.taken() == 1);  // it was handed over, not given back and taken
  CHECK(scene.line->waiting_for_slot() == 1);
  CHECK(scene.changes == std::vector<std::size_t>{1, 2, 1});
}

TEST_CASE("waiting line: over the bound nobody joins, and whoever leaves makes room") {
  Scene scene(1);
  Scene::One a(scene), b(scene);
  CHECK(scene.line->join_for_slot(a, 1, at(0s)));
  CHECK_FALSE(scene.line->join_for_slot(b, 1, at(0s)));
  CHECK_FALSE(b.waiting());
  scene.line->leave(a);
  scene.line->leave(a);  // once is enough
  CHECK(scene.places.taken() == 0);
  CHECK(scene.line->join_for_slot(b, 1, at(0s)));
  scene.line->leave(b);
}

TEST_CASE("waiting line: a slot of the backend that has failed it passes to the next one") {
  Scene scene(2);
  Scene::One& burnt = scene.join();
  burnt.failed = {0};
  Scene::One& other = scene.join();

  scene.connection_released(0);
  CHECK(scene.line->serve_with(0, at(1s)));
  CHECK(scene.served == std::vector<Scene::One*>{&other});
  CHECK(burnt.waiting());

  scene.connection_released(1);
  CHECK(scene.line->serve_with(1, at(1s)));
  CHECK(burnt.got == std::vector<std::uint32_t>{1});
  CHECK_FALSE(scene.line->serve_with(1, at(1s)));  // nobody is left: the slot stays the caller's
}

TEST_CASE("waiting line: a feed without a connection does not hold up the messages behind it") {
  Scene scene(1);
  scene.options.proxy_max_feed_conns_per_host = 1;
  scene.router->apply(scene.options, *scene.set);
  REQUIRE(scene.set->at(0).feed_connections.try_reserve(1));
  Scene::One& feed = scene.join(TransportClass::Feed, 0s);
  Scene::One& message = scene.join(TransportClass::Message, 1s);

  scene.connection_released(0);
  CHECK(scene.line->serve_with(0, at(2s)));
  CHECK(scene.served == std::vector<Scene::One*>{&message});
  CHECK(feed.waiting());
}

TEST_CASE("waiting line: free slots are given to as many as there are") {
  Scene scene(3);
  for (int i = 0; i < 4; ++i) scene.join();
  for (const std::uint32_t backend : {0U, 2U}) {
    scene.connection_released(backend);
    scene.router->release_slot(backend);
  }
  scene.line->serve(at(1s));
  CHECK(scene.served == std::vector<Scene::One*>{&scene.waiters[0], &scene.waiters[1]});
  CHECK(scene.line->waiting_for_slot() == 2);
}

TEST_CASE("waiting line: a second attempt waits for its budget while another backend is sound") {
  Scene scene(2);
  for (std::uint64_t i = 0; i < RetryBudget::kMinimum; ++i) CHECK(scene.line->retry_budget().try_take(0));
  Scene::One& one = scene.waiters.emplace_back(scene);
  scene.line->note_failure(0, at(10s));
  CHECK(scene.line->join_for_retry(one, 0, *scene.set, 100, at(10s)));
  CHECK(scene.line->waiting_for_slot() == 0);  // another line
  scene.line->serve_retries(0);
  CHECK(scene.retried.empty());

  scene.line->retry_budget().give_back();
  scene.line->serve_retries(0);
  CHECK(scene.retried == std::vector<Scene::One*>{&one});
  CHECK_FALSE(one.waiting());
  CHECK(scene.line->retry_budget().taken() == RetryBudget::kMinimum);
}

TEST_CASE("waiting line: in a pool that fails everywhere no second attempt waits") {
  Scene scene(2);
  Scene::One one(scene);
  scene.line->note_failure(0, at(10s));
  scene.line->note_failure(1, at(10s));
  CHECK_FALSE(scene.line->join_for_retry(one, 0, *scene.set, 100, at(10s + 1s)));
  CHECK(scene.line->join_for_retry(one, 0, *scene.set, 100, at(11s + 1ms)));  // no failure for a second
  scene.line->leave(one);
  scene.set->at(1).healthy = false;
  CHECK_FALSE(scene.line->join_for_retry(one, 0, *scene.set, 100, at(20s)));
  scene.set->at(1).healthy = true;
  scene.set->at(1).ejected_until_ns = 1;
  CHECK_FALSE(scene.line->join_for_retry(one, 0, *scene.set, 100, at(20s)));
  // Another backend in its place starts without a past.
  scene.set->at(1).ejected_until_ns = 0;
  scene.line->note_failure(1, at(20s));
  scene.line->forget_failures(1);
  CHECK(scene.line->join_for_retry(one, 0, *scene.set, 100, at(20s)));
  scene.line->leave(one);
}

}  // namespace
}  // namespace dlb::lb
