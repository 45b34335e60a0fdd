// Panel: what a terminal shows of a run that goes on: a few lines, as they are rewritten in place.
//
//   static-750 (3/13)   12.3 s   users 750   1,500 of 5,000 [######··············]
//   1,096 a second   p50 127  p99 378 ms
//   failed 12: 5xx 3, time_out 9
//   share  sys2 34%  sys3 31%  sys4 35%
//   Sys1 cpu  19% mem  13%   Sys2 cpu  …
//
// Rate, percentiles and share are the interval's, failures the stage's. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/clock.h"
#include "loadgen/recorder.h"
#include "loadgen/system_record.h"

namespace dlb::loadgen {

struct PanelView {
  std::string_view label;  // of the stage; may be empty
  Duration elapsed{};      // of the stage
  Duration interval{};     // since the last look
  std::uint64_t users = 0;
  std::uint64_t planned = 0;  // 0: not known
  std::uint64_t waiting = 0;  // open model: operations that wait for a user
  const Recorder* recorder = nullptr;
  const std::vector<SystemRecord>* systems = nullptr;  // null: nobody is asked
};

// Lines of at most `width` columns, no line breaks in them; names of others in printable ASCII only.
std::vector<std::string> panel_lines(const PanelView& view, std::size_t width);

// The bytes that put `lines` in the place of `before` lines that were shown last, and that take them away.
std::string redraw(const std::vector<std::string>& lines, std::size_t before);
std::string take_away(std::size_t before);

}  // namespace dlb::loadgen
