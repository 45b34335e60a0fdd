// PresencePath: who is online in the whole cluster. Each backend has one row with the names of its sessions
// and a lease; it writes the row when its names have changed (one write at a time, so that what comes
// meanwhile joins the next) and renews it while it has any. A backend that is gone is forgotten when its
// lease is over.
//
//   set_present() ─▶ wanted ─▶ being written ─▶ written ─▶ on_present()     lease: 15 s, renewed each 5 s
//   users() ─▶ joins the read that has not begun ─▶ names of all live leases, and our own
//
// Runs on the store's loop; knows no SQL.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/answer_queue.h"
#include "backend/chat_driver.h"
#include "common/event_loop.h"
#include "common/timer_heap.h"

namespace dlb::backend {

class PresencePath final : public HeapTimerHandler {
 public:
  PresencePath(EventLoop& loop, TimerHeap& timers, AnswerQueue& answers, ChatDriver& driver);

  std::uint64_t set_present(std::vector<std::string> names);
  void users(std::uint64_t token);

  // From the driver.
  void on_written();
  void on_write_failed();
  // Each element: the names of one other backend, with line feeds between them.
  void on_listed(std::span<const std::string_view> lists);
  void on_list_failed();
  void on_driver_change();

  void on_heap_timer(HeapTimer& timer) override;

  bool idle() const { return asked_.empty() && listed_.empty() && wanted_ == written_; }

 private:
  void pump();
  void tell();
  void refuse(std::vector<std::uint64_t>& tokens);

  EventLoop& loop_;
  AnswerQueue& answers_;
  ChatDriver& driver_;
  const std::string instance_;
  std::vector<std::string> names_;
  std::uint64_t wanted_ = 0;   // version of names_
  std::uint64_t sent_ = 0;     // being written when writing_
  std::uint64_t written_ = 0;  // in the database
  std::uint64_t told_ = 0;
  bool writing_ = false;
  TimePoint renew_at_ = kNever;
  TimePoint write_again_at_{};
  std::vector<std::uint64_t> asked_;   // for a list that will be asked for
  std::vector<std::uint64_t> listed_;  // that is being read
  TimePoint asked_since_{};
  HeapTimer timer_;
};

}  // namespace dlb::backend
