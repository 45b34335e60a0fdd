// The progress line, and the panel of a terminal: what it says, that it never wraps, and that names of others
// move no cursor.
#include "loadgen/panel.h"

#include "loadgen/progress.h"
#include "test/support/catch.h"

namespace dlb::loadgen {
namespace {

using std::chrono::milliseconds;

void record(Recorder& recorder, Bucket bucket, std::string_view backend, int times) {
  OperationResult r;
  r.bucket = bucket;
  r.backend = backend.empty() ? kNoBackend : recorder.backend_index(backend);
  r.latency = milliseconds(100);
  for (int i = 0; i < times; ++i) {
    recorder.issued(r.operation_class);
    recorder.record(r);
  }
}

std::vector<SystemRecord> four_systems() {
  std::vector<SystemRecord> systems;
  for (const std::string name : {"Sys1", "Sys2", "Sys3", "Sys4"}) {
    Figures figures = unknown_figures();
    at(figures, Figure::CpuPercent) = 42;
    if (name != "Sys4") at(figures, Figure::MemoryUnreclaimablePercent) = 7;
    systems.emplace_back(name, "id", "").add(0, figures);
  }
  return systems;
}

TEST_CASE("panel: stage, rate, failures by class, shares, systems") {
  Recorder recorder;
  record(recorder, Bucket::Ok, "sys2", 30);
  record(recorder, Bucket::Ok, "sys3", 10);
  record(recorder, Bucket::ServerError, "sys3", 2);
  record(recorder, Bucket::TimeOut, "", 8);
  const auto systems = four_systems();
  const PanelView view{
      "static-750 (3/13)", milliseconds(12300), milliseconds(500), 750, 100, 3, &recorder, &systems};
  const std::vector<std::string> expected = {
      "static-750 (3/13)  12.3 s  users 750  done 50 of 100 [##########..........]",
      "100 a second  p50 100.0  p99 100.0 ms  waiting 3",
      "failed 10: 5xx 2, time_out 8",
      "share  sys2 71%  sys3 29%",
      "Sys1 cpu  42% mem   7%   Sys2 cpu  42% mem   7%   Sys3 cpu  42% mem   7%",
      "Sys4 cpu  42% mem    -",
  };
  CHECK(panel_lines(view, 79) == expected);
}

TEST_CASE("panel: an empty run has short lines, a narrow terminal no wrapped ones") {
  Recorder recorder;
  const PanelView empty{"", {}, {}, 5, 0, 0, &recorder, nullptr};
  CHECK(panel_lines(empty, 79) ==
        std::vector<std::string>{"0.0 s  users 5  done 0", "0 a second", "failed 0"});
  record(recorder, Bucket::Ok, "a-backend-with-a-rather-long-name-\x1b[31m", 5);
  const auto systems = four_systems();
  const PanelView view{"x\ny\x1b[2J", milliseconds(1), milliseconds(1), 5, 10, 0, &recorder, &systems};
  for (const std::size_t width : {0U, 20U, 40U, 200U}) {
    for (const std::string& line : panel_lines(view, width)) {
      CHECK(line.size() <= std::max<std::size_t>(width, 20));
      CHECK(line.find_first_of("\n\r\x1b") == std::string::npos);
    }
  }
}

TEST_CASE("panel: it is put in the place of the one before, and taken away") {
  CHECK(redraw({"a", "b"}, 0) == "\ra\x1b[K\n\rb\x1b[K\n\x1b[J");
  CHECK(redraw({"c"}, 2) == "\x1b[2A\rc\x1b[K\n\x1b[J");
  CHECK(take_away(0).empty());
  CHECK(take_away(3) == "\x1b[3A\r\x1b[J");
}

TEST_CASE("the progress line says how it goes") {
  Recorder recorder;
  OperationResult r;
  r.backend = recorder.backend_index("sys2");
  r.latency = milliseconds(4);
  for (int i = 0; i < 300; ++i) {
    if (i == 200) r.backend = recorder.backend_index("sys3");
    recorder.issued(r.operation_class);
    recorder.record(r);
  }
  CHECK(progress_line("", std::chrono::seconds(3), 8, recorder, 1000, milliseconds(500)) ==
        "3.0s users 8 done 300/1000 rate 600/s p50 4.0 p99 4.0 ms failed 0 share sys2 67% sys3 33%");
  Recorder empty;
  CHECK(progress_line("warm-up", milliseconds(100), 1, empty, 0, milliseconds(100)) ==
        "warm-up 0.1s users 1 done 0 rate 0/s p50 0.0 p99 0.0 ms failed 0");
}

}  // namespace
}  // namespace dlb::loadgen
