// Sampler: reads, each metrics-interval, what balancer and backends say of themselves (system_sample.h). It
// has connections, deadlines and a context of its own, and at most one query at a time to a system: a tick
// that finds one still running counts as a missed sample. The balancer is Sys1, backends are Sys2 and so on
// by id.
//
//   discover() ─▶ begin() ─ ticks: queries ─▶ rows to the sink, records ─▶ finish()
//
// discover() finds out, before any load, who can be asked: the balancer's /lb/status tells of its backends;
// those that do not answer from here are shown as the balancer sees them. It and finish() drive the loop for
// a bounded time, as nothing else runs then. On one loop.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/timer_heap.h"
#include "loadgen/system_query.h"
#include "loadgen/system_record.h"
#include "loadgen/system_sample.h"

namespace dlb::loadgen {

struct NamedTarget {
  std::string name;
  Target target;
};

struct SamplerPlan {
  Duration interval = std::chrono::seconds(1);
  Duration patience = std::chrono::milliseconds(500);  // how long the start may wait for each answer
  std::optional<Target> balancer;                      // nothing: there is none
  std::vector<NamedTarget> backends;                   // as given; empty: those that the balancer tells of
  const TlsContext* tls = nullptr;                     // for https targets, borrowed
  std::vector<Target> maybe_backends;                  // asked for their ids where its urls do not lead there
};

// Whether one of them is to be asked by TLS.
bool any_tls(const SamplerPlan& plan);

class SampleSink {
 public:
  virtual void on_sample(const MetricsRow& row) = 0;

 protected:
  ~SampleSink() = default;
};

class Sampler final : public HeapTimerHandler, public SystemQueryOwner {
 public:
  static constexpr Duration kAnswerLimit = std::chrono::seconds(2);
  static constexpr std::size_t kMaxSystems = 65;  // further backends are left out

  Sampler(EventLoop& loop, SamplerPlan plan);
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;
  ~Sampler();

  // Drives the loop. `stop` ends it.
  void discover(const bool& stop);
  // Whether there is anybody to ask.
  bool present() const { return !systems_.empty(); }
  // Takes a first sample, for which it drives the loop, and goes on until finish(). Rows go to `sink`, which
  // may be null. Times are since now, or since set_origin().
  void begin(SampleSink* sink, const bool& stop);
  void set_origin(TimePoint origin) { origin_ = origin; }
  void set_stage(std::string_view name) { stage_ = name; }
  // Takes a last sample, likewise.
  void finish(const bool& stop);

  // Empty when there is nobody to ask. The balancer first, if there is one.
  const std::vector<SystemRecord>& systems() const { return records_; }

  void on_heap_timer(HeapTimer& timer) override;
  void on_answers(SystemQuery& query) override;

 private:
  struct System {
    std::unique_ptr<SystemQuery> query;   // null: only the balancer tells of it
    Figures counted = unknown_figures();  // the sample that CPU is counted from, and its time
    TimePoint counted_at{};
  };
  struct Candidate {
    BackendPlace place;
    std::optional<Target> target;  // nothing: it can't be asked
    bool maybe = false;            // of maybe_backends
    bool answers = false;          // as a backend does
    std::string own_id{};          // then
  };

  std::vector<Candidate> candidates_of(const std::vector<BackendPlace>& places) const;
  void take_in(std::vector<Candidate> candidates);
  // The number in the name of a backend's system is one more than its place behind the balancer.
  std::size_t first_backend() const { return balancer_answers_ ? 0 : 1; }
  template <class Running>
  void drive(Duration limit, const bool& stop, Running running);
  bool any_running() const;
  void ask_all();
  void take_balancer(const SystemQuery& query);
  void take_backend(std::size_t index, const SystemQuery& query);
  const BackendView* view_of(std::string_view id) const;
  void tell(std::size_t index, Figures figures, std::string_view source);
  void miss(std::size_t index);
  void miss_those_told_of();
  void row(std::size_t index, const Figures& figures, std::string_view source);

  EventLoop& loop_;
  SamplerPlan plan_;
  ConnectionContext context_;
  ConnectionPool pool_;
  SystemReader reader_;
  TimerHeap timers_;
  HeapTimer tick_;
  std::vector<System> systems_;  // as records_
  std::vector<SystemRecord> records_;
  std::vector<BackendView> views_;  // the latest ones
  bool balancer_answers_ = false;
  bool sampling_ = false;
  TimePoint origin_{};
  SampleSink* sink_ = nullptr;
  std::string stage_;
};

}  // namespace dlb::loadgen
