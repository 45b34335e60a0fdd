// MessageStore: the asynchronous interface that the HTTP API and WSS sessions see; PostgresStore and
// SqliteStore implement it with the same semantics. All calls and all answers happen on the backend's loop
// thread. Answers name their asker by a token (a packed Handle), never by pointer, and may come inside the
// call itself (queue full) or later.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "backend/message.h"
#include "common/http_body.h"

namespace dlb::backend {

// One page of the feed as bytes ready to send: `{"messages":[...],"count":N}` (plus `has_more` and
// `next_after` for a page). `available` false: the database can't be read now (503).
struct FeedAnswer {
  bool available = false;
  HttpBody body;
  std::int64_t last_sequence = 0;  // of the whole feed
  std::string etag;                // strong, with quotes
  std::string detail;              // why not available
};

struct FeedQuery {
  bool paged = false;         // `after` or `limit` was given
  std::int64_t after = 0;     // rows above this sequence
  std::int64_t limit = 1000;  // 1-1000
  // What can be answered without the rows that are not at hand: only the length is wanted (HEAD), or only
  // what changed since the tags of this If-None-Match. `body` then may have its size and no parts, or
  // nothing.
  bool head = false;
  bool gzip = false;  // the tag of the compressed rows will do, too
  std::string unless{};
};

struct OwnerAnswer;

class MessageStoreClient {
 public:
  // Exactly one answer for each put() that was not cancelled.
  virtual void on_put(std::uint64_t token, const PutOutcome& outcome) = 0;
  // Exactly one answer for each feed() that was not cancelled.
  virtual void on_feed(std::uint64_t token, const FeedAnswer& answer) = 0;
  // Answers ChatStore::find_key() for a token that is none of the chat's.
  virtual void on_name(std::uint64_t, const OwnerAnswer&) {}

 protected:
  ~MessageStoreClient() = default;
};

// Figures for /internal/stats and /metrics. Counts since start; durations in seconds.
struct MessageStoreStats {
  std::uint64_t puts = 0, created = 0, duplicates = 0, conflicts = 0, unavailable = 0, outcome_unknown = 0,
                refused = 0;
  std::uint64_t batches = 0, batch_rows = 0, batch_retries = 0, queue_full = 0, queue_timeouts = 0,
                reconnects = 0;
  std::uint64_t queued_rows = 0, queued_bytes = 0, batches_in_flight = 0;  // now
  double batch_seconds_sum = 0, batch_seconds_max = 0, queue_wait_seconds_sum = 0;
  std::uint64_t encrypts = 0, decrypts = 0, undecryptable = 0;
  double encrypt_seconds_sum = 0, decrypt_seconds_sum = 0;
  std::uint64_t feed_requests = 0, feed_refreshes = 0, feed_own_rows = 0, feed_rows = 0, feed_bytes = 0,
                feed_chunks = 0;
  double feed_refresh_seconds_sum = 0;
  std::uint64_t pages_read = 0;  // of history and replays, below the feed cache
  bool database_up = false;
};

class ChatStore;

class MessageStore {
 public:
  virtual ~MessageStore() = default;

  // Starts connecting; a database that is away is retried with back-off for ever. Answers go to `client`.
  virtual void start(MessageStoreClient& client) = 0;

  // Stores one message, or joins its duplicate. `token` is unique among the waiting ones.
  virtual void put(NewMessage message, std::uint64_t token) = 0;
  // The asker is gone: no answer will come. A batch that has been sent is never cancelled.
  virtual void cancel(std::uint64_t token) = 0;

  // The feed as of now or later: a refresh that began after this call has ended before the answer.
  virtual void feed(const FeedQuery& query, std::uint64_t token) = 0;

  // Whether the database answered its last health check, at most db-health-timeout ago or so. Cheap, no I/O.
  virtual bool healthy() const = 0;

  // What only the chat needs. Its client is told of the chat's puts as well: those whose token has
  // kChatToken.
  virtual ChatStore& chat() = 0;

  virtual MessageStoreStats stats() const = 0;

  // Drain: true when nothing is queued or in flight.
  virtual bool idle() const = 0;
};

}  // namespace dlb::backend
