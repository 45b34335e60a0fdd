#include "lb/handshake_queue.h"

#include "lb/worker.h"

namespace dlb::lb {

void HandshakeQueue::run(Worker& worker) {
  if (waiting_.empty()) return;
  const TimePoint began = monotonic_now();  // the turn's time does not move
  do {
    Downstream* const connection = worker.downstreams().get(waiting_.front());
    waiting_.pop_front();
    if (connection != nullptr) connection->handshake_step();
  } while (!waiting_.empty() && monotonic_now() - began < kBudget);

  for (; !waiting_.empty(); waiting_.pop_front()) {
    Downstream* const connection = worker.downstreams().get(waiting_.front());
    if (connection == nullptr) continue;
    worker.loop().make_runnable(connection->transport().source());
    return;
  }
}

}  // namespace dlb::lb
