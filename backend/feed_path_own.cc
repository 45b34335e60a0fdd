// FeedPath's part for what is known before it is read: hints that there are new rows, and rows that this
// process has just committed, which join the feed from memory where nothing can be between.
#include "backend/feed_path.h"

namespace dlb::backend {
namespace {

constexpr Duration kHintDelay =
    std::chrono::milliseconds(3);  // hints that come close together cause one read
constexpr Duration kUnwatchedDelay =
    std::chrono::milliseconds(50);  // likewise, while no session and no request waits for rows
constexpr Duration kWatchedFor = std::chrono::seconds(1);  // after a request for the feed

}  // namespace

// Somebody wants new rows at once.
bool FeedPath::watched() const {
  return answers_.chat_listens() || loop_.now() < last_feed_ + kWatchedFor || waiting() > 0;
}

void FeedPath::hint() {
  foreign_hint_ = true;
  if (!hint_timer_.armed()) hint_timer_.arm_at(loop_.now() + (watched() ? kHintDelay : kUnwatchedDelay));
}

void FeedPath::hint_own(std::int64_t through) {
  own_through_ = through;
  if (own_.empty() && cache_.last_sequence() == through) return;
  const bool foreign = foreign_hint_;
  hint();
  foreign_hint_ = foreign;
}

// A table that was truncated takes its anchor with it, and one that lost its tail its last row; between the
// two nothing can be lost while the writer's connection stands.
bool FeedPath::takes_own() const {
  return complete_ && anchor_ > 0 && verified_era_ == writer_era_ && !renew_wanted_ &&
         answers_.live_rows() <= static_cast<std::size_t>(read_rows_);
}

void FeedPath::add_own(const NewMessage& written, std::string_view nonce, std::int64_t sequence,
                       std::int64_t timestamp_us) {
  if (!takes_own()) return own_.clear();
  const std::string_view element = text_.render(written, sequence, timestamp_us);
  if (own_.empty() && reading_ != Reading::Refresh && sequence == cache_.last_sequence() + 1) {
    append_own(sequence, nonce, element);
  } else {
    own_.add(sequence, nonce, element);
  }
}

void FeedPath::take_own() {
  if (!takes_own()) return own_.clear();
  while (const OwnRows::Row* row = own_.find(cache_.last_sequence() + 1)) {
    append_own(row->sequence, row->nonce, row->element);
  }
}

void FeedPath::append_own(std::int64_t sequence, std::string_view nonce, std::string_view element) {
  append_new(sequence, nonce, element);
  own_added_ = true;
  ++stats_.feed_own_rows;
}

void FeedPath::forget_own() {
  ++writer_era_;
  own_.clear();
}

}  // namespace dlb::backend
