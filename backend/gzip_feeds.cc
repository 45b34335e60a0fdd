#include "backend/gzip_feeds.h"

#include <algorithm>

namespace dlb::backend {

GzipFeeds::GzipFeeds(EventLoop& loop, GzipFeedsClient& client, std::size_t max_bytes)
    : loop_(loop), client_(client), gzip_(max_bytes) {
  loop_.add_turn_end_hook(*this);
}

GzipFeeds::~GzipFeeds() { loop_.remove_turn_end_hook(*this); }

GzipFeeds::Started GzipFeeds::start(std::uint64_t token, HttpBody& body, bool keep) {
  FeedGzip::Job job(body, keep);
  const std::uint64_t missing = gzip_.missing(job);
  if (missing > kWaitBytes) {
    if (keep && !warm_up_.has_value()) {
      warm_up_.emplace(std::move(job));
      loop_.wake();
    }
    return Started::Plain;
  }
  // Short ones wait for nobody, as far as this turn's share goes.
  if (missing == 0 || (!turn_used_ && missing <= kTurnBytes)) {
    turn_used_ = turn_used_ || missing > 0;
    // It may take more than was missing: what is kept of a part that has grown since need not end where this
    // body does.
    if (gzip_.step(job, kTurnBytes + 1)) {
      body = gzip_.finish(job);
      return Started::Done;
    }
  }
  queue_.emplace_back(token, std::move(job));
  loop_.wake();
  return Started::Queued;
}

void GzipFeeds::cancel(std::uint64_t token) {
  std::erase_if(queue_, [token](const auto& waiting) { return waiting.first == token; });
}

void GzipFeeds::on_turn_end() {
  const bool spent = std::exchange(turn_used_, false);
  if (queue_.empty() && !warm_up_.has_value()) return;
  if (!spent) {
    if (queue_.empty()) {
      if (gzip_.step(*warm_up_, kTurnBytes)) warm_up_.reset();
    } else if (gzip_.step(queue_.front().second, kTurnBytes)) {
      auto [token, job] = std::move(queue_.front());
      queue_.pop_front();
      client_.on_gzip(token, gzip_.finish(job));
    }
  }
  if (!queue_.empty() || warm_up_.has_value()) loop_.wake();
}

}  // namespace dlb::backend
