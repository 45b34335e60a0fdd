// Stage: a number of users who perform a number of operations, or run for a time, against the targets. Owns
// the users; hands out operations (user u gets u, u + users, u + 2·users, …), knows when all is done, and
// ends it early: at its duration, or the end of its issue window, no new operation begins and those in flight
// end as they may; abandon() cuts them too. With a cool-down the load goes on behind that end, or behind the
// last operation of its plan, without being counted (counting.h). With a rate the operations come from an
// OpenLoop instead, to whoever is free. A run is a warm-up stage, if asked for, and the measured one. One
// loop.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string_view>
#include <vector>

#include "common/timer_heap.h"
#include "loadgen/connection_pool.h"
#include "loadgen/counting.h"
#include "loadgen/ledger.h"
#include "loadgen/open_loop.h"
#include "loadgen/payload.h"
#include "loadgen/recorder.h"
#include "loadgen/source_addresses.h"
#include "loadgen/target.h"
#include "loadgen/virtual_user.h"

namespace dlb::loadgen {

enum class ConnectionMode : std::uint8_t {
  Reuse,        // idle connections are shared by all users, and kept from stage to stage
  FreshStage,   // the same, but each stage begins with none
  FreshUser,    // every user has its own, from its first operation to the stage's end
  NoKeepAlive,  // one connection an operation, `Connection: close`
};

struct StageShape {
  PayloadShape payload;        // users too
  std::uint64_t requests = 0;  // operations of all users together; 0: until the duration is over
  Duration duration{};         // 0: until all requests are done
  Duration issue_window{};     // what is not issued within it never is; 0: no window
  Duration cool_down{};        // the load goes on uncounted for this time behind the counted operations
  Duration interval_min{};     // the pause between a user's operations is uniform between these
  Duration interval_max{};
  ConnectionMode connection_mode = ConnectionMode::Reuse;
  OpenLoadShape open;                         // rate 0: the closed model
  Duration ramp_up{};                         // closed model: users begin at even distances within it
  std::uint64_t requests_per_connection = 0;  // then it is closed; 0: no limit
  const SourceAddresses* sources = nullptr;   // null: the system's choice; borrowed
  double slow_reader_percent = 0;             // users who read slowly, each with a connection of its own
  std::size_t slow_bytes_per_pace = 1;        // see ConnectShape
};

// Whether a user reads slowly, when `percent` of them do: they are spread evenly. Pure.
bool is_slow_reader(std::uint64_t user, double percent);

class Stage final : public HeapTimerHandler {
 public:
  // Requires requests > 0 or duration > 0, and a pool for at least as many connections as there are users.
  // All references outlive the stage.
  Stage(const StageShape& shape, const std::vector<Target>& targets, EventLoop& loop, ConnectionPool& pool,
        Recorder& recorder, Ledger& ledger);
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  ~Stage();

  void start();
  bool done() const { return done_users_ == users_.size(); }
  // All counted operations have ended; the cool-down may still be under way.
  bool counted_done() const { return done() || (counting_.stopped() && counting_.counted_ended()); }
  // Issues no more operations.
  void stop_issuing();
  // Issues no more and ends those in flight as Interrupted: done() afterwards.
  void abandon();

  // Its issue window ended before all was issued.
  bool hit_window() const { return hit_window_; }
  std::uint64_t active_users() const { return users_.size() - done_users_; }
  TimePoint started_at() const { return started_at_; }
  TimePoint ended_at() const { return ended_at_; }  // of the last counted operation so far

  void on_heap_timer(HeapTimer& timer) override;

  // For users.
  bool next_index(std::uint64_t user, std::uint64_t performed, std::uint64_t& index) const;
  // Whether the user may get another operation.
  bool more_for(std::uint64_t user, std::uint64_t performed) const;
  std::size_t waiting() const { return open_loop_ == nullptr ? 0 : open_loop_->waiting(); }  // for a user
  OpenLoop* open_loop() { return open_loop_.get(); }  // null in the closed model
  Duration pause(Rng& rng) const;
  std::size_t target_of(std::uint64_t user) const { return user % targets_.size(); }
  std::string_view request(std::size_t target, std::uint64_t index, OperationClass operation_class,
                           Recorder& recorder, MessageId& id, std::uint64_t& content);
  // An operation has begun, and its recorder knows.
  void operation_begun();
  void operation_ended(const Recorder& recorder, TimePoint when) {
    if (&recorder == &recorder_) ended_at_ = when;
  }
  void user_done() { ++done_users_; }

  const StageShape& shape() const { return shape_; }
  const Target& target(std::size_t number) const { return targets_[number]; }
  const Payload& payload() const { return payload_; }
  ConnectionPool& pool() { return pool_; }
  const Counting& counting() const { return counting_; }
  Ledger& ledger() { return ledger_; }
  TimerHeap& pauses() { return pauses_; }
  TimePoint now() const { return loop_.now(); }

 private:
  bool has_cool_down() const { return shape_.cool_down > Duration::zero(); }
  void begin_cool_down();

  StageShape shape_;
  const std::vector<Target>& targets_;
  EventLoop& loop_;
  ConnectionPool& pool_;
  Recorder& recorder_;
  Ledger& ledger_;
  Counting counting_;
  Payload payload_;
  std::vector<RequestWriter> writers_;  // per target
  TimerHeap pauses_;
  HeapTimer end_;  // of the duration, then of the cool-down
  HeapTimer window_;
  std::unique_ptr<OpenLoop> open_loop_;
  std::deque<VirtualUser> users_;
  std::size_t done_users_ = 0;
  bool issuing_ = true;
  bool hit_window_ = false;
  TimePoint started_at_{};
  TimePoint ended_at_{};
};

}  // namespace dlb::loadgen
