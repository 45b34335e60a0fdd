// Observation: all that watches a run while it goes: the series, the sampler, and the files that grow. Run
// tells it where the run is; it measures nothing of its own and changes nothing. On the run's loop.
//
//   prepare ─ (warm-up) ─ begin ─ { begin_stage ─ end_stage } ─ finish
#pragma once

#include <string>
#include <vector>

#include "common/event_loop.h"
#include "loadgen/options.h"
#include "loadgen/recorder.h"
#include "loadgen/result_files.h"
#include "loadgen/run_result.h"
#include "loadgen/sampler.h"
#include "loadgen/series.h"

namespace dlb::loadgen {

// Whom a run asks, by its options. Looks host names up: at start-up only. `loaded` says where they came from:
// the error names that.
Result<SamplerPlan> sampler_plan(const Options& options, const std::vector<Target>& targets,
                                 const std::vector<Target>& verify_targets, bool leaderboard,
                                 const LoadedOptions& loaded = {});

class Observation final : public RecorderHook {
 public:
  // `result` outlives it, and gets series and systems.
  Observation(EventLoop& loop, const Options& options, SamplerPlan plan, RunResult& result);
  Observation(const Observation&) = delete;
  Observation& operator=(const Observation&) = delete;

  // Before any load: finds out who can be asked. Drives the loop for a bounded time, until `stop`.
  void prepare(const bool& stop) { sampler_.discover(stop); }
  // The counted stages begin: takes a first sample, likewise. Gives the time from which all is measured.
  TimePoint begin(const bool& stop);
  void begin_stage(const StagePlan& plan, Recorder& recorder);
  void end_stage();
  // The counted stages are over: takes a last sample, likewise.
  void finish(const bool& stop);

  const Sampler& sampler() const { return sampler_; }
  ResultFiles& files() { return files_; }

  void on_planned() override { result_.series.on_planned(elapsed()); }
  void on_issued() override;
  void on_result(const OperationResult& result, std::string_view backend) override {
    result_.series.on_result(result, backend, elapsed());
  }

 private:
  Duration elapsed() const { return loop_.now() - origin_; }

  EventLoop& loop_;
  RunResult& result_;
  ResultFiles files_;
  Sampler sampler_;
  TimePoint origin_{};
  Duration ended_{};  // the latest stage, since the origin
  bool open_model_ = false;
};

}  // namespace dlb::loadgen
