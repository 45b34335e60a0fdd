#include "backend/drain.h"

#include <algorithm>

namespace dlb::backend {

void DrainState::note_probe(std::uint64_t prober, TimePoint now) {
  const auto begin = probers_.begin();
  const auto end = begin + static_cast<std::ptrdiff_t>(prober_count_);
  auto place = std::find_if(begin, end, [&](const Prober& p) { return p.id == prober; });
  if (place != end) {
    place->interval_before = place->interval;
    place->interval = now - place->last;
    place->last = now;
    if (draining() && !place->told) place->told_at = now;
    place->told = draining();
    return;
  }
  if (prober_count_ < kMaxProbers) {
    ++prober_count_;
  } else {
    place = std::min_element(begin, end, [](const Prober& a, const Prober& b) { return a.last < b.last; });
  }
  *place = Prober{prober, now, {}, {}, draining(), {}};
}

TimePoint DrainState::expected_until(const Prober& prober) {
  const Duration interval = std::max(prober.interval, prober.interval_before);
  if (interval == Duration::zero()) return prober.last + kUnknownWindow;
  return prober.last +
         std::clamp<Duration>(std::min(interval, kProberWindow) * 5 / 2, kShortestWindow, kProberWindow);
}

std::size_t DrainState::untold(TimePoint now) const {
  const auto begin = probers_.begin();
  return static_cast<std::size_t>(
      std::count_if(begin, begin + static_cast<std::ptrdiff_t>(prober_count_),
                    [&](const Prober& p) { return !p.told && expected_until(p) > now; }));
}

TimePoint DrainState::notice_end() const {
  TimePoint end = phase_begin_ + config_.notice;
  const TimePoint latest = std::max(end, phase_begin_ + kProberWindow) + kAfterTelling;
  for (std::size_t i = 0; i < prober_count_; ++i) {
    const Prober& prober = probers_[i];
    if (!prober.told) {
      end = std::max(end, expected_until(prober));
    } else if (prober.told_at != TimePoint{}) {
      end = std::max(end, prober.told_at + kAfterTelling);
    }
  }
  return std::min(end, latest);
}

DrainState::Step DrainState::stop(std::uint64_t running) {
  phase_ = Phase::Stopped;
  Step step;
  step.entered_stopped = true;
  step.cut = running;
  return step;
}

DrainState::Step DrainState::on_signal(TimePoint now, std::uint64_t running) {
  if (phase_ == Phase::Stopped) return {};
  if (phase_ != Phase::Serving) return stop(running);
  phase_ = Phase::Notice;
  phase_begin_ = now;
  Step step = advance(now, running);  // notice may be zero
  step.entered_notice = true;
  return step;
}

DrainState::Step DrainState::advance(TimePoint now, std::uint64_t running) {
  Step step;
  if (phase_ == Phase::Notice && now >= notice_end()) {
    phase_ = Phase::Finishing;
    phase_begin_ = now;
    step.entered_finishing = true;
    return step;
  }
  if (phase_ == Phase::Finishing && (running == 0 || now >= phase_begin_ + config_.timeout)) {
    return stop(running);
  }
  return step;
}

TimePoint DrainState::next_deadline() const {
  switch (phase_) {
    case Phase::Serving:
    case Phase::Stopped:
      return kNever;
    case Phase::Notice:
      return notice_end();
    case Phase::Finishing:
      return phase_begin_ + config_.timeout;
  }
  return kNever;
}

}  // namespace dlb::backend
