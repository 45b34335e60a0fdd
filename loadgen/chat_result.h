// ChatResult: what the chat users of a run have seen: who was there, how quickly messages came, who left and
// came back, and the oracle's judgement. Plain values, filled by Subscribers, ChatStage and ChatLoad.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/histogram.h"
#include "loadgen/delivery_oracle.h"

namespace dlb::loadgen {

struct ChatGroupFigures {
  std::uint64_t subscribers = 0;
  Histogram fanout_us;
};

struct ChatResult {
  std::uint64_t subscribers = 0;
  std::uint64_t publishers = 0;  // of them; 0 beside an HTTP load
  std::uint64_t signed_ahead = 0;
  double signing_seconds = 0;
  Histogram join_us;                   // connect to registered, the first time
  Histogram fanout_us;                 // intended time (HTTP: when it was sent) to each receipt
  Histogram delivery_us;               // promise to each receipt; 0 for one before it
  Histogram catch_up_us;               // connect to the end of the replay, when it comes back
  std::uint64_t planned_drops = 0;     // of reconnect-percent
  std::uint64_t lost_connections = 0;  // others
  std::uint64_t slow_closes = 0;       // of them: 1013
  std::uint64_t resumed = 0;
  std::uint64_t duplicate_acks = 0;  // messages that were stored before this run
  std::uint64_t deliveries = 0;      // of this run's messages
  double seconds = 0;                // from the first counted stage's start to its last operation's end
  std::uint64_t unsettled = 0;       // subscribers that never got as far as they had to
  std::vector<std::pair<std::string, std::uint64_t>> errors;  // by the server's code
  std::vector<ChatGroupFigures> groups;                       // as those of the delivery
  Delivery delivery;

  bool passed() const { return delivery.passed() && unsettled == 0; }
  void count_error(const std::string& code);
};

}  // namespace dlb::loadgen
