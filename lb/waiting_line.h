// WaitingLine: who of one worker waits, and who goes next: for a slot (L5), first in, first out per transport
// class, and for a place in the retry budget (L14). Decisions only: no fd, no timer, no log; the simulator
// drives it as the worker does. How a freed slot finds its way to a worker is Worker::slot_freed()'s.
//
//   join_for_slot ──▶ slots   ── serve(), serve_with(backend) ──▶ Waiter::on_slot
//   join_for_retry ─▶ retries ── serve_retries()              ──▶ Waiter::on_retry_granted
//        both ── leave(): a time-out, a client that left
//
// A waiter has left before it is called, and may do anything in the call: end, or wait anew. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/clock.h"
#include "lb/backend_set.h"
#include "lb/retry_budget.h"
#include "lb/router.h"
#include "lb/slot_queue.h"

namespace dlb::lb {

// A request that can wait. Must leave the line before it is destroyed.
class Waiter : public QueueTicket {
 public:
  virtual TransportClass transport_class() const = 0;
  // Backends that have failed it: another one is to be taken while one is healthy.
  virtual std::span<const std::uint32_t> tried() const = 0;
  // `choice` has reserved a slot and a connection.
  virtual void on_slot(const Choice& choice) = 0;
  // A place in the retry budget has been taken for it.
  virtual void on_retry_granted() = 0;

 protected:
  ~Waiter() = default;
};

class WaitingLine {
 public:
  // Who is told when someone has come or gone, before a waiter is called.
  class Observer {
   public:
    virtual void on_line_changed() = 0;

   protected:
    ~Observer() = default;
  };

  // All must outlive it. `places` counts who waits anywhere in the process.
  WaitingLine(Router& router, SlotCounter& places, Observer& observer, std::size_t backends)
      : router_(router), places_(places), observer_(observer), last_failure_(backends) {}
  WaitingLine(const WaitingLine&) = delete;
  WaitingLine& operator=(const WaitingLine&) = delete;

  // Other backends are in force: `backends` of them. forget_failures(): index `backend` is another one now.
  void resize(std::size_t backends) { last_failure_.resize(backends); }
  void forget_failures(std::uint32_t backend) { last_failure_[backend] = {}; }

  // False: `most` wait already.
  bool join_for_slot(Waiter& waiter, std::uint32_t most, TimePoint now);
  // In line for the retry budget. False: it is to fail now, since `most` wait, or since no backend but the
  // one that failed looks sound (a dying pool is not to be buried under second attempts).
  bool join_for_retry(Waiter& waiter, std::uint32_t failed, const BackendSet& backends, std::uint32_t most,
                      TimePoint now);
  void leave(Waiter& waiter);

  // Gives a slot of `backend`, still reserved, to whoever has waited longest and can use it. False: nobody
  // could; the slot is still the caller's. A waiter that this backend has failed takes another one instead,
  // or is passed over; there are no more of those than the retry budget allows.
  bool serve_with(std::uint32_t backend, TimePoint now);
  // Tries all who wait with whatever is free, until the first of each class that takes any backend can't go.
  void serve(TimePoint now);
  // As many as the budget allows with `in_flight` requests on their way.
  void serve_retries(std::uint64_t in_flight);

  // A backend's side of an exchange has failed.
  void note_failure(std::uint32_t backend, TimePoint now) { last_failure_[backend] = now; }
  RetryBudget& retry_budget() { return retry_budget_; }
  std::size_t waiting_for_slot() const { return slots_.size(); }

 private:
  // No failure of a backend for so long: it is sound.
  static constexpr Duration kSoundAfter = std::chrono::seconds(1);

  Router& router_;
  SlotCounter& places_;
  Observer& observer_;
  SlotQueue slots_;
  SlotQueue retries_;  // all as messages
  RetryBudget retry_budget_;
  std::vector<TimePoint> last_failure_;  // per backend
};

}  // namespace dlb::lb
