#include "lb/reloader.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <span>
#include <utility>

#include "common/cgroup.h"
#include "common/service_manager.h"
#include "lb/autoscale_options.h"
#include "lb/backend_changes.h"
#include "lb/descriptors.h"
#include "lb/worker.h"

namespace dlb::lb {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
// One request that has not been looked at, and one answer.
constexpr std::size_t kMailboxCapacity = 2;
constexpr std::int64_t kMaxWorkers = 64;  // a bit each in Shared::waiting_workers
constexpr std::size_t kNamesLogged = 400;
constexpr std::string_view kStopping = "this process is stopping: nothing is read again";

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    if (text.size() > kNamesLogged) return text + ", ...";
    if (!text.empty()) text += ", ";
    text += name;
  }
  return text.empty() ? "none" : text;
}

}  // namespace

struct Reloader::Reading {
  std::mutex mutex;
  Mailbox<ReloadMail>* answer_to = nullptr;  // under mutex; null: nobody is there any more
};

void resolve_workers(Options& options) {
  if (options.workers == 0) options.workers = std::min<std::int64_t>(Cgroup().cpu_count(), kMaxWorkers);
}

ReadConfiguration read_configuration(const OptionSources& sources) {
  ReadConfiguration read;
  auto options = std::make_shared<Options>();
  const auto loaded = load_options(kOptionTable, *options, sources.argc, sources.argv, sources.environment);
  if (!loaded) {
    read.error = loaded.error().text;
    return read;
  }
  if (const auto finished = finish_options(*loaded, *options); !finished) {
    read.error = finished.error().text;
    return read;
  }
  resolve_workers(*options);
  if (!options->tls_listen.empty()) {
    auto context = TlsCertificates::read(*options, *loaded, read.warnings);
    if (!context) {
      read.error = context.error().text;
      read.certificate_bad = true;
      return read;
    }
    read.tls = std::move(*context);
  }
  read.options = std::move(options);
  return read;
}

Reloader::Reloader(const OptionSources& sources, Control& control, Shared& shared, ReloadFigures& figures)
    : sources_(sources),
      control_(control),
      shared_(shared),
      figures_(figures),
      mail_(control.loop(), *this, kMailboxCapacity),
      timer_(control.timers(), *this) {}

Reloader::~Reloader() {
  if (reading_ == nullptr) return;
  {
    const std::lock_guard lock(reading_->mutex);
    reading_->answer_to = nullptr;
  }
  thread_.detach();  // a name lookup may take long: nobody waits for it
}

void Reloader::request() {
  if (!requested_.exchange(true, std::memory_order_acq_rel)) std::ignore = mail_.post({});
}

void Reloader::on_mail(ReloadMail mail) {
  if (mail.read == nullptr) {
    requested_.store(false, std::memory_order_release);
    if (shared_.draining.load(kRelaxed)) {
      shared_.log.info("SIGHUP: stopping, nothing is read again");
      if (watcher_ != nullptr && reading_ == nullptr) watcher_->on_reload_begins();
      if (reading_ == nullptr) end({.error = std::string(kStopping)});
      return;
    }
    if (reading_ == nullptr) return begin_reading();
    again_ = true;  // it may have read the file already
    return;
  }
  thread_.join();
  reading_.reset();
  if (!shared_.draining.load(kRelaxed)) {
    mail.read->options == nullptr ? refuse(*mail.read) : take(*mail.read);
    notify_service_manager("READY=1");
  } else {
    end({.error = std::string(kStopping)});
  }
  if (std::exchange(again_, false)) begin_reading();
}

void Reloader::begin_reading() {
  began_ = control_.loop().now();
  if (watcher_ != nullptr) watcher_->on_reload_begins();
  char usec[64];
  notify_service_manager("RELOADING=1\n" + std::string(monotonic_usec_line(usec)));
  reading_ = std::make_shared<Reading>();
  reading_->answer_to = &mail_;
  thread_ = std::thread([sources = sources_, reading = reading_] {
    auto read = std::make_shared<ReadConfiguration>(read_configuration(sources));
    const std::lock_guard lock(reading->mutex);
    if (reading->answer_to != nullptr) std::ignore = reading->answer_to->post({std::move(read)});
  });
}

void Reloader::refuse(const ReadConfiguration& read) {
  figures_.last_error.set(read.error, wall_now_us());
  figures_.failed.fetch_add(1, std::memory_order_release);  // whoever sees it counted finds the error
  if (read.certificate_bad && shared_.certificates != nullptr) shared_.certificates->note_refused();
  shared_.log.error("reload refused: the configuration in force stays", {log_key("error", read.error)});
  end({.error = read.error});
}

void Reloader::end(const ReloadOutcome& outcome) const {
  if (watcher_ != nullptr) watcher_->on_reload_ends(outcome);
}

void Reloader::take(ReadConfiguration& read) {
  const auto current = shared_.configuration.current();
  const Options& before = *current->options;
  for (const std::string& warning : read.warnings) shared_.log.warn(warning);
  const std::size_t of_the_file = read.options->backends.size();
  read.options->backends.insert(read.options->backends.end(), instances_.begin(), instances_.end());
  const OptionChanges changes = settle_options(before, *read.options);
  if (read.options->backends.empty() && !read.options->autoscale.on()) {
    read.error = "no backends: [autoscale] in their place takes a restart";
    return refuse(read);
  }
  // The file may have been judged as one without [autoscale], which stays.
  read.error = autoscale_clash(read.options->autoscale, std::span(read.options->backends).first(of_the_file));
  if (!read.error.empty()) return refuse(read);
  const std::shared_ptr<const Options> after = std::move(read.options);
  BackendChanges backends = change_backends(current->backends, before, *after, seen_by_all());

  const DescriptorNeeds needs = descriptor_needs(*after, backends.set.size());
  if (needs != descriptor_needs(before, current->backends.size())) {
    const DescriptorPlan plan = raise_descriptor_limit(*after, backends.set.size(), shared_.log);
    shared_.client_cap.store(plan.client_cap, kRelaxed);
    shared_.client_burst.store(plan.client_burst, kRelaxed);
  }
  shared_.log.set_level(parse_log_level(after->log_level).value_or(LogLevel::Info));
  if (shared_.certificates != nullptr && read.tls != nullptr) shared_.certificates->use(std::move(read.tls));

  leaving_ = backends.leaving;
  Configuration next{.options = after,
                     .backends = std::move(backends.set),
                     .pools = {},
                     .generation = current->generation + 1,
                     .serial = current->serial + 1,
                     .loaded_at_us = wall_now_us()};
  next.pools = make_tunnel_pools(*after, next.backends, current->pools, true);
  figures_.succeeded.fetch_add(1, kRelaxed);
  figures_.settling.store(true, kRelaxed);
  settling_ = true;
  settled_by_ = control_.loop().now() + after->monitor_timeout;
  publish(std::move(next));
  tell(changes, backends.added.size(), leaving_.size());
  end({.generation = shared_.configuration.current()->generation,
       .changed = changes.live,
       .needs_restart = changes.restart,
       .backends_added = backends.added.size(),
       .backends_leaving = leaving_.size()});
}

void Reloader::tell(const OptionChanges& changes, std::size_t added, std::size_t leaving) const {
  for (const std::string& name : changes.restart) {
    shared_.log.warn("this option needs a restart, it stays as it was", {log_key("option", name)});
  }
  shared_.log.info("configuration reloaded",
                   {{"generation", shared_.configuration.current()->generation},
                    {"changed", joined(changes.live)},
                    {"backends_added", added},
                    {"backends_leaving", leaving},
                    {"took_ms", (control_.loop().now() - began_).count() / 1'000'000}});
}

// Checks begin with the loop's next turn, after the mail: whoever hears of a backend that came up knows its
// index already.
void Reloader::publish(Configuration next) {
  const auto configuration = std::make_shared<const Configuration>(std::move(next));
  shared_.configuration.set(configuration);
  control_.apply(configuration);
  tell_workers();
  configuration->backends.note_change();
  timer_.arm_at(control_.loop().now() + kPoll);
}

void Reloader::tell_workers() {
  mail_lost_ = false;
  for (Worker* worker : shared_.workers) mail_lost_ |= !worker->post({WorkerMail::Kind::Configure});
}

void Reloader::set_instances(std::vector<BackendOption> instances) {
  const auto current = shared_.configuration.current();
  auto after = std::make_shared<Options>(*current->options);
  after->backends.resize(after->backends.size() - instances_.size());
  after->backends.insert(after->backends.end(), instances.begin(), instances.end());
  BackendChanges changes = change_backends(current->backends, *current->options, *after, seen_by_all());
  std::vector<std::uint32_t> gone;
  std::erase_if(changes.leaving, [&](std::uint32_t index) {
    const bool ours = std::ranges::count(instances_, changes.set.at(index).id, &BackendOption::id) != 0;
    if (ours) gone.push_back(index);
    return ours;
  });
  leaving_ = changes.leaving;
  instances_ = std::move(instances);
  Configuration next = *current;
  next.options = std::move(after);
  next.backends = std::move(changes.set);
  ++next.serial;
  next.pools = make_tunnel_pools(*next.options, next.backends, current->pools, settling_);
  retire_backends(next.backends, gone, next.serial);
  for (const std::uint32_t index : changes.added) {
    next.backends.at(index).admin.store(AdminState::Ready, kRelaxed);
    next.backends.at(index).resting.store(false, kRelaxed);
  }
  publish(std::move(next));
}

// Every backend of the configuration has had a check, ever.
bool Reloader::checked() const {
  const auto current = shared_.configuration.current();
  for (const std::uint32_t index : current->backends.members()) {
    if (current->backends.at(index).checked_at_ns.load(kRelaxed) == 0) return false;
  }
  for (const auto& pool : current->pools) {
    for (const auto& backend : pool->backends) {
      if (backend->http == nullptr && !backend->checked.load(kRelaxed)) return false;
    }
  }
  return true;
}

std::uint64_t Reloader::seen_by_all() const {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (const Worker* worker : shared_.workers) least = std::min(least, worker->configured());
  return least;
}

bool Reloader::taken_over() const {
  const std::uint64_t serial = shared_.configuration.current()->serial;
  return std::ranges::all_of(shared_.workers,
                             [&](const Worker* worker) { return worker->configured() >= serial; });
}

void Reloader::settle() {
  settling_ = false;
  const auto current = shared_.configuration.current();
  Configuration next = *current;
  ++next.serial;
  next.pools = make_tunnel_pools(*next.options, next.backends, current->pools, false);
  const bool same_pools = std::ranges::equal(next.pools, current->pools, [](const auto& a, const auto& b) {
    return a->backends.size() == b->backends.size();
  });
  if (leaving_.empty() && same_pools) return;
  retire_backends(next.backends, leaving_, next.serial);
  for (const std::uint32_t index : std::exchange(leaving_, {})) {
    shared_.log.info("backend gone", {{"backend", next.backends.at(index).id}});
  }
  publish(std::move(next));
}

void Reloader::on_heap_timer(HeapTimer&) {
  const TimePoint now = control_.loop().now();
  // Not before every worker knows those that came: one that has been slow to take its mail would have nobody.
  if (settling_ && taken_over() && (checked() || now >= settled_by_)) settle();
  if (!settling_ && taken_over()) return figures_.settling.store(false, kRelaxed);
  if (mail_lost_) tell_workers();
  timer_.arm_at(now + kPoll);
}

}  // namespace dlb::lb
