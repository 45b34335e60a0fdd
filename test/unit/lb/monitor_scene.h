// What the tests of checks and polls share: a loop run by the test until a condition holds, backends at given
// addresses, and a record of the events that the data path would get.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "common/event_loop.h"
#include "common/log.h"
#include "common/timer_heap.h"
#include "lb/backend_events.h"
#include "lb/backend_set.h"
#include "lb/options.h"
#include "test/unit/lb/scripted_server.h"

namespace dlb::lb {

struct RecordedEvents final : BackendEvents {
  void on_capacity_change(std::uint32_t backend) override { capacity.push_back(backend); }
  void on_backend_out(std::uint32_t backend) override { out.push_back(backend); }
  void on_memory_guard(bool shedding) override { guard.push_back(shedding); }
  std::vector<std::uint32_t> capacity, out;
  std::vector<bool> guard;
};

struct MonitorScene {
  explicit MonitorScene(std::vector<Address> addresses) {
    options.health_interval = std::chrono::milliseconds(20);
    options.stats_interval = std::chrono::milliseconds(20);
    options.monitor_timeout = std::chrono::milliseconds(500);
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      BackendOption backend;
      backend.id = "sys" + std::to_string(i + 2);
      backend.url = "http://" + addresses[i].to_string();
      backend.address = addresses[i];
      options.backends.push_back(backend);
    }
    backends = make_backend_set(options);
  }

  // Turns the loop until `condition`, at most 10 s.
  template <class Condition>
  bool run_until(Condition condition) {
    const TimePoint end = monotonic_now() + std::chrono::seconds(10);
    while (!condition()) {
      if (monotonic_now() > end) return false;
      loop.run_once(std::chrono::milliseconds(20));
    }
    return true;
  }
  Backend& backend(std::uint32_t index = 0) { return backends->at(index); }

  Options options;
  std::unique_ptr<BackendSet> backends;
  EventLoop loop;
  TimerHeap timers{loop};
  RecordedEvents events;
  Log log{LogConfig{.fd = -1}};
};

}  // namespace dlb::lb
