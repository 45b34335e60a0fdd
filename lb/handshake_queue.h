// HandshakeQueue: a worker's TLS connections whose handshake has something to do, in the order of their
// events, and how many of them get their step in a turn. A signature takes most of a millisecond, so a storm
// of new clients would otherwise hold up everyone else's requests; first come first served, so that none of
// them starves until its deadline.
//
//   event ──▶ join() ──▶ waiting ──run(), at the end of each turn, until kBudget is spent──▶ a step
//                                   └─ some left: the loop does not sleep, and goes on next turn
#pragma once

#include <chrono>
#include <deque>

#include "common/clock.h"
#include "common/handle.h"

namespace dlb::lb {

class Downstream;
class Worker;

class HandshakeQueue {
 public:
  // Per turn; the step that crosses it is finished.
  static constexpr Duration kBudget = std::chrono::milliseconds(3);

  // At most one entry a connection, which sees to that: bounded by the connections.
  void join(Handle<Downstream> connection) { waiting_.push_back(connection); }
  // Connections may close in it. Turn-end hook only.
  void run(Worker& worker);

 private:
  std::deque<Handle<Downstream>> waiting_;
};

}  // namespace dlb::lb
