#include "loadgen/run.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "loadgen/hash.h"
#include "loadgen/progress.h"
#include "loadgen/stage.h"
#include "loadgen/verifier.h"

namespace dlb::loadgen {
namespace {

constexpr Duration kTurn = std::chrono::milliseconds(200);
constexpr Duration kLeastVerifyTimeout = std::chrono::seconds(30);
constexpr std::uint64_t kWarmUpSeed = 0x7761726d2d7570U;  // other operations than the measured ones

// Of this thread, which does all the work.
double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  const auto part = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return part(usage.ru_utime) + part(usage.ru_stime);
}

std::uint64_t seed_in_force(std::int64_t option) {
  if (option != 0) return static_cast<std::uint64_t>(option);
  const auto by_clock =
      mix64(static_cast<std::uint64_t>(wall_now_us()) ^ (static_cast<std::uint64_t>(::getpid()) << 48));
  return (by_clock >> 12) |
         1U;  // small enough for the option and for JSON readers that keep numbers as doubles
}

// Connects, and is content.
class Reach final : public ConnectionUser {
 public:
  Reach(ConnectionContext& context, const Address& address) : connection_(context, *this, {}) {
    err_ = connection_.connect(address);
    done_ = err_ != 0;
  }
  bool done() const { return done_; }
  int err() const { return err_; }
  void on_connected(Connection&) override { done_ = true; }
  void on_head(Connection&, const ResponseHead&) override {}
  void on_body(Connection&, std::string_view) override {}
  void on_end(Connection&, ExchangeEnd, int err) override {
    err_ = err;
    done_ = true;
  }
  void on_idle_close(Connection&) override {}

 private:
  int err_ = 0;
  bool done_ = false;
  Connection connection_;
};

// In a turn each user may give up one connection and open another; those given up go at the turn's end.
std::size_t pool_capacity(const Options& options) { return static_cast<std::size_t>(options.users) * 3 + 16; }

}  // namespace

Result<void> raise_descriptor_limit(std::uint64_t descriptors) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return errno_error("getrlimit", errno);
  if (limit.rlim_cur >= descriptors) return {};
  if (limit.rlim_max < descriptors) {
    return Error{
        fmt::format("{} file descriptors are needed and the hard limit is {}: raise it (ulimit -Hn) or take "
                    "fewer users",
                    descriptors, limit.rlim_max)};
  }
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return errno_error("setrlimit", errno);
  return {};
}

Run::Run(const Options& options, std::vector<Target> targets, std::vector<Target> verify_targets,
         std::FILE* out)
    : options_(options),
      targets_(std::move(targets)),
      verify_targets_(std::move(verify_targets)),
      out_(out),
      seed_(seed_in_force(options.seed)),
      signals_(loop_, {SIGINT, SIGTERM}, *this),
      context_(loop_, options_.request_timeout, options_.response_read_delay),
      pool_(context_, pool_capacity(options_), targets_.size()) {}

void Run::on_signal(int signal_number) {
  if (stop_) std::_Exit(128 + signal_number);
  stop_ = true;
}

Result<void> Run::reach_targets() {
  for (const Target& target : targets_) {
    Reach reach(context_, target.address);
    while (!reach.done() && !stop_) loop_.run_once(kTurn);
    if (reach.err() != 0) {
      return errno_error("nothing answers at " + target.url + " (" + target.address.to_string() + ")",
                         reach.err());
    }
  }
  return {};
}

StageShape Run::shape(std::uint64_t seed) const {
  StageShape shape;
  shape.payload.seed = seed;
  shape.payload.users = static_cast<std::uint64_t>(options_.users);
  shape.payload.message_min = static_cast<std::uint32_t>(options_.message_min);
  shape.payload.message_max = static_cast<std::uint32_t>(options_.message_max);
  shape.payload.feed_percent = options_.feed_percent;
  shape.interval_min = options_.interval_min;
  shape.interval_max = options_.interval_max;
  shape.connection_mode = options_.mode;
  shape.open.rate = options_.rate;
  shape.open.arrival = options_.arrival_pattern;
  shape.open.queue_max = static_cast<std::size_t>(options_.queue_max);
  return shape;
}

void Run::drive(Stage& stage) {
  stage.start();
  while (!stage.done() && !stop_) loop_.run_once(kTurn);
  if (!stage.done()) stage.abandon();
}

void Run::warm_up() {
  if (options_.warmup == Duration::zero()) return;
  StageShape warm = shape(mix64(seed_ ^ kWarmUpSeed));
  warm.duration = options_.warmup;
  Recorder unused;
  Stage stage(warm, targets_, loop_, pool_, unused, ledger_);
  const Progress progress(loop_, STDERR_FILENO, options_.metrics_interval, "warm-up", stage, unused, 0);
  drive(stage);
}

void Run::measure(RunResult& result) {
  StageShape measured = shape(seed_);
  measured.requests = static_cast<std::uint64_t>(options_.requests);
  measured.duration = options_.duration;
  Stage stage(measured, targets_, loop_, pool_, recorder_, ledger_);
  const Progress progress(loop_, STDERR_FILENO, options_.metrics_interval, "", stage, recorder_,
                          measured.requests);
  const std::uint64_t opened = context_.connections_opened;
  result.started_wall_us = wall_now_us();
  const double cpu_before = cpu_seconds();
  drive(stage);
  result.cpu_seconds = cpu_seconds() - cpu_before;
  result.elapsed = stage.ended_at() - stage.started_at();
  result.longest_turn = Duration(loop_.counters().turn_ns_max);
  result.connections_opened = context_.connections_opened - opened;
  result.stray_bytes = context_.stray_bytes;
  recorder_.close();
}

ExitCode Run::execute() {
  if (auto reached = reach_targets(); !reached) {
    std::fprintf(stderr, "loadgen: %s\n", reached.error().text.c_str());
    return ExitCode::Usage;
  }
  RunResult result;
  result.options = options_;
  result.seed = seed_;
  warm_up();
  measure(result);
  pool_.close_idle();
  if (options_.verify_feed && !stop_) {
    Verifier verifier(loop_, ledger_, std::max(options_.request_timeout, kLeastVerifyTimeout), stop_);
    result.verification = verifier.run(targets_.front(), verify_targets_);
  }
  result.interrupted = stop_;

  std::string text = report_text(result, recorder_);
  ExitCode code = exit_code(result, recorder_);
  if (!options_.out_dir.empty()) {
    const auto written = write_files(result, recorder_);
    if (written) {
      text += "report: " + *written + "\n";
    } else {
      std::fprintf(stderr, "loadgen: %s\n", written.error().text.c_str());
      if (code == ExitCode::Passed) code = ExitCode::Failed;
    }
  }
  std::fputs(text.c_str(), out_);
  std::fflush(out_);
  return code;
}

}  // namespace dlb::loadgen
