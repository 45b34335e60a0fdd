#include "lb/autoscale.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <csignal>
#include <tuple>
#include <utility>

#include "lb/autoscale_options.h"
#include "lb/handover.h"
#include "lb/instance_mark.h"

namespace dlb::lb {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
using Kind = AutoscaleAction::Kind;
using Request = SupervisorRequest::Kind;

constexpr Duration kPoll = std::chrono::milliseconds(10);
constexpr Duration kAnswer = std::chrono::seconds(2);  // of a supervisor that is asked what it runs
constexpr std::size_t kMailboxCapacity = 8;

bool runs_something(const Backend& backend) { return !backend.idle(); }

bool takes_requests(const Backend& backend, TimePoint now) {
  return backend.healthy.load(kRelaxed) && !backend.taken_out() && !backend.memory_blocked.load(kRelaxed) &&
         backend.weight.load(kRelaxed) != 0 &&
         backend.ejected_until_ns.load(kRelaxed) <= now.time_since_epoch().count();
}

std::uint32_t capacity_of(const Options& options) {
  return static_cast<std::uint32_t>(options.backend_cap != 0 ? options.backend_cap : options.max_inflight);
}

std::uint32_t grace_ms(const Options& options) {
  return static_cast<std::uint32_t>(options.autoscale.stop_timeout.count() / 1'000'000);
}

// Nobody listens there: a foreign process' answers must not pass for an instance's.
bool is_free(std::uint16_t port) {
  const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return socket && ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
         ::listen(socket.get(), 1) == 0;
}

}  // namespace

Result<AutoscaleStart> start_autoscale(Options& options, Fd handed_over, const OptionSources& sources,
                                       Log& log) {
  AutoscaleStart start;
  if (!options.autoscale.on()) return start;
  if (handed_over) {
    auto link = SupervisorLink::take_over(std::move(handed_over), kAnswer, start.children);
    if (link) start.link = std::move(*link);
    if (!link) log.warn("autoscale: the supervisor that was handed over does not answer; another is started");
  }
  if (!start.link) {
    auto link = SupervisorLink::start(sources.environment);
    if (!link) return link.error();
    start.link = std::move(*link);
  }
  for (const SupervisedChild& child : start.children) {
    if (child.state == ChildState::Running) options.backends.push_back(instance_backend(child.port));
  }
  return start;
}

Autoscale::Autoscale(AutoscaleStart start, const OptionSources& sources, Control& control, Reloader& reloader,
                     Shared& shared, const Predecessor& predecessor, BackendEvents& events,
                     AutoscaleFigures& figures)
    : sources_(sources),
      control_(control),
      reloader_(reloader),
      shared_(shared),
      predecessor_(predecessor),
      events_(events),
      figures_(figures),
      link_(std::move(start.link)),
      scaler_(autoscale_rules(shared.configuration.current()->options->autoscale)),
      timer_(control.timers(), *this),
      stop_timer_(control.timers(), *this),
      mail_(control.loop(), *this, kMailboxCapacity) {
  figures_.on.store(true, kRelaxed);
  const auto configuration = shared_.configuration.current();
  std::vector<BackendOption> rows;
  for (const SupervisedChild& child : start.children) {
    Instance one{.port = child.port};
    std::ignore = one.life.hear(&child);
    if (one.life.ended) {
      one.stop = Stop::Told;
      forget(one);
      instances_.push_back(std::move(one));
      continue;
    }
    const std::string id = instance_backend(child.port).id;
    for (const std::uint32_t index : configuration->backends.members()) {
      if (configuration->backends.at(index).id == id) one.backend = configuration->backends.shared_at(index);
    }
    if (one.backend != nullptr) rows.push_back(instance_backend(child.port));
    if (one.backend == nullptr) one.stop = Stop::Told;
    last_port_ = child.port;
    instances_.push_back(std::move(one));
  }
  reloader_.adopt_instances(std::move(rows));
  listen();
  timer_.arm_at(monotonic_now());
}

Autoscale::~Autoscale() {
  if (link_) control_.loop().remove(source_, link_.fd());
}

// From a link that is new here.
void Autoscale::listen() {
  if (auto added = control_.loop().add(link_.fd(), *this); added) source_ = *added;
  grace_told_ = 0;
}

void Autoscale::freeze() {
  const std::lock_guard lock(mutex_);
  frozen_ = true;
}

void Autoscale::on_mail(AutoscaleMail) {
  const std::lock_guard lock(mutex_);
  frozen_ = false;
  stop_timer_.arm_at(control_.loop().now());
  std::ignore = link_.send({.kind = Request::List});  // what the other process has been told is lost here
  hear();  // what has come meanwhile, its end too, brings no edge any more
}

void Autoscale::end() {
  if (!link_) return;
  control_.loop().remove(std::exchange(source_, {}), link_.fd(), false);
  const Duration grace = shared_.configuration.current()->options->autoscale.stop_timeout;
  shared_.log.info("autoscale: ending instances", {{"instances", instances_.size()}});
  const int pid = link_.pid();
  if (!link_.end(grace + std::chrono::seconds(4)))
    shared_.log.error("autoscale: the supervisor has not ended; it goes on killing its instances",
                      {{"pid", pid}});
}

void Autoscale::on_events(std::uint32_t) {
  const std::lock_guard lock(mutex_);
  hear();
}

void Autoscale::hear() {
  if (frozen_ || !link_) return;
  bool gone = false;
  const auto state = link_.receive(gone);
  if (state) take_state(*state);
  if (gone) lose_supervisor();
  if (state || gone) tell_figures();
}

void Autoscale::on_heap_timer(HeapTimer& timer) {
  const std::lock_guard lock(mutex_);
  if (&timer == &stop_timer_) return finish_stops();
  const auto configuration = shared_.configuration.current();
  timer_.arm_at(control_.loop().now() + configuration->options->autoscale.interval);
  if (frozen_ || shared_.draining.load(kRelaxed)) return;
  turn();
  tell_figures();
}

Autoscale::Instance* Autoscale::find(std::uint32_t port) {
  const auto found = std::ranges::find(instances_, port, &Instance::port);
  return found == instances_.end() ? nullptr : &*found;
}

void Autoscale::note(std::string_view action, std::string instance, std::string reason) {
  shared_.log.info("autoscale: " + std::string(action), {{"instance", instance}, {"reason", reason}});
  figures_.note({action, std::move(instance), std::move(reason), wall_now_us()});
}

// --- what the supervisor says

void Autoscale::take_state(const std::vector<SupervisedChild>& children) {
  bool changed = false;
  const auto state_of = [&](std::uint16_t port) {
    const auto found = std::ranges::find(children, port, &SupervisedChild::port);
    return found == children.end() ? nullptr : &*found;
  };
  for (const SupervisedChild& child : children) {
    if (find(child.port) != nullptr) continue;
    // Of an upgrade that failed: the other process has started it.
    instances_.push_back(
        {.port = child.port, .stop = child.state == ChildState::Running ? Stop::No : Stop::Told});
    changed = true;
  }
  std::erase_if(instances_, [&](Instance& one) {
    const bool known = one.life.ended;
    const InstanceLife::News news = one.life.hear(state_of(one.port));
    if (news == InstanceLife::News::None) return false;
    if (!known) note_ended(one, one.life.ended ? status_text(one.life.status) : "unknown to the supervisor");
    if (news == InstanceLife::News::Ended) forget(one);
    changed = changed || !known;
    return news == InstanceLife::News::Over;
  });
  if (changed) publish();
}

void Autoscale::forget(const Instance& one) const {
  std::ignore = link_.send({.kind = Request::Forget, .number = one.port});
}

void Autoscale::note_ended(const Instance& instance, const std::string& how) {
  const std::string id = instance_backend(instance.port).id;
  if (instance.stop == Stop::Told) {
    shared_.log.info("autoscale: instance ended", {{"instance", id}, {"how", how}});
    return;
  }
  shared_.log.warn("autoscale: instance ended by itself", {log_key("instance", id), {"how", how}});
  figures_.note({"ended", id, "by itself: " + how, wall_now_us()});
  if (instance.been_up) figures_.replacements.fetch_add(1, kRelaxed);
}

// Its children have been killed with it.
void Autoscale::lose_supervisor() {
  shared_.log.error("autoscale: the supervisor has ended, and its instances with it");
  control_.loop().remove(std::exchange(source_, {}), link_.fd());
  if (const int pid = link_.pid(); !link_.bury())
    shared_.log.error("autoscale: the supervisor's process does not end and is left", {{"pid", pid}});
  for (const Instance& one : instances_) {
    if (one.life.ended) continue;
    note_ended(one, "with the supervisor");
    const int head = one.life.pid;
    if (head <= 0) continue;
    ::kill(-head, SIGKILL);  // what a shell in between has started
    for (const int pid : marked_processes(instance_mark(one.port, head))) ::kill(pid, SIGKILL);
  }
  instances_.clear();
  publish();
}

// --- a turn

InstanceFacts Autoscale::facts_of(Instance& instance, const Options& options, TimePoint now) const {
  InstanceFacts facts{
      .id = instance.port, .stopping = instance.stop != Stop::No, .capacity = capacity_of(options)};
  if (instance.backend == nullptr) return facts;
  const Backend& backend = *instance.backend;
  facts.healthy = backend.healthy.load(kRelaxed) && !backend.gone();
  instance.been_up = instance.been_up || facts.healthy;
  facts.available = takes_requests(backend, now);
  facts.draining = backend.admin.load(kRelaxed) != AdminState::Ready;
  facts.busy = runs_something(backend);
  facts.in_flight = backend.slots.taken();
  facts.requests = instance.requests_seen = backend.counters.requests.load(kRelaxed);
  return facts;
}

// The backends of the file.
void Autoscale::look_at_others(AutoscaleView& view, const Configuration& configuration, TimePoint now) const {
  const std::uint32_t capacity = capacity_of(*configuration.options);
  for (const std::uint32_t index : configuration.backends.members()) {
    const Backend& backend = configuration.backends.at(index);
    const bool ours =
        std::ranges::any_of(instances_, [&](const Instance& one) { return one.backend.get() == &backend; });
    if (ours || !takes_requests(backend, now)) continue;
    view.others_capacity += capacity;
    view.others_in_flight += backend.slots.taken();
    if (backend.slots.taken() < capacity) view.others_full = false;
  }
}

void Autoscale::turn() {
  const auto configuration = shared_.configuration.current();
  const Options& options = *configuration->options;
  const TimePoint now = control_.loop().now();
  scaler_.set_rules(autoscale_rules(options.autoscale));
  if (const std::uint32_t grace = grace_ms(options);
      grace_told_ != grace && link_ && link_.send({.kind = Request::Grace, .number = grace}))
    grace_told_ = grace;
  std::vector<InstanceFacts> facts;
  for (Instance& one : instances_) {
    if (one.life.ended) forget(one);  // again: a request is lost on a supervisor that has not read for long
  }
  for (Instance& one : instances_) facts.push_back(facts_of(one, options, now));
  AutoscaleView view{
      .instances = facts, .waiting = shared_.waiting.taken(), .may_shrink = !predecessor_.alive()};
  look_at_others(view, *configuration, now);
  for (const AutoscaleAction& action : scaler_.turn(view, now)) carry_out(action);
  rest();
}

void Autoscale::carry_out(const AutoscaleAction& action) {
  if (action.kind == Kind::Start) return start_one(action.reason);
  Instance* const one = find(action.id);
  if (one == nullptr) return;
  const std::string id = instance_backend(one->port).id;
  switch (action.kind) {
    case Kind::Drain:
      if (!drain(*one, false))
        return shared_.log.info("autoscale: not drained, a request came", {{"instance", id}});
      break;
    case Kind::Replace:
      if (one->been_up) figures_.replacements.fetch_add(1, kRelaxed);
      one->replaced = true;
      std::ignore = drain(*one, true);
      break;
    case Kind::Stop:
      figures_.stops.fetch_add(1, kRelaxed);
      leave(*one);
      break;
    case Kind::Kill:
      figures_.kills.fetch_add(1, kRelaxed);
      std::ignore = link_.send({.kind = Request::Kill, .number = one->port});
      break;
    case Kind::Start:
      return;
  }
  note(action_name(action.kind), id, action.reason);
}

// The ports take turns, so that nothing that is still on its way to one process meets the next.
std::uint16_t Autoscale::free_port() const {
  const AutoscaleOptions& scale = shared_.configuration.current()->options->autoscale;
  const int count = scale.last_port - scale.first_port + 1;
  const int begin =
      last_port_ >= scale.first_port && last_port_ < scale.last_port ? last_port_ + 1 - scale.first_port : 0;
  for (int i = 0; i < count; ++i) {
    const auto port = static_cast<std::uint16_t>(scale.first_port + (begin + i) % count);
    const bool ours =
        std::ranges::any_of(instances_, [port](const Instance& one) { return one.port == port; });
    if (!ours && is_free(port)) return port;
  }
  return 0;
}

void Autoscale::start_one(const std::string& reason) {
  const auto configuration = shared_.configuration.current();
  const Options& options = *configuration->options;
  std::string problem;
  if (!link_) {
    auto link = SupervisorLink::start(sources_.environment);
    if (link) {
      link_ = std::move(*link);
      listen();
    } else {
      problem = link.error().text;
    }
  }
  const std::uint16_t port = free_port();
  if (port == 0)
    problem = "all ports of " + options.autoscale.ports + " are taken, by instances or by others";
  if (problem.empty() && !link_.send({Request::Start, port, instance_command(options.autoscale, port)})) {
    problem = "the supervisor takes no requests";
  }
  figures_.set_problem(problem);
  if (!problem.empty()) {
    return shared_.log.error("autoscale: no instance can be started", {log_key("reason", problem)});
  }
  figures_.starts.fetch_add(1, kRelaxed);
  note(action_name(Kind::Start), instance_backend(port).id, reason);
  last_port_ = port;
  instances_.push_back({.port = port});
  publish();
}

// Requests that a worker has placed before it sees the drain go on; one that came before the decision was
// made takes it back.
bool Autoscale::drain(Instance& instance, bool anyway) {
  if (instance.backend == nullptr) return true;
  Backend& backend = *instance.backend;
  backend.admin.store(AdminState::Drain, std::memory_order_seq_cst);
  const bool drawn = !anyway && backend.counters.requests.load(kRelaxed) != instance.requests_seen;
  if (drawn) backend.admin.store(AdminState::Ready, kRelaxed);
  tell_of_setting(shared_.configuration.current()->backends, backend, events_);
  return !drawn;
}

void Autoscale::leave(Instance& instance) {
  instance.stop = Stop::Leaving;
  publish();
  instance.left_with = shared_.configuration.current()->serial;
  stop_timer_.arm_at(control_.loop().now());
}

// A worker that has taken the configuration over has placed its last request there; what it placed when
// nothing ran on it any more is waited for, until the Autoscaler has it killed.
void Autoscale::finish_stops() {
  if (frozen_) return;  // the new process finds it running, and decides anew
  bool waiting = false;
  for (Instance& one : instances_) {
    if (one.stop != Stop::Leaving) continue;
    const bool runs = !one.replaced && one.backend != nullptr && runs_something(*one.backend);
    if (runs || reloader_.seen_by_all() < one.left_with) {
      waiting = true;
      continue;
    }
    one.stop = Stop::Told;
    std::ignore = link_.send({.kind = Request::Stop, .number = one.port});
  }
  if (waiting) stop_timer_.arm_at(control_.loop().now() + kPoll);
}

// The instances that are to have traffic, as backends of the configuration.
void Autoscale::publish() {
  std::vector<BackendOption> rows;
  for (const Instance& one : instances_) {
    if (one.stop == Stop::No && !one.life.ended) rows.push_back(instance_backend(one.port));
  }
  reloader_.set_instances(std::move(rows));
  const auto configuration = shared_.configuration.current();
  for (Instance& one : instances_) {
    if (one.stop != Stop::No || one.backend != nullptr) continue;
    const std::string id = instance_backend(one.port).id;
    for (const std::uint32_t index : configuration->backends.members()) {
      if (configuration->backends.at(index).id == id) one.backend = configuration->backends.shared_at(index);
    }
  }
}

void Autoscale::rest() {
  bool changed = false;
  for (const Instance& one : instances_) {
    if (one.backend == nullptr) continue;
    const bool rests = scaler_.rests(one.port);
    changed = one.backend->resting.exchange(rests, kRelaxed) != rests || changed;
  }
  if (changed) shared_.configuration.current()->backends.note_change();
}

void Autoscale::tell_figures() {
  std::vector<AutoscaleInstance> told;
  std::uint32_t starting = 0, serving = 0;
  for (const Instance& one : instances_) {
    if (one.life.ended) continue;
    const InstancePhase phase = one.stop != Stop::No ? InstancePhase::Stopping : scaler_.phase(one.port);
    if (phase == InstancePhase::Starting) ++starting;
    if (phase == InstancePhase::Serving) ++serving;
    told.push_back({instance_backend(one.port).id, one.life.pid, phase_name(phase), scaler_.rests(one.port),
                    one.backend != nullptr ? one.backend->slots.taken() : 0});
  }
  figures_.desired.store(scaler_.desired(), kRelaxed);
  figures_.running.store(static_cast<std::uint32_t>(told.size()), kRelaxed);
  figures_.starting.store(starting, kRelaxed);
  figures_.serving.store(serving, kRelaxed);
  figures_.failed_starts.store(scaler_.failed_starts(), kRelaxed);
  figures_.set(std::move(told), scaler_.pressed());
}

}  // namespace dlb::lb
