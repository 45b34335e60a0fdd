// GzipFeeds: feeds that are being compressed before they are answered, a little each turn, so that the first
// gzip reader of a long history holds up nobody. What one reader has waited for, the next ones find (see
// feed_gzip.h). A body of which more than kWaitBytes is missing is not waited for: it goes out as it is, and
// its parts are compressed meanwhile for those to come, one such body at a time.
//
//   start() ─▶ nothing missing: now ─▶ on_gzip()
//         ├──▶ queued, kTurnBytes of them all a turn ─▶ on_gzip()
//         └──▶ too much is missing: false, and it is warmed up
//
// Loop thread only. As many wait as there are connections.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "backend/feed_gzip.h"
#include "common/event_loop.h"
#include "common/http_body.h"

namespace dlb::backend {

class GzipFeedsClient {
 public:
  // Never inside start().
  virtual void on_gzip(std::uint64_t token, HttpBody body) = 0;

 protected:
  ~GzipFeedsClient() = default;
};

class GzipFeeds final : public TurnEndHook {
 public:
  static constexpr std::size_t kTurnBytes = 128 * 1024;            // plain; some 2 ms
  static constexpr std::size_t kWaitBytes = std::size_t{8} << 20;  // plain; some 120 ms

  GzipFeeds(EventLoop& loop, GzipFeedsClient& client, std::size_t max_bytes);
  GzipFeeds(const GzipFeeds&) = delete;
  GzipFeeds& operator=(const GzipFeeds&) = delete;
  ~GzipFeeds();

  enum class Started : std::uint8_t { Done, Queued, Plain };
  // Done: `body` is gzip now. Queued: on_gzip() brings it. Plain: send `body` as it is. `keep` as in
  // FeedGzip.
  Started start(std::uint64_t token, HttpBody& body, bool keep);
  void cancel(std::uint64_t token);

  const FeedGzip& gzip() const { return gzip_; }
  std::size_t waiting() const { return queue_.size(); }

  void on_turn_end() override;

 private:
  EventLoop& loop_;
  GzipFeedsClient& client_;
  FeedGzip gzip_;
  std::deque<std::pair<std::uint64_t, FeedGzip::Job>> queue_;
  std::optional<FeedGzip::Job> warm_up_;
  bool turn_used_ = false;  // this turn's share has been spent in start()
};

}  // namespace dlb::backend
