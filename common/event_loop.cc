#include "common/event_loop.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "common/check.h"

namespace dlb {
namespace {

constexpr std::uint32_t kNoFree = UINT32_MAX;
constexpr std::uint64_t kWakeTag = UINT64_MAX;
constexpr std::size_t kBatchEvents = 128;  // what a turn may bring; 20 µs each would be half a slow turn
constexpr Duration kLongTurn = std::chrono::milliseconds(5);

std::uint64_t pack(std::uint32_t index, std::uint32_t generation) {
  return (static_cast<std::uint64_t>(generation) << 32) | index;
}

}  // namespace

EventLoop::EventLoop()
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      now_(monotonic_now()),
      free_head_(kNoFree),
      batch_(kBatchEvents) {
  DLB_CHECK_MSG(epoll_ && wake_, "epoll_create1 or eventfd failed: out of descriptors or memory");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kWakeTag;
  DLB_CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) == 0);
}

EventLoop::~EventLoop() = default;

Result<SourceId> EventLoop::add(int fd, EventHandler& handler, std::uint32_t events) {
  std::uint32_t index = free_head_;
  if (index == kNoFree) {
    index = static_cast<std::uint32_t>(sources_.size());
    sources_.emplace_back();
  } else {
    free_head_ = sources_[index].next_free;
  }
  Source& source = sources_[index];
  source.handler = &handler;
  source.runnable = false;
  epoll_event event{};
  event.events = events;
  event.data.u64 = pack(index, source.generation);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    const int err = errno;
    source.handler = nullptr;
    source.next_free = free_head_;
    free_head_ = index;
    return errno_error("epoll_ctl", err);
  }
  return SourceId{index, source.generation};
}

EventLoop::Source* EventLoop::find(SourceId id) {
  if (id.index >= sources_.size()) return nullptr;
  Source& source = sources_[id.index];
  return source.handler != nullptr && source.generation == id.generation ? &source : nullptr;
}

void EventLoop::rebind(SourceId id, EventHandler& handler) {
  Source* source = find(id);
  DLB_CHECK(source != nullptr);
  source->handler = &handler;
}

void EventLoop::remove(SourceId id, int fd, bool closing) {
  Source* source = find(id);
  if (source == nullptr) return;
  if (!closing) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  source->handler = nullptr;
  if (++source->generation == 0) source->generation = 1;
  source->next_free = free_head_;
  free_head_ = id.index;
}

void EventLoop::make_runnable(SourceId id) {
  Source* source = find(id);
  if (source == nullptr || source->runnable) return;
  source->runnable = true;
  runnable_.push_back(id);
}

void EventLoop::add_timer_source(TimerSource& source) { timer_sources_.push_back(&source); }

void EventLoop::remove_timer_source(TimerSource& source) { std::erase(timer_sources_, &source); }

void EventLoop::add_turn_end_hook(TurnEndHook& hook) { hooks_.push_back(&hook); }

void EventLoop::remove_turn_end_hook(TurnEndHook& hook) { std::erase(hooks_, &hook); }

int EventLoop::wait_ms(Duration longest_wait) const {
  if (!runnable_.empty() || stop_.load(std::memory_order_relaxed)) return 0;
  TimePoint earliest = longest_wait == Duration::max() ? kNever : now_ + longest_wait;
  for (const TimerSource* source : timer_sources_) earliest = std::min(earliest, source->next_deadline());
  if (earliest == kNever) return -1;
  if (earliest <= now_) return 0;
  // Rounded up: waking before a deadline would spin until it is due.
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(earliest - now_).count();
  return static_cast<int>(std::min<std::int64_t>(ms, INT_MAX));
}

void EventLoop::run() {
  while (!stop_.load(std::memory_order_acquire)) run_once(Duration::max());
}

void EventLoop::run_once(Duration longest_wait) {
  const int count =
      ::epoll_wait(epoll_.get(), batch_.data(), static_cast<int>(batch_.size()), wait_ms(longest_wait));
  now_ = monotonic_now();
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = batch_[static_cast<std::size_t>(i)];
    if (event.data.u64 == kWakeTag) {
      std::uint64_t drained = 0;
      [[maybe_unused]] const auto got = ::read(wake_.get(), &drained, sizeof drained);
      continue;
    }
    const SourceId id{static_cast<std::uint32_t>(event.data.u64),
                      static_cast<std::uint32_t>(event.data.u64 >> 32)};
    Source* source = find(id);
    if (source == nullptr) {
      ++counters_.stale_events;
      continue;
    }
    ++counters_.events;
    source->handler->on_events(event.events);
  }
  run_runnables();
  run_timers();
  // By index: a hook may add hooks.
  for (std::size_t i = 0; i < hooks_.size(); ++i) hooks_[i]->on_turn_end();

  ++counters_.turns;
  // The next wait's deadlines are reckoned from here, and the turn is measured by the same reading.
  const TimePoint end = monotonic_now();
  const Duration turn = end - now_;
  now_ = end;
  counters_.turn_ns_max = std::max<std::int64_t>(counters_.turn_ns_max, turn.count());
  if (turn > kLongTurn) ++counters_.turns_over_5ms;
}

void EventLoop::run_runnables() {
  runnable_now_.swap(runnable_);
  for (const SourceId id : runnable_now_) {
    Source* source = find(id);
    if (source == nullptr) continue;
    source->runnable = false;
    source->handler->on_events(0);
  }
  runnable_now_.clear();
}

void EventLoop::run_timers() {
  for (std::size_t i = 0; i < timer_sources_.size(); ++i) {
    if (timer_sources_[i]->next_deadline() <= now_) timer_sources_[i]->expire(now_);
  }
}

void EventLoop::stop() {
  stop_.store(true, std::memory_order_release);
  wake();
}

void EventLoop::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);  // full counter: awake anyway
}

}  // namespace dlb
