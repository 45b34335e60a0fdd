// Progress: one line on how the run is going, on standard error each metrics-interval: rewritten in place on
// a terminal, a line of its own elsewhere. A reader that doesn't keep up makes lines be left out, never the
// loop wait.
#pragma once

#include <string>
#include <string_view>

#include "common/timer_heap.h"
#include "loadgen/recorder.h"
#include "loadgen/stage.h"

namespace dlb::loadgen {

// `warm-up 2.0s users 200 done 10344/20000 rate 1724/s p50 4.1 p99 12.9 ms failed 0 share sys2 34% sys3 33%
// sys4 33%`; rate, percentiles and share are those of the interval. Pure.
std::string progress_line(std::string_view stage_name, Duration elapsed, std::uint64_t users,
                          const Recorder& recorder, std::uint64_t planned, Duration interval);

class Progress final : public HeapTimerHandler {
 public:
  // Writes to `fd`, which it borrows. Shows `stage` from now until it is destroyed.
  Progress(EventLoop& loop, int fd, Duration interval, std::string_view stage_name, const Stage& stage,
           Recorder& recorder, std::uint64_t planned);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();  // clears the line on a terminal

  void on_heap_timer(HeapTimer& timer) override;

 private:
  void write(std::string_view text);

  TimerHeap timers_;
  HeapTimer tick_;
  EventLoop& loop_;
  int fd_;
  bool terminal_;
  bool shown_ = false;
  Duration interval_;
  std::string_view stage_name_;
  const Stage& stage_;
  Recorder& recorder_;
  std::uint64_t planned_;
  TimePoint latest_;
};

}  // namespace dlb::loadgen
