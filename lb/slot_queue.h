// SlotQueue: the exchanges of one worker that wait for a slot or a connection, first in, first out per
// transport class (a feed that waits for a feed connection must not hold up messages behind it). An intrusive
// list: joining, leaving and taking the head are O(1). Who takes it is decided by waiting_line.h. One thread.
#pragma once

#include <cstddef>

#include "common/clock.h"
#include "lb/backend_set.h"

namespace dlb::lb {

class SlotQueue;

// Embedded in an exchange, which must leave before it is destroyed.
class QueueTicket {
 public:
  QueueTicket() = default;
  QueueTicket(const QueueTicket&) = delete;
  QueueTicket& operator=(const QueueTicket&) = delete;
  bool waiting() const { return queue_ != nullptr; }
  TimePoint since() const { return since_; }

 private:
  friend class SlotQueue;
  SlotQueue* queue_ = nullptr;  // the one it waits in
  QueueTicket* prev_ = nullptr;
  QueueTicket* next_ = nullptr;
  TimePoint since_{};
};

class SlotQueue {
 public:
  SlotQueue() {
    for (QueueTicket& one : sentinels_) one.prev_ = one.next_ = &one;
  }
  SlotQueue(const SlotQueue&) = delete;
  SlotQueue& operator=(const SlotQueue&) = delete;

  void join(QueueTicket& ticket, TransportClass transport, TimePoint now) {
    QueueTicket& end = sentinels_[index(transport)];
    ticket.queue_ = this;
    ticket.since_ = now;
    ticket.prev_ = end.prev_;
    ticket.next_ = &end;
    end.prev_->next_ = &ticket;
    end.prev_ = &ticket;
    ++size_;
  }
  // Takes a ticket out of whichever queue it waits in, if any.
  static void leave(QueueTicket& ticket) {
    if (!ticket.waiting()) return;
    --ticket.queue_->size_;
    ticket.prev_->next_ = ticket.next_;
    ticket.next_->prev_ = ticket.prev_;
    ticket.prev_ = ticket.next_ = nullptr;
    ticket.queue_ = nullptr;
  }
  // The one that has waited longest in this class, or null.
  QueueTicket* head(TransportClass transport) {
    QueueTicket& end = sentinels_[index(transport)];
    return end.next_ == &end ? nullptr : end.next_;
  }
  // The one behind `ticket`, which waits here, or null.
  QueueTicket* after(const QueueTicket& ticket, TransportClass transport) {
    return ticket.next_ == &sentinels_[index(transport)] ? nullptr : ticket.next_;
  }
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::size_t index(TransportClass transport) {
    return transport == TransportClass::Feed ? 1 : 0;
  }

  QueueTicket sentinels_[2];
  std::size_t size_ = 0;
};

}  // namespace dlb::lb
