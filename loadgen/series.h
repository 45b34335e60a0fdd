// Series: what became of the operations of the counted stages, second by second: users, operations,
// latencies, errors by bucket, answers per backend. Fed with results as they end (on_result); a row goes to
// the sink when its second is over (a file), and into memory, which is bounded: at kMaxRows rows pairs of
// neighbours become one and each further row covers twice the time. Two sets of histograms, one for the
// sink's second and one for memory's row: fixed memory, whatever the length of the run.
//
//   begin_stage ─ on_planned, on_issued, on_result … ─ end_stage ─ begin_stage …  finish
//
// A second that has a change of stages in it belongs to the stage that was there first. Between two stages
// there are rows without a stage. Pure: it is told the time. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/clock.h"
#include "common/histogram.h"
#include "loadgen/recorder.h"

namespace dlb {
class JsonWriter;
}

namespace dlb::loadgen {

inline constexpr int kSeriesSchema = 1;  // of EXPERIMENT-TIME-series.csv

// Milliseconds; -1 where nothing was measured.
struct SeriesLatency {
  double p50_ms = -1;
  double p95_ms = -1;
  double p99_ms = -1;
};

struct SeriesRow {
  std::int64_t second = 0;  // since the start of the first counted stage
  std::int32_t stage = -1;  // its place among the counted stages; -1 between two
  std::uint64_t users = 0;
  std::uint64_t planned = 0;  // open model: operations whose time came; closed: those issued
  std::uint64_t issued = 0;
  std::array<std::uint32_t, kBuckets> buckets{};
  std::uint64_t answers = 0;             // whole ones that named a backend
  std::vector<std::uint32_t> responses;  // whole ones per backend, as Series::backends(); may be shorter
  SeriesLatency message;                 // service latency of ok messages
  SeriesLatency feed;                    // … feeds
  SeriesLatency intended;                // of ok messages from the intended time; open model

  std::uint64_t done() const;
  std::uint64_t ok() const { return buckets[static_cast<std::size_t>(Bucket::Ok)]; }
  std::uint64_t failed() const;  // done, neither ok nor interrupted
};

// The row of both: counts are added, percentiles are the higher ones (an upper bound of the true ones), stage
// and users are the first one's.
SeriesRow merged(const SeriesRow& first, const SeriesRow& second);

class SeriesSink {
 public:
  // A second is over. `stage` is empty between two stages.
  virtual void on_second(const SeriesRow& row, std::string_view stage,
                         const std::vector<std::string>& backends) = 0;

 protected:
  ~SeriesSink() = default;
};

class Series {
 public:
  static constexpr std::size_t kMaxRows = 3600;    // in memory
  static constexpr std::size_t kMaxBackends = 16;  // with a column of their own; others share the last one

  explicit Series(std::size_t max_rows = kMaxRows);

  // Rows go to `sink` too, which may be null.
  void set_sink(SeriesSink* sink) { sink_ = sink; }

  // `elapsed` is everywhere since the start of the first counted stage, and never falls.
  void begin_stage(std::string_view name, std::uint64_t users, Duration elapsed);
  void end_stage(Duration elapsed);
  void on_planned(Duration elapsed);
  void on_issued(Duration elapsed);
  // `backend` is the name that the answer bore, or empty.
  void on_result(const OperationResult& result, std::string_view backend, Duration elapsed);
  // Closes the seconds that are over: also called without results, so that empty rows come in time.
  void advance(Duration elapsed);
  // The run is over: closes the second under way if anything was in it.
  void finish(Duration elapsed);

  const std::vector<SeriesRow>& rows() const { return rows_; }
  std::int64_t step_seconds() const { return step_; }  // what a row in memory covers
  const std::vector<std::string>& stages() const { return stages_; }
  const std::vector<std::string>& backends() const { return backends_; }
  bool intended() const { return any_intended_; }  // whether there are latencies from intended times

 private:
  struct Window {
    SeriesRow row;
    bool used = false;  // anything but empty time in it
    Histogram message_us;
    Histogram feed_us;
    Histogram intended_us;
  };

  void open(Window& window, std::int64_t second);
  const SeriesRow& measured(Window& window);
  void tell_sink();
  void close_second();
  void keep(Window& window);
  void halve();
  template <class Function>
  void both(Function function) {
    function(second_);
    function(kept_);
  }
  std::uint32_t backend_index(std::string_view name);

  std::size_t max_rows_;
  SeriesSink* sink_ = nullptr;
  std::int64_t step_ = 1;
  std::int32_t stage_ = -1;
  std::uint64_t users_ = 0;
  bool any_intended_ = false;
  Window second_;  // the one under way
  Window kept_;    // the row in memory under way
  std::vector<SeriesRow> rows_;
  std::vector<std::string> stages_;
  std::vector<std::string> backends_;
};

// `{"step_seconds": 1, "second": [0, 1, …], "stage": […], …}`: one element a row, null where nothing was
// measured.
void series_json(JsonWriter& json, const Series& series);

// A row of EXPERIMENT-TIME-series.csv for each second: docs in loadgen/README.md. At most kMaxBackends
// backends.
std::string series_csv_header();
std::string series_csv_row(const SeriesRow& row, std::string_view stage,
                           const std::vector<std::string>& backends);

}  // namespace dlb::loadgen
