// Progress: how the run is going, on standard error each metrics-interval: a panel (panel.h) on a terminal, a
// line elsewhere.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/timer_heap.h"
#include "loadgen/progress_screen.h"
#include "loadgen/recorder.h"
#include "loadgen/stage.h"
#include "loadgen/system_record.h"

namespace dlb::loadgen {

// `warm-up 2.0s users 200 done 10344/20000 rate 1724/s p50 4.1 p99 12.9 ms failed 0 share sys2 34% sys3 33%
// sys4 33%`; rate, percentiles and share are those of the interval. Pure.
std::string progress_line(std::string_view stage_name, Duration elapsed, std::uint64_t users,
                          const Recorder& recorder, std::uint64_t planned, Duration interval);

// Shows one stage from now until it is destroyed.
class Progress final : public HeapTimerHandler {
 public:
  // All that is referred to outlives it; `systems` may be null. `planned` is 0 when it is not known.
  Progress(EventLoop& loop, ProgressScreen& screen, Duration interval, std::string_view label,
           const Stage& stage, Recorder& recorder, std::uint64_t planned,
           const std::vector<SystemRecord>* systems);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void on_heap_timer(HeapTimer& timer) override;

 private:
  void show(TimePoint now);

  TimerHeap timers_;
  HeapTimer tick_;
  EventLoop& loop_;
  ProgressScreen& screen_;
  Duration interval_;
  std::string_view label_;
  const Stage& stage_;
  Recorder& recorder_;
  std::uint64_t planned_;
  const std::vector<SystemRecord>* systems_;
  TimePoint latest_;
};

}  // namespace dlb::loadgen
