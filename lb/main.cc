// lb: reads its options, builds the object graph top-down, runs the threads until a drain has ended.
//
//   Options ─▶ Log ─▶ Configuration ─▶ StatusPages ─▶ Control ─▶ Shared ─▶ Workers ─▶ Reloader ─▶ Lifecycle
//   threads: main (signals, lifecycle) · control (checks, polls, samples, reloads) · one per worker (all
//   traffic)
//
// `lb ctl …` is a program of its own: ctl.h; `lb supervise` another, started by [autoscale]: supervisor.h.
//
// Exit codes: 0 drained, 1 failed at run time (port in use), 2 bad usage or configuration.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/event_loop.h"
#include "common/log.h"
#include "common/pid_file.h"
#include "common/service_manager.h"
#include "common/signals.h"
#include "common/socket.h"
#include "common/standard_streams.h"
#include "lb/access_log.h"
#include "lb/admin_server.h"
#include "lb/autoscale.h"
#include "lb/backend_events.h"
#include "lb/control.h"
#include "lb/ctl.h"
#include "lb/descriptors.h"
#include "lb/handover.h"
#include "lb/lifecycle.h"
#include "lb/listener.h"
#include "lb/metric_rows.h"
#include "lb/options.h"
#include "lb/predecessor.h"
#include "lb/reloader.h"
#include "lb/shared.h"
#include "lb/status_pages.h"
#include "lb/supervisor.h"
#include "lb/tls_certificates.h"
#include "lb/upgrade.h"
#include "lb/worker.h"

namespace dlb::lb {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

int fail(const std::string& text, int code) {
  std::fprintf(stderr, "lb: %s\n", text.c_str());
  return code;
}

// What the control thread finds out about backends, passed on to every worker.
class EventsToWorkers final : public BackendEvents {
 public:
  void bind(const std::vector<Worker*>& workers) { workers_ = &workers; }
  void on_capacity_change(std::uint32_t backend) override { tell({WorkerMail::Kind::Retry, backend}); }
  void on_backend_out(std::uint32_t backend) override { tell({WorkerMail::Kind::BackendOut, backend}); }
  void on_memory_guard(bool shedding) override {
    if (shedding) tell({WorkerMail::Kind::Shed, 0});
  }

 private:
  void tell(WorkerMail mail) {
    for (Worker* worker : *workers_) std::ignore = worker->post(mail);
  }
  const std::vector<Worker*>* workers_ = nullptr;
};

class Signals final : public SignalHandler {
 public:
  Signals(Lifecycle& lifecycle, Reloader& reloader, Upgrade& upgrade, Shared& shared)
      : lifecycle_(lifecycle), reloader_(reloader), upgrade_(upgrade), shared_(shared) {}
  void on_signal(int number) override {
    switch (number) {
      case SIGUSR1:
        upgrade_.pass_on(number);
        if (shared_.access_log != nullptr) shared_.access_log->reopen();
        return;
      case SIGHUP:
        upgrade_.pass_on(number);
        return reloader_.request();
      case SIGUSR2:
        return upgrade_.request();
      default:
        if (upgrade_.abandon()) lifecycle_.on_signal(number);
        return;
    }
  }

 private:
  Lifecycle& lifecycle_;
  Reloader& reloader_;
  Upgrade& upgrade_;
  Shared& shared_;
};

std::shared_ptr<const Configuration> first_configuration(Options options) {
  auto values = std::make_shared<const Options>(std::move(options));
  Configuration first{
      .options = values, .backends = *make_backend_set(*values), .pools = {}, .loaded_at_us = wall_now_us()};
  first.pools = make_tunnel_pools(*values, first.backends);
  return std::make_shared<const Configuration>(std::move(first));
}

int run(Options options, const LoadedOptions& loaded, const OptionSources& sources,
        TlsCertificates* certificates, const std::vector<std::string>& warnings) {
  LogConfig log_config;
  log_config.level = parse_log_level(options.log_level).value_or(LogLevel::Info);
  log_config.format = parse_log_format(options.log_format).value_or(LogFormat::Text);
  Log log(log_config);
  for (const std::string& warning : warnings) log.warn(warning);
  InheritedSockets inherited = InheritedSockets::from_environment();
  TakenOver taken_over = TakenOver::from_environment();
  auto listeners = open_listeners(options, loaded, inherited);
  if (!listeners) return fail(listeners.error().text, kExitFailed);
  resolve_workers(options);

  auto admin_listener = open_admin_listener(options, loaded, inherited, log);
  if (!admin_listener) return fail(admin_listener.error().text, kExitFailed);
  for (const std::string& address : inherited.close_rest()) {
    log.warn("a socket that was handed over is not used: no listener is configured there",
             {{"address", address}});
  }
  auto access_log = AccessLog::open(options, log);
  if (!access_log) {
    return fail(
        loaded.at("access-log", access_log.error().text).text + "; make it writable, or set it to off",
        kExitFailed);
  }

  auto autoscale_start = start_autoscale(options, std::move(taken_over.supervisor), sources, log);
  if (!autoscale_start) return fail(autoscale_start.error().text, kExitFailed);

  const DescriptorPlan descriptors = raise_descriptor_limit(options, options.backends.size(), log);
  const std::shared_ptr<const Configuration> first = first_configuration(std::move(options));
  const auto worker_count = static_cast<std::uint32_t>(first->options->workers);
  take_over_backends(first->backends, *first->options, taken_over.backends);
  ConfigurationStore configuration(first);
  SystemSample system;
  MemoryState memory;
  ReloadFigures reloads;
  StatusPages pages(configuration, system, memory, log);
  EventsToWorkers events;
  Control control(first, system, memory, events, log);
  EventFigures event_figures;
  pages.set_events(event_figures);
  Shared shared(configuration, memory, control.passive(), control.outliers(), pages, event_figures, log);
  shared.access_log = access_log->get();
  pages.set_access_log(shared.access_log);
  pages.set_ejections(control.outliers().counters());
  shared.certificates = certificates;
  pages.set_certificates(certificates);
  pages.set_reloads(&reloads);
  events.bind(shared.workers);
  const Predecessor predecessor(std::move(taken_over.socket));
  pages.set_predecessor(predecessor);
  AdminCounters admin_counters;
  pages.set_admin(admin_counters);
  std::optional<AdminServer> admin;
  std::vector<int> more_listeners;
  if (*admin_listener) {
    more_listeners.push_back(admin_listener->get());
    admin.emplace(control.loop(), std::move(*admin_listener), *first->options, configuration, pages, events,
                  predecessor, admin_counters, event_figures, log);
  }

  shared.client_cap = descriptors.client_cap;
  shared.client_burst = descriptors.client_burst;
  shared.listeners = std::move(*listeners);
  std::vector<std::unique_ptr<Worker>> workers;
  const auto seed = static_cast<std::uint64_t>(wall_now_us());
  for (std::uint32_t index = 0; index < worker_count; ++index) {
    workers.push_back(std::make_unique<Worker>(shared, index, seed + index));
    shared.workers.push_back(workers.back().get());
    pages.add_worker(workers.back()->metrics(), workers.back()->router());
  }
  Reloader reloader(sources, control, shared, reloads);
  if (admin) admin->set_reloader(reloader);
  AutoscaleFigures autoscale_figures;
  std::optional<Autoscale> autoscale;
  if (first->options->autoscale.on()) {
    pages.set_autoscale(autoscale_figures);
    autoscale.emplace(std::move(*autoscale_start), sources, control, reloader, shared, predecessor, events,
                      autoscale_figures);
  }

  EventLoop loop;
  TimerHeap timers(loop);
  Lifecycle lifecycle(loop, timers, shared, pages);
  PidFile pid_file(first->options->pid_file);
  bool serving = false;
  lifecycle.when_serving([&] {
    serving = true;
    predecessor.tell_ready();
    if (admin) admin->start();
    if (auto written = pid_file.write(); !written)
      log.error("the pid file can't be written", {log_key("error", written.error().text)});
  });
  Upgrade upgrade(loop, timers, sources, more_listeners, admin ? &*admin : nullptr,
                  autoscale ? &*autoscale : nullptr, predecessor, events, shared, lifecycle, reloads);
  Signals handler(lifecycle, reloader, upgrade, shared);
  SignalSource signals(loop, {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2}, handler);

  control.start();
  std::vector<std::thread> threads;
  threads.reserve(workers.size());
  for (const auto& worker : workers) threads.emplace_back([&worker] { worker->run(); });
  lifecycle.start();
  log.info("balancer started", {{"version", DLB_VERSION},
                                {"listen", local_address(shared.listeners.front().fd.get()).to_string()},
                                {"backends", first->backends.size()},
                                {"policy", first->options->policy},
                                {"workers", workers.size()},
                                {"pid", ::getpid()}});
  loop.run();

  for (const auto& worker : workers) worker->loop().stop();
  for (std::thread& thread : threads) thread.join();
  control.stop();
  // They are the process' that accepts: not of one that ends before it has taken over.
  if (autoscale && !lifecycle.handed_over() && (serving || !predecessor.was_there())) autoscale->end();
  // The successor may be just about to write it; looking whose it is and removing it would be two steps.
  if (lifecycle.handed_over()) pid_file.leave();
  log.info("balancer stopped", {{"connections_cut", lifecycle.connections_cut()},
                                {"requests_refused", lifecycle.requests_refused()}});
  return 0;
}

}  // namespace
}  // namespace dlb::lb

int main(int argc, char** argv) {
  using namespace dlb;
  using namespace dlb::lb;
  open_missing_standard_streams();
  if (argc > 1 && std::string_view(argv[1]) == "ctl") return ctl_main(argc - 1, argv + 1, environ);
  if (argc == 2 && std::string_view(argv[1]) == "supervise") return supervisor_main();
  if (argc == 2 && std::string_view(argv[1]) == "--metrics-markdown") {  // for the README
    std::printf("%s\n%s\n%s\n%s\n%s\n%s\n%s\n%s\n%s\n%s\n%s", metrics_markdown(lb_metric_rows()).c_str(),
                metrics_markdown(tunnel_metric_rows()).c_str(),
                metrics_markdown(tunnel_backend_metric_rows(), "listener, backend").c_str(),
                metrics_markdown(tls_metric_rows()).c_str(), metrics_markdown(proxy_metric_rows()).c_str(),
                metrics_markdown(outlier_metric_rows()).c_str(),
                metrics_markdown(reload_metric_rows()).c_str(), metrics_markdown(admin_metric_rows()).c_str(),
                metrics_markdown(event_metric_rows()).c_str(),
                metrics_markdown(autoscale_metric_rows()).c_str(),
                metrics_markdown(backend_metric_rows(), "backend").c_str());
    return 0;
  }
  block_signals({SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2});
  Options options;
  auto loaded = load_options(kOptionTable, options, argc, argv, environ);
  if (!loaded) return fail(loaded.error().text, kExitUsage);
  const OptionAction action = loaded->action;
  if (action == OptionAction::Run || action == OptionAction::Check || action == OptionAction::PrintConfig) {
    if (auto finished = finish_options(*loaded, options); !finished)
      return fail(finished.error().text, kExitUsage);
  }
  TlsCertificates certificates;
  const bool with_tls = !options.tls_listen.empty();
  std::vector<std::string> warnings;
  if (with_tls && (action == OptionAction::Run || action == OptionAction::Check)) {
    auto context = TlsCertificates::read(options, *loaded, warnings);
    if (!context) return fail(context.error().text, kExitUsage);
    certificates.use(std::move(*context));
  }
  if (action == OptionAction::Check) {
    for (const std::string& warning : warnings) std::fprintf(stderr, "lb: warning: %s\n", warning.c_str());
  }
  if (const auto code = finish_action(kOptionTable, *loaded, options)) return *code;
  return run(std::move(options), *loaded, {argc, argv, environ}, with_tls ? &certificates : nullptr,
             warnings);
}
