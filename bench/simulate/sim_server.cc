#include "bench/simulate/sim_server.h"

#include <algorithm>

namespace dlb::bench {
namespace {

bool within(TimePoint now, TimePoint from, TimePoint until) { return now >= from && now < until; }

}  // namespace

const Episode* SimServer::in(EpisodeKind kind, TimePoint now) const {
  for (const Episode& one : spec_.episodes) {
    if (one.kind == kind && within(now, zero_ + one.from, zero_ + one.from + one.length)) return &one;
  }
  return nullptr;
}

bool SimServer::running(TimePoint now) const {
  if (!on_) return false;
  if (in(EpisodeKind::Refuse, now) != nullptr) return false;
  const Episode* restart = in(EpisodeKind::Restart, now);
  return restart == nullptr || now < zero_ + restart->from + restart->notice;
}

bool SimServer::draining(TimePoint now) const { return in(EpisodeKind::Restart, now) != nullptr; }

bool SimServer::passes(TimePoint now) const {
  if (in(EpisodeKind::Unhealthy, now) != nullptr || now < started_ + spec_.start_up) return false;
  // Starting up, behind a death.
  return std::ranges::none_of(spec_.episodes, [&](const Episode& one) {
    const TimePoint back = zero_ + one.from + one.length;
    return (one.kind == EpisodeKind::Refuse || one.kind == EpisodeKind::Restart) &&
           within(now, back, back + spec_.start_up);
  });
}

double SimServer::share(EpisodeKind kind, TimePoint now) const {
  const Episode* one = in(kind, now);
  return one == nullptr ? 0 : one->share;
}

double SimServer::slowness(TimePoint now) const {
  double out = 1;
  if (const TimePoint warm = started_ + spec_.start_up; within(now, warm, warm + spec_.warm_up))
    out *= spec_.warm_up_factor + (1 - spec_.warm_up_factor) * seconds(now - warm) / seconds(spec_.warm_up);
  for (const Episode& one : spec_.episodes) {
    const TimePoint end = zero_ + one.from + one.length;
    if (one.kind == EpisodeKind::Slow && within(now, zero_ + one.from, end)) out *= one.factor;
    const TimePoint warm = end + spec_.start_up;
    if ((one.kind == EpisodeKind::Refuse || one.kind == EpisodeKind::Restart) &&
        within(now, warm, warm + spec_.warm_up)) {
      const double part = seconds(now - warm) / seconds(spec_.warm_up);
      out *= spec_.warm_up_factor + (1 - spec_.warm_up_factor) * part;
    }
  }
  return out;
}

std::vector<TimePoint> SimServer::deaths() const {
  std::vector<TimePoint> out;
  for (const Episode& one : spec_.episodes) {
    if (one.kind == EpisodeKind::Refuse) out.push_back(zero_ + one.from);
  }
  return out;
}

void SimServer::note_busy(TimePoint now) {
  busy_ns_ += static_cast<double>(active_) * static_cast<double>((now - noted_).count());
  noted_ = now;
}

double SimServer::take_cpu_percent(TimePoint now) {
  note_busy(now);
  const double span = static_cast<double>((now - taken_).count());
  const double busy = std::exchange(busy_ns_, 0);
  taken_ = now;
  if (spec_.capacity == 0 || span <= 0) return -1;
  return 100 * busy / span / static_cast<double>(spec_.capacity);
}

}  // namespace dlb::bench
