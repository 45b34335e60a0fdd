#include "loadgen/run.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>

#include "loadgen/hash.h"
#include "loadgen/progress.h"
#include "loadgen/report.h"
#include "loadgen/verifier.h"

namespace dlb::loadgen {
namespace {

constexpr Duration kLeastVerifyTimeout = std::chrono::seconds(30);

// Of this thread, which does all the work.
double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  const auto part = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return part(usage.ru_utime) + part(usage.ru_stime);
}

// Of this thread, so far.
CoreWaits core_waits() {
  std::FILE* const file = std::fopen("/proc/thread-self/schedstat", "re");
  if (file == nullptr) return {};
  long long ran = 0;
  long long waited = 0;
  unsigned long long times = 0;
  const bool read = std::fscanf(file, "%lld %lld %llu", &ran, &waited, &times) == 3;
  std::fclose(file);
  return read ? CoreWaits{Duration(waited), times} : CoreWaits{};
}

std::uint64_t seed_in_force(std::int64_t option) {
  if (option != 0) return static_cast<std::uint64_t>(option);
  const auto by_clock =
      mix64(static_cast<std::uint64_t>(wall_now_us()) ^ (static_cast<std::uint64_t>(::getpid()) << 48));
  return (by_clock >> 12) |
         1U;  // small enough for the option and for JSON readers that keep numbers as doubles
}

// In a turn each user may give up one connection and open another; those given up go at the turn's end.
std::size_t pool_capacity(const RunPlan& plan) { return static_cast<std::size_t>(plan.users_max()) * 3 + 16; }

// About how long a stage takes, to spread drops over; where nobody knows, ten seconds.
Duration span_of(const StagePlan& plan) {
  if (plan.duration > Duration::zero()) return plan.duration;
  constexpr double kUnknownSeconds = 10;
  const double by_rate = plan.rate > 0 ? static_cast<double>(plan.requests) / plan.rate : kUnknownSeconds;
  return Duration(static_cast<Duration::rep>(by_rate * 1e9));
}

// All counted stages together.
Duration span_of(const RunPlan& plan) {
  Duration span{};
  for (const StagePlan& stage : plan.stages) {
    if (stage.counted) span += span_of(stage);
  }
  return span;
}

// What a stage costs, written into its result: from here to end().
class StageAccount {
 public:
  StageAccount(StageResult& result, Observation& observation) : result_(result), observation_(observation) {
    result_.ran = true;
    result_.started_wall_us = wall_now_us();
    observation_.begin_stage(result_.plan, result_.recorder);
  }
  // The stage lasted for `elapsed`.
  void end(Duration elapsed) {
    observation_.end_stage();
    result_.cpu_seconds = cpu_seconds() - cpu_before_;
    result_.waits = core_waits() - waits_before_;
    result_.elapsed = elapsed;
  }

 private:
  StageResult& result_;
  Observation& observation_;
  const double cpu_before_ = cpu_seconds();
  const CoreWaits waits_before_ = core_waits();
};

// A breakpoint has been found: more of the stage's operations failed than its ladder goes on with.
bool over_stop_share(const StageResult& stage) {
  const auto done = static_cast<double>(stage.recorder.done());
  return done > 0 &&
         100 * static_cast<double>(stage.recorder.failed()) / done > stage.plan.stop_error_percent;
}

}  // namespace

Run::Run(const Options& options, std::vector<Target> targets, std::vector<Target> verify_targets,
         SamplerPlan sampler_plan, std::FILE* out, std::unique_ptr<ChatLoad> chat)
    : options_(options),
      targets_(std::move(targets)),
      verify_targets_(std::move(verify_targets)),
      sampler_plan_(std::move(sampler_plan)),
      out_(out),
      seed_(seed_in_force(options.seed)),
      plan_(plan_of(options, seed_)),
      signals_(loop_, {SIGINT, SIGTERM, SIGHUP}, *this),
      context_(loop_, options_.request_timeout, options_.response_read_delay),
      pool_(context_, pool_capacity(plan_), targets_.size()),
      chat_(std::move(chat)),
      screen_(STDERR_FILENO) {
  if (!options_.verify_feed) ledger_.keep_nothing();
}

void Run::on_signal(int signal_number) {
  if (stop_) std::_Exit(128 + signal_number);
  stop_ = true;
}

void Run::finish_held(RunResult& result) {
  if (held_ == nullptr) return;
  if (held_began_ && !held_->done() && !stop_) {
    std::fprintf(stderr, "loadgen: held connections are waited for\n");
    while (!held_->done() && !stop_) loop_.run_once(kTurn);
  }
  if (!held_->done()) held_->abandon();
  result.held = held_->totals();
}

StageShape Run::shape(const StagePlan& plan) const {
  StageShape shape;
  shape.payload.seed = plan.seed;
  shape.payload.users = static_cast<std::uint64_t>(plan.users);
  shape.payload.names = plan.names;
  shape.payload.alphabet = plan_.alphabet;
  shape.payload.message_min = static_cast<std::uint32_t>(options_.message_min);
  shape.payload.message_max = static_cast<std::uint32_t>(options_.message_max);
  shape.payload.feed_percent = plan.feed_percent;
  shape.payload.duplicate_percent = options_.duplicate_percent;
  shape.requests = static_cast<std::uint64_t>(plan.requests);
  shape.duration = plan.duration;
  shape.issue_window = plan.issue_window;
  shape.cool_down = plan.cool_down;
  shape.interval_min = options_.interval_min;
  shape.interval_max = options_.interval_max;
  shape.connection_mode = options_.mode;
  shape.ramp_up = plan.ramp_up;
  shape.requests_per_connection = static_cast<std::uint64_t>(options_.requests_per_connection);
  shape.sources = &options_.sources;
  shape.slow_reader_percent = options_.slow_reader_percent;
  shape.slow_bytes_per_pace = static_cast<std::size_t>(options_.slow_reader_rate) / 10;
  shape.open.rate = plan.rate;
  shape.open.arrival = options_.arrival_pattern;
  shape.open.queue_max = static_cast<std::size_t>(options_.queue_max);
  return shape;
}

void Run::drive(Stage& stage) {
  stage.start();
  while (!stage.counted_done() && !stop_) loop_.run_once(kTurn);
  if (!stage.counted_done()) stage.abandon();
}

// The rest of a stage whose counted operations have ended.
void Run::cool_down(Stage& stage) {
  if (stage.done()) return;
  const Progress progress(loop_, screen_, options_.metrics_interval, "cool-down", stage,
                          *stage.counting().uncounted(), 0, nullptr);
  while (!stage.done() && !stop_) loop_.run_once(kTurn);
  if (!stage.done()) stage.abandon();
}

void Run::perform_warm_up(const StagePlan& plan) {
  const auto unused = std::make_unique<Recorder>();
  Stage stage(shape(plan), targets_, loop_, pool_, *unused, ledger_);
  const Progress progress(loop_, screen_, options_.metrics_interval, plan.name, stage, *unused, 0, nullptr);
  drive(stage);
}

void Run::perform_stage(StageResult& result, std::string_view label, Observation& observation) {
  Stage stage(shape(result.plan), targets_, loop_, pool_, result.recorder, ledger_);
  std::optional<Progress> progress;
  progress.emplace(loop_, screen_, options_.metrics_interval, label, stage, result.recorder,
                   static_cast<std::uint64_t>(result.plan.requests), &observation.sampler().systems());
  const std::uint64_t opened = context_.connections_opened;
  StageAccount account(result, observation);
  if (held_ != nullptr && held_->stage() == result.plan.name) {
    held_began_ = true;
    held_->start();
  }
  drive(stage);
  progress.reset();
  account.end(stage.ended_at() - stage.started_at());
  result.hit_window = stage.hit_window();
  result.connections_opened = context_.connections_opened - opened;
  cool_down(stage);
}

void Run::perform_chat_stage(StageResult& result, Observation& observation) {
  ChatStage stage(chat_->stage_shape(), chat_->messages(), loop_, chat_->subscribers(), result.recorder,
                  ledger_, chat_->result());
  StageAccount account(result, observation);
  stage.start();
  TimePoint told = stage.started_at();
  while (!stage.done() && !stop_) {
    loop_.run_once(kTurn);
    const Duration since = monotonic_now() - told;
    if (since < options_.metrics_interval) continue;
    told += since;
    const std::string line = progress_line("", told - stage.started_at(), chat_->subscribers().size(),
                                           result.recorder, chat_->messages().size(), since);
    screen_.add_line(line);
    result.recorder.reset_interval();
  }
  if (!stage.done()) stage.abandon();
  account.end(stage.ended_at() - stage.started_at());
  // Before the stage, and of those who came back in it.
  result.connections_opened = chat_->result().join_us.count() + chat_->result().catch_up_us.count();
}

// Reads the feeds, and has the oracle judge what chat users got.
void Run::verify(RunResult& result) {
  if (chat_) chat_->settle(stop_);
  if (options_.verify_feed && !stop_) {
    const VerifyTimes times{std::max(options_.request_timeout, kLeastVerifyTimeout), options_.verify_timeout};
    Verifier verifier(loop_, ledger_, times, stop_, context_.tls, chat_.get());
    result.verification = verifier.run(targets_.front(), verify_targets_);
  }
  if (!chat_) return;
  if (result.verification && result.verification->feed.fetched) {
    chat_->feeds_read();
    chat_->settle(stop_);
  }
  result.chat = chat_->finish(seconds(result.elapsed));
}

void Run::perform(RunResult& result, Observation& observation) {
  result.leaderboard = plan_.leaderboard;
  result.altered = plan_.altered;
  for (const StagePlan& plan : plan_.stages) {
    if (!plan.counted) continue;
    result.stages.emplace_back().plan = plan;
  }
  for (const StagePlan& plan : plan_.stages) {
    if (!plan.counted && !stop_) perform_warm_up(plan);
  }
  const TimePoint began = observation.begin(stop_);
  result.started_wall_us = wall_now_us();
  if (chat_) chat_->plan_drops(span_of(plan_));
  std::string_view stopped_ladder;
  for (std::size_t i = 0; i < result.stages.size(); ++i) {
    StageResult& stage = result.stages[i];
    if (!stop_ && (stopped_ladder.empty() || stage.plan.ladder != stopped_ladder)) {
      stage.started_after = monotonic_now() - began;
      const std::string label = result.stages.size() == 1
                                    ? std::string()
                                    : fmt::format("{} ({}/{})", stage.plan.name, i + 1, result.stages.size());
      if (options_.chat) {
        perform_chat_stage(stage, observation);
      } else {
        perform_stage(stage, label, observation);
      }
      if (over_stop_share(stage)) stopped_ladder = stage.plan.ladder;
      result.elapsed = stage.started_after + stage.elapsed;
    } else {
      stage.recorder.set_planned(static_cast<std::uint64_t>(stage.plan.requests));
    }
    stage.recorder.close();
    result.total.merge(stage.recorder);
    result.cpu_seconds += stage.cpu_seconds;
    result.waits += stage.waits;
    result.connections_opened += stage.connections_opened;
  }
  observation.finish(stop_);
  screen_.clear();  // lines may follow
  finish_held(result);
  result.tls_failures = context_.tls_failures;
  result.longest_turn = Duration(loop_.counters().turn_ns_max);
  result.stray_bytes = context_.stray_bytes;
}

ExitCode Run::execute() {
  if (auto prepared = prepare(); !prepared) {
    std::fprintf(stderr, "loadgen: %s\n", prepared.error().text.c_str());
    return ExitCode::Usage;
  }
  if (auto opened = open_chat(); !opened && !stop_) {
    std::fprintf(stderr, "loadgen: %s\n", opened.error().text.c_str());
    return ExitCode::Usage;
  }
  if (stop_ && !(chat_ && chat_->opened())) return ExitCode::Interrupted;
  const auto owned = std::make_unique<RunResult>();  // histograms: too large for a stack
  RunResult& result = *owned;
  result.options = options_;
  result.seed = seed_;
  sampler_plan_.tls = context_.tls;
  Observation observation(loop_, options_, std::move(sampler_plan_), result);
  observation.prepare(stop_);
  perform(result, observation);
  pool_.close_idle();
  verify(result);
  result.interrupted = stop_;

  observation.files().end_streams();
  result.files_failed = observation.files().failed();
  std::string text = report_text(result);
  ExitCode code = exit_code(result);
  text += observation.files().finish(result);
  if (observation.files().failed() && code == ExitCode::Passed) code = ExitCode::Failed;
  std::fputs(text.c_str(), out_);
  std::fflush(out_);
  return code;
}

}  // namespace dlb::loadgen
