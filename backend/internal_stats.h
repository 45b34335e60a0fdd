// What the balancer's score and memory guards read: /internal/stats. CPU and memory are sampled by timer, so
// that a burst of requests costs no more than one and the CPU figure covers the last interval; counts are
// those of the moment. Loop thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "backend/message_store.h"
#include "common/cgroup.h"
#include "common/event_loop.h"
#include "common/timer_list.h"

namespace dlb::backend {

// The latest sample. -1: not known on this machine.
struct ResourceSample {
  double cpu_percent = -1;  // of the cgroup's quota, of the machine without one
  CgroupMemory memory;
  std::int64_t sock_bytes = -1;
  std::int64_t rss_bytes = -1;
};

class ResourceSampler final : public TimerHandler {
 public:
  static constexpr Duration kInterval = std::chrono::milliseconds(250);

  ResourceSampler(EventLoop& loop, Cgroup& cgroup);
  ResourceSampler(const ResourceSampler&) = delete;
  ResourceSampler& operator=(const ResourceSampler&) = delete;

  const ResourceSample& latest() const { return sample_; }

  void on_timer(Timer& timer) override;

 private:
  void take();

  EventLoop& loop_;
  Cgroup& cgroup_;
  TimerList interval_;
  Timer timer_;
  CgroupCpu before_;
  ResourceSample sample_;
};

struct RequestFigures {
  std::uint64_t in_flight = 0;
  std::uint64_t total = 0;
};

struct SocketFigures {
  std::uint64_t sessions = 0;
  std::uint64_t opened = 0;
  std::uint64_t slow_consumers = 0;  // sessions cut as such
  std::uint64_t messages_received = 0;
  std::uint64_t messages_sent = 0;
  std::uint64_t names_online = 0;  // here
  std::uint64_t verifications = 0;
  double verify_seconds_sum = 0;
  std::uint64_t broadcasts = 0;  // rows told live
};

// The document of /internal/stats.
std::string internal_stats_json(std::string_view backend_id, const ResourceSample& resources,
                                const RequestFigures& requests, const MessageStoreStats& store,
                                const SocketFigures& sockets);

}  // namespace dlb::backend
