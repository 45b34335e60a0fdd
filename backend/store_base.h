// StoreBase: what both stores are made of besides their database: the write path, the feed path, those of the
// chat, the cipher and the queue of answers. A store derives from it and is their driver.
#pragma once

#include <cstdint>

#include "backend/answer_queue.h"
#include "backend/chat_store.h"
#include "backend/cipher.h"
#include "backend/feed_path.h"
#include "backend/message_store.h"
#include "backend/names_path.h"
#include "backend/presence_path.h"
#include "backend/rows_path.h"
#include "backend/store_config.h"
#include "backend/write_path.h"
#include "common/event_loop.h"
#include "common/log.h"
#include "common/timer_heap.h"

namespace dlb::backend {

class StoreBase : public MessageStore,
                  public ChatStore,
                  protected WriteDriver,
                  protected ReadDriver,
                  protected ChatDriver {
 public:
  StoreBase(EventLoop& loop, Log& log, const StoreConfig& config, const KeyRing& ring)
      : loop_(loop),
        log_(log),
        config_(config),
        timers_(loop),
        answers_(loop),
        cipher_(ring),
        writes_(loop, timers_, log, config_, cipher_, answers_, *this),
        feeds_(loop, timers_, log, config_, cipher_, answers_, *this),
        rows_(loop, timers_, log, cipher_, feeds_, answers_, *this),
        names_(loop, timers_, answers_, *this),
        presence_(loop, timers_, answers_, *this) {
    feeds_.set_rider(rows_);
  }

  void put(NewMessage message, std::uint64_t token) final { writes_.put(std::move(message), token); }

  void cancel(std::uint64_t token) final {
    if (!writes_.cancel(token) && !feeds_.cancel(token)) answers_.cancel(token);
  }

  void feed(const FeedQuery& query, std::uint64_t token) final { feeds_.feed(query, token); }

  ChatStore& chat() final { return *this; }
  void subscribe(ChatStoreClient& client) final { answers_.set_chat(client); }
  bool live() const final { return feeds_.complete(); }
  void claim(std::string_view name, std::string_view public_key, std::uint64_t token) final {
    names_.claim(name, public_key, token);
  }
  void find_key(std::string_view name, std::uint64_t token) final { names_.find_key(name, token); }
  void history(std::int64_t before, std::int64_t limit, std::uint64_t token) final {
    rows_.history(before, limit, token);
  }
  void rows_after(std::int64_t after, bool fresh, std::uint64_t token) final {
    rows_.rows_after(after, fresh, token);
  }
  std::uint64_t set_present(std::vector<std::string> names) final {
    return presence_.set_present(std::move(names));
  }
  void users(std::uint64_t token) final { presence_.users(token); }

  MessageStoreStats stats() const override {
    MessageStoreStats out;
    writes_.add_stats(out);
    feeds_.add_stats(out);
    rows_.add_stats(out);
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
  RowsPath rows_;
  NamesPath names_;
  PresencePath presence_;
};

}  // namespace dlb::backend
