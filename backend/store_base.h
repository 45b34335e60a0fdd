// StoreBase: what both stores are made of besides their database: the write path, the feed path, the cipher
// and the queue of answers. A store derives from it and from the two drivers.
#pragma once

#include <cstdint>

#include "backend/answer_queue.h"
#include "backend/cipher.h"
#include "backend/feed_path.h"
#include "backend/message_store.h"
#include "backend/store_config.h"
#include "backend/write_path.h"
#include "common/event_loop.h"
#include "common/log.h"
#include "common/timer_heap.h"

namespace dlb::backend {

class StoreBase : public MessageStore, protected WriteDriver, protected ReadDriver {
 public:
  StoreBase(EventLoop& loop, Log& log, const StoreConfig& config, const KeyRing& ring)
      : loop_(loop),
        log_(log),
        config_(config),
        timers_(loop),
        answers_(loop),
        cipher_(ring),
        writes_(loop, timers_, log, config_, cipher_, answers_, *this),
        feeds_(loop, timers_, log, config_, cipher_, answers_, *this) {}

  void put(NewMessage message, std::uint64_t token) final { writes_.put(std::move(message), token); }

  void cancel(std::uint64_t token) final {
    if (!writes_.cancel(token) && !feeds_.cancel(token)) answers_.cancel(token);
  }

  void feed(const FeedQuery& query, std::uint64_t token) final { feeds_.feed(query, token); }

  MessageStoreStats stats() const override {
    MessageStoreStats out;
    writes_.add_stats(out);
    feeds_.add_stats(out);
    out.database_up = healthy();
    return out;
  }

  bool idle() const final { return writes_.idle() && feeds_.idle() && answers_.empty(); }

 protected:
  EventLoop& loop_;
  Log& log_;
  const StoreConfig config_;
  TimerHeap timers_;
  AnswerQueue answers_;
  Cipher cipher_;
  WritePath writes_;
  FeedPath feeds_;
};

}  // namespace dlb::backend
