// Run: the order of events of one invocation: are the targets there, the stages of the plan, verification,
// report. Owns loop, connections and ledger; SIGINT, SIGTERM and SIGHUP end it with a report
// of what was done, a second signal at once. One thread.
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <vector>

#include "common/event_loop.h"
#include "common/signals.h"
#include "loadgen/chat_load.h"
#include "loadgen/connection_pool.h"
#include "loadgen/held.h"
#include "loadgen/ledger.h"
#include "loadgen/observation.h"
#include "loadgen/options.h"
#include "loadgen/plan.h"
#include "loadgen/progress_screen.h"
#include "loadgen/run_result.h"
#include "loadgen/stage.h"
#include "loadgen/target.h"

namespace dlb::loadgen {

class Run final : public SignalHandler {
 public:
  // SIGINT, SIGTERM and SIGHUP must have been blocked. `out`, which is borrowed, gets the report.
  Run(const Options& options, std::vector<Target> targets, std::vector<Target> verify_targets,
      SamplerPlan sampler_plan, std::FILE* out, std::unique_ptr<ChatLoad> chat = nullptr);

  // Shows progress and start-up errors on standard error.
  ExitCode execute();

  void on_signal(int signal_number) override;

 private:
  static constexpr Duration kTurn = std::chrono::milliseconds(200);  // at most, between two looks at `stop_`

  // Before the stages (run_prepare.cc). The error is one line for people.
  Result<void> prepare();
  Result<void> prepare_sources();
  Result<void> reach_targets();
  void prepare_held();
  // Brings the chat users in.
  Result<void> open_chat();

  // Runs the plan's stages, each into its result.
  void perform(RunResult& result, Observation& observation);
  void perform_chat_stage(StageResult& result, Observation& observation);
  void verify(RunResult& result);
  void cool_down(Stage& stage);
  void perform_warm_up(const StagePlan& plan);
  void perform_stage(StageResult& result, std::string_view label, Observation& observation);
  void drive(Stage& stage);
  // Held connections: until the last of them is old enough and has been answered.
  void finish_held(RunResult& result);
  StageShape shape(const StagePlan& plan) const;

  Options options_;
  std::vector<Target> targets_;
  std::vector<Target> verify_targets_;
  SamplerPlan sampler_plan_;
  std::FILE* out_;
  std::uint64_t seed_;
  RunPlan plan_;
  EventLoop loop_;
  SignalSource signals_;
  std::optional<TlsContext> tls_;
  ConnectionContext context_;
  ConnectionPool pool_;
  std::unique_ptr<ChatLoad> chat_;  // null without chat users; the ledger tells its oracle
  Ledger ledger_;
  // With held connections. They have a context of their own, since they are in no stage's figures.
  std::unique_ptr<ConnectionContext> held_context_;
  std::unique_ptr<HeldConnections> held_;
  bool held_began_ = false;
  ProgressScreen screen_;
  bool stop_ = false;
};

// Lets this process open `descriptors` files, if the hard limit allows it.
Result<void> raise_descriptor_limit(std::uint64_t descriptors);

}  // namespace dlb::loadgen
