#include "lb/policy/autoscaler.h"

#include <algorithm>
#include <utility>

namespace dlb::lb {
namespace {

using Kind = AutoscaleAction::Kind;

constexpr Duration kFirstBackOff = std::chrono::seconds(1);
constexpr Duration kLongestBackOff = std::chrono::seconds(60);
// Who ends sooner after having come up counts as a start that failed.
constexpr Duration kStable = std::chrono::seconds(10);
// Of the awake ones' capacity: over the first another wakes, below the second without one it may rest.
constexpr std::uint64_t kWakePercent = 80, kRestPercent = 60;

bool leaving(const InstanceFacts& facts) { return facts.draining || facts.stopping; }
bool full(const InstanceFacts& facts) { return !facts.available || facts.in_flight >= facts.capacity; }

std::string count_of(std::uint64_t number, std::string_view one, std::string_view many) {
  return std::to_string(number) + ' ' + std::string(number == 1 ? one : many);
}

std::string time_text(Duration duration) {
  const auto ms = duration.count() / 1'000'000;
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms";
}

}  // namespace

std::string_view phase_name(InstancePhase phase) {
  constexpr std::string_view kNames[] = {"starting", "serving", "draining", "stopping"};
  return kNames[static_cast<std::size_t>(phase)];
}

std::string_view action_name(AutoscaleAction::Kind kind) {
  constexpr std::string_view kNames[] = {"start", "drain", "stop", "replace", "kill"};
  return kNames[static_cast<std::size_t>(kind)];
}

InstancePhase Autoscaler::phase(std::uint32_t id) const {
  const auto found = memory_.find(id);
  if (found == memory_.end()) return InstancePhase::Starting;
  const Memory& memory = found->second;
  if (memory.stopping) return InstancePhase::Stopping;
  if (memory.draining) return InstancePhase::Draining;
  return memory.been_up ? InstancePhase::Serving : InstancePhase::Starting;
}

bool Autoscaler::rests(std::uint32_t id) const {
  const auto found = memory_.find(id);
  return found != memory_.end() && found->second.rests;
}

void Autoscaler::act(Kind kind, std::uint32_t id, std::string reason) {
  actions_.push_back({kind, id, std::move(reason)});
}

void Autoscaler::note_failed_start(TimePoint now) {
  ++failed_starts_;
  if (now < next_start_) return;  // of the same attempt
  failures_in_row_ = std::min(failures_in_row_ + 1, 16U);
  next_start_ = now + std::min(kLongestBackOff, kFirstBackOff * (1 << (failures_in_row_ - 1)));
}

std::vector<AutoscaleAction> Autoscaler::turn(const AutoscaleView& view, TimePoint now) {
  actions_.clear();
  observe(view, now);
  const Counts counts = count(view);
  settle_desired(counts);
  if (!counts.pressed || counts.starting != 0) {  // judged with those that are about to come
    pressed_since_ = {};
  } else if (pressed_since_ == TimePoint{}) {
    pressed_since_ = now;
  }
  rest(view);
  finish_leaving(view, now);
  replace(view, now);
  grow(view, counts, now);
  start(view, now);
  if (actions_.empty() && view.may_shrink) shrink(view, now);
  return std::exchange(actions_, {});
}

void Autoscaler::settle_desired(const Counts& counts) {
  if (desired_ == 0) desired_ = counts.live;
  if (counts.starting == 0) {
    if (counts.live < desired_ && !counts.pressed) desired_ -= std::min(grown_, desired_ - counts.live);
    if (counts.live >= desired_ || !counts.pressed) grown_ = 0;
  }
  desired_ = std::clamp(desired_, rules_.min, rules_.max);
}

// What has become of everyone since the last turn.
void Autoscaler::observe(const AutoscaleView& view, TimePoint now) {
  for (auto& [id, memory] : memory_) memory.seen = false;
  for (const InstanceFacts& facts : view.instances) {
    if (!memory_.contains(facts.id)) expected_ -= std::min(expected_, 1U);
    observe_one(facts, now);
  }
  for (; expected_ > 0; --expected_) note_failed_start(now);  // gone before they could be seen
  for (auto one = memory_.begin(); one != memory_.end();) {
    const Memory& memory = one->second;
    if (memory.seen) {
      ++one;
      continue;
    }
    // Gone. On its own: too early, or one to be replaced.
    if (!memory.stopping && !memory.draining) {
      if (!memory.been_up || now - memory.since < kStable) note_failed_start(now);
      why_more_ = "in place of one that has ended";
    }
    one = memory_.erase(one);
  }
}

void Autoscaler::observe_one(const InstanceFacts& facts, TimePoint now) {
  const bool is_new = !memory_.contains(facts.id);
  Memory& memory = memory_[facts.id];
  memory.seen = true;
  if (is_new) {
    memory.since = memory.idle_since = now;
    memory.draining = facts.draining;
  }
  if (facts.healthy && !memory.been_up) {
    memory.been_up = true;
    memory.since = memory.idle_since = now;
  }
  if (facts.healthy && now - memory.since >= kStable) failures_in_row_ = 0;
  if (facts.healthy) {
    memory.down_since = {};
  } else if (memory.down_since == TimePoint{}) {
    memory.down_since = now;
  }
  if (facts.busy || facts.in_flight != 0 || facts.requests != memory.requests) memory.idle_since = now;
  memory.requests = facts.requests;
  if (facts.stopping && !memory.stopping) memory.stop_since = now;
  memory.stopping = facts.stopping;
  // Somebody else's drain, or one of ours that was taken back.
  if (facts.draining != std::exchange(memory.draining, facts.draining) && desired_ != 0 && !facts.stopping) {
    desired_ = facts.draining ? std::max(desired_ - 1, rules_.min) : std::min(desired_ + 1, rules_.max);
  }
}

Autoscaler::Counts Autoscaler::count(const AutoscaleView& view) const {
  Counts counts;
  bool room = !view.others_full;
  for (const InstanceFacts& facts : view.instances) {
    if (leaving(facts)) continue;
    ++counts.live;
    if (!memory_.at(facts.id).been_up) ++counts.starting;
    if (!facts.healthy) continue;
    ++counts.healthy;
    room = room || !full(facts);
  }
  const bool anybody = counts.healthy != 0 || view.others_capacity != 0;
  counts.pressed = view.waiting != 0 || (anybody && !room);
  return counts;
}

// How many of the eldest are enough, with some distance between enough and too many.
void Autoscaler::rest(const AutoscaleView& view) {
  std::vector<const InstanceFacts*> usable;
  std::uint64_t load = view.others_in_flight;
  std::size_t awake = 0;
  for (const InstanceFacts& facts : view.instances) {
    Memory& memory = memory_.at(facts.id);
    if (leaving(facts) || !facts.available) {
      memory.rests = false;
      continue;
    }
    usable.push_back(&facts);
    load += facts.in_flight;
    if (!memory.rests) ++awake;
  }
  const auto least = std::min<std::size_t>(rules_.min, usable.size());
  awake = std::max(awake, least);
  const auto capacity = [&](std::size_t first) {
    std::uint64_t sum = view.others_capacity;
    for (std::size_t i = 0; i < first; ++i) sum += usable[i]->capacity;
    return sum;
  };
  if (view.waiting != 0) awake = usable.size();
  while (awake < usable.size() && load * 100 > capacity(awake) * kWakePercent) ++awake;
  while (awake > least && view.waiting == 0 && load * 100 <= capacity(awake - 1) * kRestPercent) --awake;
  for (std::size_t i = 0; i < usable.size(); ++i) memory_.at(usable[i]->id).rests = i >= awake;
}

void Autoscaler::finish_leaving(const AutoscaleView& view, TimePoint now) {
  for (const InstanceFacts& facts : view.instances) {
    Memory& memory = memory_.at(facts.id);
    if (facts.stopping) {
      if (now - memory.stop_since < rules_.stop_timeout) continue;
      memory.stop_since = now;  // and once more, should that not be enough
      act(Kind::Kill, facts.id, "it has not ended within " + time_text(rules_.stop_timeout));
    } else if (facts.draining && !facts.busy && (view.may_shrink || memory.replaced)) {
      act(Kind::Stop, facts.id, "nothing runs on it any more");
    } else if (facts.draining && memory.replaced && now - memory.stop_since >= rules_.stop_timeout) {
      act(Kind::Stop, facts.id, "what runs on it has had " + time_text(rules_.stop_timeout));
    }
  }
}

// Of those whose checks fail for good, one at a time: what ails them all is not cured by new processes.
void Autoscaler::replace(const AutoscaleView& view, TimePoint now) {
  bool busy = std::ranges::any_of(view.instances, [this](const InstanceFacts& facts) {
    return facts.stopping || memory_.at(facts.id).replaced ||
           (!leaving(facts) && !memory_.at(facts.id).been_up);
  });
  for (const InstanceFacts& facts : view.instances) {
    Memory& memory = memory_.at(facts.id);
    if (leaving(facts) || facts.healthy) continue;
    if (!memory.been_up && now - memory.since >= rules_.start_timeout) {
      note_failed_start(now);
      act(Kind::Replace, facts.id, "not healthy within " + time_text(rules_.start_timeout));
    } else if (memory.been_up && !busy && now >= next_start_ &&
               now - memory.down_since >= rules_.replace_after) {
      busy = true;
      act(Kind::Replace, facts.id, "its checks have failed for " + time_text(rules_.replace_after));
    } else {
      continue;
    }
    memory.draining = memory.replaced = true;
    memory.stop_since = now;
    why_more_ = "in place of one that fails";
  }
}

void Autoscaler::grow(const AutoscaleView& view, const Counts& counts, TimePoint now) {
  if (pressed_since_ == TimePoint{} || now - pressed_since_ < rules_.up_after) return;
  if (counts.starting != 0 || counts.live < desired_ || desired_ >= rules_.max) return;
  std::uint32_t capacity = 1;
  for (const InstanceFacts& facts : view.instances) capacity = std::max(capacity, facts.capacity);
  const std::uint32_t wanted = std::max(1U, (view.waiting + capacity - 1) / capacity);
  const std::uint32_t step = std::min({wanted, std::max(1U, counts.healthy), rules_.max - desired_});
  desired_ += step;
  grown_ += step;
  why_more_ = view.waiting != 0
                  ? count_of(view.waiting, "request waits", "requests wait") + ", all are at capacity"
                  : "all have been at capacity for " + time_text(rules_.up_after);
  pressed_since_ = {};
}

void Autoscaler::start(const AutoscaleView& view, TimePoint now) {
  std::uint32_t live = 0, starting = 0, healthy = 0;
  for (const InstanceFacts& facts : view.instances) {
    const Memory& memory = memory_.at(facts.id);
    if (leaving(facts) || memory.draining) continue;
    ++live;
    if (!memory.been_up) ++starting;
    if (facts.healthy) ++healthy;
  }
  const auto total = static_cast<std::uint32_t>(view.instances.size());
  if (live >= desired_ || now < next_start_) return;
  const std::uint32_t at_a_time = failures_in_row_ > 0 ? 1 : std::max(rules_.min, healthy);
  std::uint32_t count = std::min(desired_ - live, rules_.max - std::min(total, rules_.max));
  count = std::min(count, at_a_time - std::min(starting, at_a_time));
  const std::string why = live < rules_.min && why_more_.empty()
                              ? "fewer than min = " + std::to_string(rules_.min)
                          : why_more_.empty() ? "fewer than desired"
                                              : why_more_;
  for (std::uint32_t i = 0; i < count; ++i) act(Kind::Start, 0, why);
  expected_ = count;
  if (count == desired_ - live) why_more_.clear();
}

void Autoscaler::drain(const InstanceFacts& facts, std::string reason) {
  memory_.at(facts.id).draining = true;
  memory_.at(facts.id).rests = false;
  desired_ = std::max(desired_ - 1, rules_.min);
  act(Kind::Drain, facts.id, std::move(reason));
}

void Autoscaler::shrink(const AutoscaleView& view, TimePoint now) {
  std::uint32_t live = 0, healthy = 0;
  const InstanceFacts* idle = nullptr;
  const InstanceFacts* least = nullptr;
  for (const InstanceFacts& facts : view.instances) {
    const Memory& memory = memory_.at(facts.id);
    if (leaving(facts)) continue;
    if (!memory.been_up) return;
    ++live;
    if (facts.healthy) ++healthy;
    if (least == nullptr || facts.in_flight <= least->in_flight) least = &facts;
    if (facts.healthy && !facts.busy && now - memory.idle_since >= rules_.idle_after) idle = &facts;
  }
  const auto spares_one = [&](const InstanceFacts& one) {
    return !one.healthy || healthy > std::max(rules_.min, 1U);
  };
  if (live > rules_.max && least != nullptr && spares_one(*least)) {
    return drain(*least, "more than max = " + std::to_string(rules_.max));
  }
  if (pressed_since_ != TimePoint{} || live <= rules_.min || idle == nullptr || !spares_one(*idle)) return;
  drain(*idle, "idle for " + time_text(rules_.idle_after));
}

}  // namespace dlb::lb
