// ResultFiles: the files that one run leaves in out-dir. Those with rows of its own grow while it runs; the
// others are written at its end. What can't be written is told at once on standard error, and makes the run
// fail (exit code 1) when nothing else did; it never keeps the report from standard output.
//
//   EXPERIMENT-TIME-series.csv    a row a second           EXPERIMENT-TIME.json         the whole report
//   EXPERIMENT-TIME-metrics.csv   a row a sample           EXPERIMENT-TIME-report.html  a page of it
//   summary.csv, operation-summary.csv, header-acceptance.csv: rows appended, for all runs
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "loadgen/row_files.h"
#include "loadgen/run_result.h"
#include "loadgen/sampler.h"
#include "loadgen/series.h"

namespace dlb::loadgen {

class ResultFiles final : public SeriesSink, public SampleSink {
 public:
  // An empty folder: no files at all.
  ResultFiles(std::string folder, std::string experiment);

  // The run begins now: makes the folder and the files that grow. `samples`: whether there will be any.
  void begin(std::int64_t wall_us, bool samples);
  void on_second(const SeriesRow& row, std::string_view stage,
                 const std::vector<std::string>& backends) override;
  void on_sample(const MetricsRow& row) override;
  // The files that grow are whole now: failed() knows of them before anything is said of the run.
  void end_streams();
  // Behind end_streams(): writes the rest. Gives lines for standard output: which files there are.
  std::string finish(const RunResult& result);

  bool failed() const { return failed_; }

 private:
  void tell(const Error& error);
  void append(std::string& text, const std::string& name, std::string_view header, std::string_view rows);

  std::string folder_;
  std::string experiment_;
  std::string stem_;  // FOLDER/EXPERIMENT-TIME; empty: nothing can be written
  bool failed_ = false;
  std::unique_ptr<StreamFile> series_;
  std::unique_ptr<StreamFile> metrics_;
};

}  // namespace dlb::loadgen
