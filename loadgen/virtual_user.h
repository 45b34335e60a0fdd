// VirtualUser: one simulated person. In the closed model: an operation, a pause to think, the next operation.
// In the open one it performs what OpenLoop gives it, and tells when it is free again.
//
//   Waiting ──timer──▶ (next operation) ──▶ Connecting ──▶ Exchanging ──▶ Waiting …  ──▶ Done
//                                    └── a connection is there ──▶┘
//
// It decides which bucket an operation ends in and what the ledger learns; the stage hands out operations,
// the pool connections. An operation is what the user sees: nothing is retried. On the stage's loop.
#pragma once

#include <cstdint>

#include "common/rng.h"
#include "common/timer_heap.h"
#include "loadgen/connection.h"
#include "loadgen/ledger.h"
#include "loadgen/message_id.h"
#include "loadgen/recorder.h"

namespace dlb::loadgen {

class Stage;

class VirtualUser final : public ConnectionUser, public HeapTimerHandler {
 public:
  // `number` is 0 … users - 1. The stage outlives its users.
  VirtualUser(Stage& stage, std::uint64_t number);

  void start_at(TimePoint when) { pause_.arm_at(when); }
  // The stage issues no more: a waiting user is done now, others when their operation has ended.
  void stop_issuing();
  // Open model: performs operation `index`, which was to begin at `intended`. Requires a user that is free.
  void perform(std::uint64_t index, TimePoint intended);
  // Open model: a free user is done.
  void no_more_operations() { finish(); }
  // Ends a running operation as Interrupted. Requires stop_issuing() before.
  void abandon();
  bool done() const { return state_ == State::Done; }

  void on_heap_timer(HeapTimer& timer) override;
  void on_connected(Connection& connection) override;
  void on_head(Connection& connection, const ResponseHead& head) override;
  void on_body(Connection& connection, std::string_view bytes) override;
  void on_end(Connection& connection, ExchangeEnd end, int err) override;
  void on_idle_close(Connection& connection) override;

 private:
  enum class State : std::uint8_t {
    Waiting,     // for its start, or thinking; open model: free, or pausing after a failed connect
    Connecting,  // in an operation, no connection yet
    Exchanging,  // in an operation, request written
    Done,
  };

  void next_operation();
  void begin();
  void connect();
  void send(Connection& connection);
  void leave(Connection& connection);
  bool keeps_its_own() const;
  void end_operation(const OperationResult& result);
  void note_in_ledger(const OperationResult& result);
  void check_answer(std::string_view body);
  void finish();

  Stage& stage_;
  std::uint64_t number_;
  bool slow_reader_;
  Rng rng_;  // of the pauses
  HeapTimer pause_;
  Handle<Connection> connection_;
  Recorder* recorder_ = nullptr;  // of the operation under way; the stage's
  State state_ = State::Waiting;
  OperationClass class_ = OperationClass::Message;
  std::uint16_t status_ = 0;
  std::uint32_t backend_ = kNoBackend;
  std::uint64_t performed_ = 0;  // operations so far
  std::uint64_t index_ = 0;      // of the operation under way
  std::uint64_t body_bytes_ = 0;
  std::uint64_t content_ = 0;  // content_hash() of the message under way
  MessageId id_;
  Acknowledged told_;  // by the answer under way
  TimePoint connect_began_{};
  TimePoint intended_{};  // open model: when the operation under way was to begin
};

}  // namespace dlb::loadgen
