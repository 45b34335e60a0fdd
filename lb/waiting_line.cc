#include "lb/waiting_line.h"

#include <algorithm>
#include <utility>

namespace dlb::lb {

bool WaitingLine::join_for_slot(Waiter& waiter, std::uint32_t most, TimePoint now) {
  if (!places_.try_reserve(most)) return false;
  slots_.join(waiter, waiter.transport_class(), now);
  observer_.on_line_changed();
  return true;
}

bool WaitingLine::join_for_retry(Waiter& waiter, std::uint32_t failed, const BackendSet& backends,
                                 std::uint32_t most, TimePoint now) {
  const auto sound = [&](const auto& backend) {
    const TimePoint last = last_failure_[backend->index];
    return backend->index != failed && backend->healthy.load(std::memory_order_relaxed) &&
           backend->ejected_until_ns.load(std::memory_order_relaxed) == 0 &&
           (last == TimePoint{} || now - last > kSoundAfter);
  };
  if (std::ranges::none_of(backends, sound) || !places_.try_reserve(most)) return false;
  retries_.join(waiter, TransportClass::Message, now);
  observer_.on_line_changed();
  return true;
}

void WaitingLine::leave(Waiter& waiter) {
  if (!waiter.waiting()) return;
  SlotQueue::leave(waiter);
  places_.release();
  observer_.on_line_changed();
}

bool WaitingLine::serve_with(std::uint32_t backend, TimePoint now) {
  TransportClass order[2] = {TransportClass::Message, TransportClass::Feed};
  const QueueTicket* message = slots_.head(TransportClass::Message);
  const QueueTicket* feed = slots_.head(TransportClass::Feed);
  if (message != nullptr && feed != nullptr && feed->since() < message->since())
    std::swap(order[0], order[1]);
  for (const TransportClass transport : order) {
    for (QueueTicket* one = slots_.head(transport); one != nullptr; one = slots_.after(*one, transport)) {
      auto& waiter = static_cast<Waiter&>(*one);
      if (std::ranges::find(waiter.tried(), backend) != waiter.tried().end()) continue;
      Choice choice;
      if (!router_.adopt_slot(backend, transport, now, choice)) break;
      leave(waiter);
      waiter.on_slot(choice);
      return true;
    }
  }
  return false;
}

void WaitingLine::serve(TimePoint now) {
  for (const TransportClass transport : {TransportClass::Message, TransportClass::Feed}) {
    QueueTicket* one = slots_.head(transport);
    while (one != nullptr) {
      auto& waiter = static_cast<Waiter&>(*one);
      const Choice choice = router_.pick(transport, now, waiter.tried());
      if (choice.status == PickStatus::Picked) {
        leave(waiter);
        waiter.on_slot(choice);
        one = slots_.head(transport);  // anything may have happened to the line meanwhile
      } else if (waiter.tried().empty()) {
        break;
      } else {
        one = slots_.after(*one, transport);
      }
    }
  }
}

void WaitingLine::serve_retries(std::uint64_t in_flight) {
  while (QueueTicket* head = retries_.head(TransportClass::Message)) {
    if (!retry_budget_.try_take(in_flight)) return;
    auto& waiter = static_cast<Waiter&>(*head);
    leave(waiter);
    waiter.on_retry_granted();
  }
}

}  // namespace dlb::lb
