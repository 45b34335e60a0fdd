// ChatStage: the publishers of a chat run at work, in the open model: message i is meant to be sent at its
// scheduled time, by the publisher whose it is, and ends in exactly one bucket of the recorder:
//
//   intended ─▶ sent (at once; when its publisher is away, when that is back) ─ack─▶ ok
//                 ├─ the server's error ─▶ 4xx, 5xx by what the error would be over HTTP
//                 ├─ no answer within request-timeout ─▶ time_out       ├─ connection lost ─▶ reset
//                 └─ not sent within request-timeout ─▶ connect
//
// Nothing is sent twice. The ledger and the oracle learn what was promised. On the run's loop.
#pragma once

#include <cstdint>
#include <deque>
#include <string_view>
#include <vector>

#include "common/timer_heap.h"
#include "loadgen/ledger.h"
#include "loadgen/recorder.h"
#include "loadgen/schedule.h"
#include "loadgen/signed_messages.h"
#include "loadgen/subscribers.h"

namespace dlb::loadgen {

struct ChatStageShape {
  double rate = 0;  // messages a second of all publishers together
  Arrival arrival = Arrival::Even;
  std::uint64_t seed = 0;  // of the schedule
  Duration timeout{};
};

// How many messages are intended before `duration` (0: no limit) is over; at most `most`.
std::size_t scheduled_messages(const ChatStageShape& shape, Duration duration, std::size_t most);

class ChatStage final : public PublishUser, public HeapTimerHandler {
 public:
  // All of `messages` are to be sent. The references outlive it.
  ChatStage(const ChatStageShape& shape, SignedMessages& messages, EventLoop& loop, Subscribers& subscribers,
            Recorder& recorder, Ledger& ledger, ChatResult& result);
  ~ChatStage();

  void start();
  bool done() const { return ended_ == states_.size(); }
  // Sends no more; those on their way end as interrupted.
  void abandon();
  std::size_t ended() const { return ended_; }
  TimePoint started_at() const { return started_at_; }
  TimePoint ended_at() const { return ended_at_; }

  void on_heap_timer(HeapTimer& timer) override;
  void on_publisher_arrived(std::size_t number) override;
  void on_publisher_left(std::size_t number) override;
  void on_publish_answer(std::size_t number, const ServerSaid& said) override;

 private:
  enum class State : std::uint8_t { Planned, Waiting, Sent, Ended };

  void take_up();
  void send(std::size_t number);
  void end(std::size_t number, Bucket bucket, int status, Promise promise, const ServerSaid* ack);
  void expire();
  void arm_expiry();

  ChatStageShape shape_;
  SignedMessages& messages_;
  EventLoop& loop_;
  Subscribers& subscribers_;
  Recorder& recorder_;
  Ledger& ledger_;
  ChatResult& result_;
  Schedule schedule_;
  TimerHeap timers_;
  HeapTimer next_;
  HeapTimer expiry_;
  std::vector<State> states_;
  std::vector<TimePoint> intended_;
  std::vector<TimePoint> sent_at_;
  std::size_t taken_up_ = 0;  // messages before it have had their time
  std::size_t oldest_ = 0;    // messages before it have ended
  std::size_t ended_ = 0;
  TimePoint started_at_{};
  TimePoint ended_at_{};
};

}  // namespace dlb::loadgen
