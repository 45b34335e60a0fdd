// HeldConnections: connections beside the users', as those of clients who connect and say nothing: each is
// opened at the beginning of one stage, is silent until it has a certain age, and then posts one message.
// What becomes of them is counted here and never in the plan's buckets; what they post is in the ledger like
// any other message.
//
//   start ──▶ opening ──▶ silent ──age──▶ asking ──▶ answered · failed
//                └──▶ connect_failed └──▶ closed_silent (by the server, at an age)
//
//   wanted = opened + connect_failed + (still to be opened, when the run was cut: unfinished)
//   opened = closed_silent + answered + failed + unfinished
//
// The stage's loop.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "common/histogram.h"
#include "common/timer_heap.h"
#include "loadgen/connection.h"
#include "loadgen/ledger.h"
#include "loadgen/payload.h"
#include "loadgen/recorder.h"
#include "loadgen/source_addresses.h"

namespace dlb::loadgen {

struct HeldShape {
  std::uint64_t connections = 0;
  std::string stage;  // at whose beginning they are opened
  Duration age{};
  PayloadShape payload;                      // of their messages
  const SourceAddresses* sources = nullptr;  // of the users; may be null; borrowed
  std::uint64_t users = 0;                   // their source addresses are those behind the users'
};

struct HeldTotals {
  std::uint64_t wanted = 0;
  std::uint64_t opened = 0;
  std::uint64_t connect_failed = 0;
  std::uint64_t closed_silent = 0;  // by the server, or it said something that nobody had asked for
  std::uint64_t answered = 0;       // 200 or 201
  std::uint64_t failed = 0;         // another end: see failures
  std::uint64_t unfinished = 0;     // when the run was cut
  Histogram closed_age_us;          // of closed_silent
  Histogram latency_us;             // of answered
  std::vector<std::pair<std::string, std::uint64_t>> failures;  // by bucket
};

class HeldConnections {
 public:
  // All references outlive it.
  HeldConnections(const HeldShape& shape, const std::vector<Target>& targets, EventLoop& loop,
                  ConnectionContext& context, Ledger& ledger);
  HeldConnections(const HeldConnections&) = delete;
  HeldConnections& operator=(const HeldConnections&) = delete;
  ~HeldConnections();

  const std::string& stage() const { return shape_.stage; }
  void start();
  bool done() const { return ended_ == shape_.connections; }
  // Closes what still is there, as unfinished.
  void abandon();
  const HeldTotals& totals() const { return totals_; }

 private:
  class Held;
  enum class End : std::uint8_t { ConnectFailed, ClosedSilent, Answered, Failed };

  std::string_view request(std::uint64_t number, MessageId& id, std::uint64_t& content);
  void ended(End end);
  void failed_as(Bucket bucket);

  HeldShape shape_;
  const std::vector<Target>& targets_;
  EventLoop& loop_;
  ConnectionContext& context_;
  Ledger& ledger_;
  Payload payload_;
  std::vector<RequestWriter> writers_;  // per target
  TimerHeap timers_;
  std::deque<Held> held_;
  std::uint64_t ended_ = 0;
  HeldTotals totals_;
};

}  // namespace dlb::loadgen
