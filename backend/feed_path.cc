#include "backend/feed_path.h"

#include <algorithm>
#include <utility>

#include "backend/etag.h"
#include "common/check.h"
#include "common/clock.h"

namespace dlb::backend {
namespace {

constexpr std::int64_t kReadRows = 1024;  // libpq holds a whole result
constexpr std::int64_t kReadBytes = std::int64_t{1}
                                    << 20;  // what one turn of the loop decrypts and serialises
constexpr std::size_t kOlderPageBytes = std::size_t{8}
                                        << 20;  // a page below the cache ends early (has_more) above this
constexpr std::size_t kMaxWaiting = 16384;
constexpr std::uint64_t kFewRows = 100;  // of a new table: they may have been posted since it was truncated
constexpr Duration kPauseAfterFailure = std::chrono::milliseconds(20);
constexpr Duration kCrowdedPause = std::chrono::milliseconds(5);  // the chat is behind with its live rows
constexpr Duration kPollInterval = std::chrono::seconds(1);       // covers lost hints
constexpr Duration kFeedTimeout = std::chrono::seconds(5);  // a reader that is reconnecting, or a stuck read

}  // namespace

FeedPath::FeedPath(EventLoop& loop, TimerHeap& timers, Log& log, const StoreConfig& config, Cipher& cipher,
                   AnswerQueue& answers, ReadDriver& driver)
    : loop_(loop),
      log_(log),
      cipher_(cipher),
      answers_(answers),
      driver_(driver),
      text_(cipher, log),
      chunk_bytes_(config.feed_chunk_bytes),
      reread_bytes_(config.feed_reread_bytes),
      cache_(config.feed_chunk_bytes, config.feed_cache_bytes),
      hint_timer_(timers, *this),
      again_timer_(timers, *this),
      poll_timer_(timers, *this),
      deadline_timer_(timers, *this),
      read_rows_(std::min<std::int64_t>(kReadRows, std::max<std::int64_t>(config.event_queue_rows, 1))) {}

std::size_t FeedPath::waiting() const {
  std::size_t count = arrived_.size() + covered_.size();
  for (const auto& older : older_) count += older->waiters.size();
  return count;
}

void FeedPath::feed(const FeedQuery& query, std::uint64_t token) {
  ++stats_.feed_requests;
  last_feed_ = loop_.now();
  Waiting waiting{query, token, loop_.now() + kFeedTimeout};
  waiting.query.limit = std::max<std::int64_t>(query.limit, 1);
  if (driver_.read_away()) return refuse(waiting, "the database cannot be reached");
  if (arrived_.size() + covered_.size() >= kMaxWaiting)
    return refuse(waiting, "too many feed requests are waiting");
  arrived_.push_back(waiting);
  pump();
}

void FeedPath::wait_fresh(std::uint64_t token) {
  Waiting waiting{{}, token, loop_.now() + kFeedTimeout, true};
  if (driver_.read_away() || arrived_.size() + covered_.size() >= kMaxWaiting) return refuse(waiting, {});
  arrived_.push_back(waiting);
  pump();
}

bool FeedPath::cancel(std::uint64_t token) {
  const auto is_it = [token](const Waiting& waiting) { return waiting.token == token && !waiting.rides; };
  if (std::erase_if(arrived_, is_it) + std::erase_if(covered_, is_it) > 0) return true;
  for (auto& older : older_) {
    if (std::erase_if(older->waiters, is_it) > 0) return true;
  }
  return false;
}

void FeedPath::on_heap_timer(HeapTimer& timer) {
  if (&timer == &deadline_timer_) {
    expire();
  } else if (&timer == &hint_timer_ && !foreign_hint_ && own_.empty() &&
             cache_.last_sequence() == own_through_) {
    // It has all that was committed here.
  } else {
    refresh_wanted_ = true;
  }
  pump();
}

void FeedPath::on_reader_up(std::string_view generation) {
  forget_own();
  if (generation_ != generation) {
    if (!generation_.empty()) forget_all();
    renew_wanted_ = false;
    generation_ = generation;
  }
  refresh_wanted_ = true;
  read_again_at_ = {};
  pump();
}

void FeedPath::on_driver_change() { pump(); }

void FeedPath::on_read_failed() {
  reading_ = Reading::Nothing;
  arrived_.insert(arrived_.begin(), covered_.begin(), covered_.end());
  covered_.clear();
  refresh_wanted_ = true;
  read_again_at_ = loop_.now() + kPauseAfterFailure;
  again_timer_.arm_at(read_again_at_);
  pump();
}

void FeedPath::pump() {
  if (driver_.read_away()) refuse_all("the database cannot be reached");
  if (reading_ == Reading::Nothing && driver_.read_ready() && !generation_.empty() &&
      loop_.now() >= read_again_at_) {
    std::erase_if(older_, [](const std::unique_ptr<Older>& older) { return older->waiters.empty(); });
    const bool refresh = refresh_wanted_ || !arrived_.empty() || !covered_.empty();
    if (renew_wanted_) {
      reading_ = Reading::Generation;
      driver_.send_renew_generation(generation_);
    } else if (!older_.empty() && (older_turn_ || !refresh)) {
      send_older();
    } else if (refresh && answers_.live_rows() > static_cast<std::size_t>(read_rows_)) {
      again_timer_.arm_at(loop_.now() + kCrowdedPause);
    } else if (refresh) {
      send_refresh();
    }
  }
  arm_timers();
}

void FeedPath::send_refresh() {
  reading_ = Reading::Refresh;
  refresh_wanted_ = false;
  older_turn_ = true;
  hint_timer_.cancel();
  foreign_hint_ = false;
  reading_era_ = writer_era_;
  covered_.insert(covered_.end(), arrived_.begin(), arrived_.end());
  arrived_.clear();
  read_sent_ = loop_.now();
  driver_.send_read({cache_.last_sequence(), read_rows_ + 1, kReadBytes, own_added_ ? anchor_ : 0});
}

void FeedPath::send_older() {
  reading_ = Reading::Older;
  older_turn_ = false;
  const Older& older = *older_.front();
  std::int64_t from = older.whole ? 0 : older.query.after + 1;
  if (!older.part.empty()) from = older.part.last_sequence() + 1;
  std::int64_t rows = kReadRows;
  if (!older.whole) rows = std::min<std::int64_t>(rows, older.query.limit);
  read_sent_ = loop_.now();
  driver_.send_read({from, rows, kReadBytes});
}

void FeedPath::on_rows(std::string_view generation, std::span<const StoredRow> rows, bool complete,
                       std::string_view anchor_nonce) {
  const Reading reading = std::exchange(reading_, Reading::Nothing);
  stats_.feed_refresh_seconds_sum += seconds(loop_.now() - read_sent_);
  ++stats_.feed_refreshes;
  DLB_CHECK(reading == Reading::Refresh || reading == Reading::Older);
  if (generation != generation_) {
    // Another process has noticed it first; this one may have had no row by which to notice.
    forget_all();
    generation_ = generation;
  } else if (reading == Reading::Refresh) {
    on_refresh_rows(rows, complete, anchor_nonce);
  } else if (!older_.empty()) {
    on_older_rows(rows, complete);
  }
  pump();
}

void FeedPath::on_refresh_rows(std::span<const StoredRow> rows, bool complete,
                               std::string_view anchor_nonce) {
  if (!cache_.empty()) {
    const bool same_end = (!own_added_ || anchor_nonce == anchor_nonce_) && !rows.empty() &&
                          rows.front().sequence == cache_.last_sequence() &&
                          rows.front().nonce == cache_.last_nonce();
    if (!same_end) {
      log_.warn("the table was truncated or restored: the feed is built anew",
                {{"last-sequence", cache_.last_sequence()}, {"rows", cache_.rows()}});
      forget_all();
      renew_wanted_ = true;
      return;
    }
    rows = rows.subspan(1);
  }
  for (const StoredRow& row : rows) {
    const OwnRows::Row* own = own_.find(row.sequence);
    if (own != nullptr && own->nonce == row.nonce) {
      append_new(row.sequence, row.nonce, own->element);
    } else {
      append(cache_, row);
    }
  }
  if (!complete) {
    refresh_wanted_ = true;
    return;
  }
  note_complete();
  anchor_ = cache_.last_sequence();
  anchor_nonce_ = cache_.last_nonce();
  verified_era_ = reading_era_;
  own_added_ = false;
  take_own();
  answer_covered();
}

// From now on what is read is new.
void FeedPath::note_complete() {
  if (std::exchange(complete_, true) || !std::exchange(reset_wanted_, false)) return;
  answers_.push_reset();
  if (cache_.rows() > kFewRows) return;
  cache_.for_each_above(0, [this](std::int64_t sequence, std::string_view element) {
    answers_.push_live(sequence, element);
    return true;
  });
}

void FeedPath::on_generation(std::string_view generation) {
  reading_ = Reading::Nothing;
  renew_wanted_ = false;
  generation_ = generation;
  refresh_wanted_ = true;
  pump();
}

// Requests below the cache begin again too: what they have gathered belongs to the old table.
void FeedPath::forget_all() {
  cache_.clear();
  own_.clear();
  own_added_ = false;
  anchor_ = 0;
  anchor_nonce_.clear();
  reset_wanted_ = reset_wanted_ || complete_;
  complete_ = false;
  for (auto& older : older_) arrived_.insert(arrived_.end(), older->waiters.begin(), older->waiters.end());
  older_.clear();
  older_read_.clear();
  refresh_wanted_ = true;
}

void FeedPath::append(FeedCache& cache, const StoredRow& row) {
  const std::string_view element = text_.render(row);
  if (&cache == &cache_) return append_new(row.sequence, row.nonce, element);
  cache.append(row.sequence, row.nonce, element);
}

void FeedPath::append_new(std::int64_t sequence, std::string_view nonce, std::string_view element) {
  cache_.append(sequence, nonce, element);
  if (complete_ && answers_.has_chat()) answers_.push_live(sequence, element);
}

// The asker has what the answer would be, in one of the forms that it takes.
bool FeedPath::is_unchanged(const FeedQuery& query) const {
  if (query.unless.empty()) return false;
  const std::string plain = etag(query);
  if (etag_matches(query.unless, plain)) return true;
  const std::string compressed = query.gzip ? gzip_etag(plain) : std::string();
  return !compressed.empty() && etag_matches(query.unless, compressed);
}

void FeedPath::answer_covered() {
  for (const Waiting& waiting : covered_) {
    if (waiting.rides) {
      rider_->on_fresh(waiting.token, true);
      continue;
    }
    if (cache_.dropped_rows() > 0 && is_unchanged(waiting.query)) {
      answer(waiting, HttpBody{});
      continue;
    }
    if (!waiting.query.paged) {
      if (cache_.dropped_rows() == 0) {
        answer(waiting, cache_.whole());
        continue;
      }
      if (waiting.query.head && cache_.dropped_bytes() <= reread_bytes_) {
        answer(waiting, HttpBody{nullptr, cache_.whole_size()});
        continue;
      }
      const auto shared =
          std::find_if(older_.begin(), older_.end(), [](const auto& older) { return older->whole; });
      if (shared != older_.end()) {
        (*shared)->waiters.push_back(waiting);
        continue;
      }
    } else if (auto page = cache_.page(waiting.query.after, waiting.query.limit)) {
      answer(waiting, std::move(page->body));
      continue;
    }
    older_.push_back(std::make_unique<Older>(Older{
        !waiting.query.paged, waiting.query, FeedCache(chunk_bytes_, SIZE_MAX, older_held_), {waiting}}));
    if (!waiting.query.paged) older_.back()->part.adopt(older_read_);
  }
  covered_.clear();
}

void FeedPath::on_older_rows(std::span<const StoredRow> rows, bool complete) {
  Older& older = *older_.front();
  bool done = complete;
  for (const StoredRow& row : rows) {
    if (older.whole && row.sequence > cache_.dropped_through()) break;  // the cache has it
    append(older.part, row);
    if (!older.whole) {
      done = done || older.part.memory() > kOlderPageBytes ||
             older.part.rows() >= static_cast<std::uint64_t>(older.query.limit);
      if (done) break;
    }
  }
  if (older.whole) {
    done = done || older.part.last_sequence() >= cache_.dropped_through() ||
           (!rows.empty() && rows.back().sequence > cache_.dropped_through());
  }
  if (older.part.memory() > reread_bytes_ || *older_held_ > reread_bytes_) {
    const std::string_view why =
        older.part.memory() > reread_bytes_
            ? "the feed is too long to be sent at once: read it in pages with after and limit"
            : "slow readers hold too much of the feed's older part";
    for (const Waiting& waiting : older.waiters) refuse(waiting, why);
    older_.pop_front();
    return;
  }
  if (!done) return;
  for (const Waiting& waiting : older.waiters) {
    if (older.whole) {
      older_read_ = older.part.references();
      answer(waiting, cache_.whole(&older.part));
    } else {
      auto page = older.part.page(waiting.query.after, waiting.query.limit, cache_.last_sequence());
      DLB_CHECK(page.has_value());
      answer(waiting, std::move(page->body));
    }
  }
  older_.pop_front();
}

void FeedPath::answer(const Waiting& waiting, HttpBody body) {
  FeedAnswer answer;
  answer.available = true;
  answer.body = std::move(body);
  answer.last_sequence = cache_.last_sequence();
  answer.etag = etag(waiting.query);
  stats_.feed_bytes += answer.body.size;
  answers_.push(waiting.token, std::move(answer));
}

void FeedPath::refuse(const Waiting& waiting, std::string_view detail) {
  if (waiting.rides) return rider_->on_fresh(waiting.token, false);
  FeedAnswer answer;
  answer.detail = detail;
  answers_.push(waiting.token, std::move(answer));
}

void FeedPath::refuse_all(std::string_view detail) {
  for (const Waiting& waiting : arrived_) refuse(waiting, detail);
  for (const Waiting& waiting : covered_) refuse(waiting, detail);
  for (const auto& older : older_) {
    for (const Waiting& waiting : older->waiters) refuse(waiting, detail);
    older->waiters.clear();
  }
  arrived_.clear();
  covered_.clear();
}

void FeedPath::expire() {
  const auto overdue = [this](const Waiting& waiting) {
    if (waiting.deadline > loop_.now()) return false;
    refuse(waiting, "the database does not answer in time");
    return true;
  };
  std::erase_if(arrived_, overdue);
  std::erase_if(covered_, overdue);
}

void FeedPath::arm_timers() {
  if (!poll_timer_.armed()) poll_timer_.arm_at(loop_.now() + kPollInterval);
  TimePoint next = kNever;  // both lists are in order of arrival
  if (!covered_.empty()) next = covered_.front().deadline;
  if (!arrived_.empty()) next = std::min(next, arrived_.front().deadline);
  if (next == kNever) {
    deadline_timer_.cancel();
  } else if (!deadline_timer_.armed() || deadline_timer_.deadline() != next) {
    deadline_timer_.arm_at(next);
  }
}

// The last row's nonce tells apart two tables that have reached the same sequence under one generation.
std::string FeedPath::etag(const FeedQuery& query) const {
  std::string tag = "\"" + generation_ + "-" + std::to_string(cache_.last_sequence()) + "-" +
                    hex(cache_.last_nonce().substr(0, 4)) + "-";
  const std::uint32_t ring = cipher_.ring_fingerprint();
  for (int shift = 28; shift >= 0; shift -= 4) tag += "0123456789abcdef"[(ring >> shift) & 15U];
  if (query.paged) {
    tag += "-" + std::to_string(query.after) + "." + std::to_string(query.limit);
  } else {
    tag += "-all";
  }
  return tag + "-plain\"";
}

void FeedPath::add_stats(MessageStoreStats& stats) const {
  text_.add_stats(stats);
  stats.feed_requests = stats_.feed_requests;
  stats.feed_refreshes = stats_.feed_refreshes;
  stats.feed_own_rows = stats_.feed_own_rows;
  stats.feed_rows = cache_.rows();
  stats.feed_bytes = cache_.memory();
  stats.feed_chunks = cache_.chunks();
  stats.feed_refresh_seconds_sum = stats_.feed_refresh_seconds_sum;
}

}  // namespace dlb::backend
