// NamesPath: whose a name is. A name belongs to the first key that claimed it, cluster-wide and for ever: the
// table's primary key decides. What has been learned is kept in a bounded cache, since it never changes, so
// that a crowd that comes back does not ask the database for each name again.
//
//   claim(), find_key() ─▶ known ─▶ answer
//                      └─▶ queue ─▶ asked of the database, kInFlight at a time ─▶ answer
//
// Bounded by kMaxQueue (over it: Unavailable) and in time. Runs on the store's loop; knows no SQL.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>

#include "backend/answer_queue.h"
#include "backend/chat_driver.h"
#include "common/event_loop.h"
#include "common/timer_heap.h"

namespace dlb::backend {

class NamesPath final : public HeapTimerHandler {
 public:
  static constexpr std::size_t kCached = 4096;  // about 3 MB with keys of 2048 bits

  NamesPath(EventLoop& loop, TimerHeap& timers, AnswerQueue& answers, ChatDriver& driver);

  void claim(std::string_view name, std::string_view public_key, std::uint64_t token);
  void find_key(std::string_view name, std::uint64_t token);

  // From the driver. An empty key: nobody has the name.
  void on_key(std::uint64_t id, std::string_view public_key);
  void on_failed(std::uint64_t id);
  void on_driver_change();

  void on_heap_timer(HeapTimer& timer) override;

  bool idle() const { return queue_.empty() && in_flight_.empty(); }

 private:
  struct Request {
    std::string name;
    std::string public_key;  // empty: only looked up
    std::uint64_t token = 0;
    TimePoint deadline{};
    int tries = 0;
  };
  struct Known {
    std::string name;
    std::string public_key;
  };

  bool from_cache(std::string_view name, std::uint64_t token);
  void remember(std::string_view name, std::string_view public_key);
  void take(Request request);
  void answer(const Request& request, OwnerAnswer::Kind kind, std::string_view public_key = {});
  void pump();
  bool ready(const Request& request) const;
  bool away(const Request& request) const;

  EventLoop& loop_;
  AnswerQueue& answers_;
  ChatDriver& driver_;
  std::deque<Request> queue_;
  std::unordered_map<std::uint64_t, Request> in_flight_;
  std::uint64_t next_id_ = 1;
  std::list<Known> known_;  // the one used last in front
  std::unordered_map<std::string_view, std::list<Known>::iterator> by_name_;
  HeapTimer timer_;
};

}  // namespace dlb::backend
