#include "backend/rows_path.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/check.h"

namespace dlb::backend {
namespace {

constexpr std::size_t kMaxWaiting = 16384;
constexpr std::int64_t kReplayRows = 512;
constexpr Duration kReadTimeout = std::chrono::seconds(5);  // the reader may be reconnecting
constexpr Duration kLookInterval = std::chrono::milliseconds(500);

// Rows in the order in which they are found, up to a number and to a size that is broken by a first row only.
class Page {
 public:
  Page(std::int64_t max_rows, std::size_t max_bytes) : max_rows_(max_rows), max_bytes_(max_bytes) {}

  // False: it is full, and this one was not taken.
  bool add(std::int64_t sequence, std::string_view element) {
    const bool fits = bytes_ + element.size() <= max_bytes_ || rows_.empty();
    if (!fits || std::ssize(rows_) >= max_rows_) {
      full_ = true;
      return false;
    }
    bytes_ += element.size() + 1;
    rows_.push_back({sequence, std::string(element)});
    return true;
  }
  bool full() const { return full_; }

  // Ascending, whichever way they were found.
  RowsAnswer answer() {
    if (rows_.size() > 1 && rows_.front().sequence > rows_.back().sequence) {
      std::reverse(rows_.begin(), rows_.end());
    }
    RowsAnswer answer;
    answer.available = true;
    answer.json.reserve(bytes_);
    answer.marks.reserve(rows_.size());
    for (const Row& row : rows_) {
      if (!answer.json.empty()) answer.json += ',';
      answer.json += row.element;
      answer.marks.push_back({row.sequence, answer.json.size()});
    }
    return answer;
  }

 private:
  struct Row {
    std::int64_t sequence = 0;
    std::string element;
  };
  std::int64_t max_rows_;
  std::size_t max_bytes_;
  std::vector<Row> rows_;
  std::size_t bytes_ = 0;
  bool full_ = false;
};

Page page_for(bool down, std::int64_t limit) {
  return down ? Page(limit, ChatStore::kPageBytes) : Page(kReplayRows, ChatStore::kReplayBytes);
}

}  // namespace

RowsPath::RowsPath(EventLoop& loop, TimerHeap& timers, Log& log, Cipher& cipher, FeedPath& feeds,
                   AnswerQueue& answers, ChatDriver& driver)
    : loop_(loop),
      feeds_(feeds),
      answers_(answers),
      driver_(driver),
      text_(cipher, log),
      deadline_timer_(timers, *this) {}

void RowsPath::history(std::int64_t before, std::int64_t limit, std::uint64_t token) {
  take({true, before > 0 ? before : INT64_MAX, std::max<std::int64_t>(limit, 1), token, {}, before > 0});
}

void RowsPath::rows_after(std::int64_t after, bool fresh, std::uint64_t token) {
  take({false, std::max<std::int64_t>(after, 0), 0, token, {}, !fresh});
}

void RowsPath::take(Request request) {
  if (waiting_.size() + reads_.size() >= kMaxWaiting) return refuse(request);
  if (request.fresh && feeds_.complete()) return serve(request);
  request.fresh = false;
  waiting_.emplace(request.token, request);
  feeds_.wait_fresh(request.token);
}

void RowsPath::on_fresh(std::uint64_t token, bool ok) {
  auto node = waiting_.extract(token);
  if (node.empty()) return;
  if (ok) {
    serve(node.mapped());
  } else {
    refuse(node.mapped());
  }
}

void RowsPath::serve(const Request& request) {
  const FeedCache& cache = feeds_.cache();
  if (!request.down && request.from > cache.last_sequence()) {
    RowsAnswer answer;
    answer.available = answer.future = true;
    answer.last_sequence = cache.last_sequence();
    return answers_.push(request.token, std::move(answer));
  }
  if (from_cache(request)) return;
  if (driver_.chat_reads_away()) return refuse(request);
  reads_.push_back(request);
  reads_.back().deadline = loop_.now() + kReadTimeout;
  pump();
}

bool RowsPath::from_cache(const Request& request) {
  const FeedCache& cache = feeds_.cache();
  const bool below_it =
      request.down ? cache.first_held() >= request.from : request.from < cache.dropped_through();
  if (cache.dropped_rows() > 0 && below_it) return false;
  Page page = page_for(request.down, request.limit);
  const auto add = [&page](std::int64_t sequence, std::string_view element) {
    return page.add(sequence, element);
  };
  if (request.down) {
    cache.for_each_below(request.from, add);  // a page ends where the cache does
  } else {
    cache.for_each_above(request.from, add);
  }
  RowsAnswer answer = page.answer();
  answer.has_more = page.full() || (request.down && cache.dropped_rows() > 0);
  answer.last_sequence = cache.last_sequence();
  answers_.push(request.token, std::move(answer));
  return true;
}

void RowsPath::refuse(const Request& request) { answers_.push(request.token, RowsAnswer{}); }

void RowsPath::pump() {
  if (driver_.chat_reads_away()) {
    for (const Request& request : reads_) refuse(request);
    reads_.clear();
    reading_ = false;
  }
  if (!reading_ && !reads_.empty() && driver_.chat_reads_ready()) {
    const Request& request = reads_.front();
    reading_ = true;
    ++pages_read_;
    if (request.down) {
      // One more than asked for tells whether there are more.
      driver_.send_page({true, request.from - 1, request.limit + 1, std::int64_t{ChatStore::kPageBytes}});
    } else {
      driver_.send_page({false, request.from + 1, kReplayRows, std::int64_t{ChatStore::kReplayBytes}});
    }
  }
  if (!reads_.empty() && !deadline_timer_.armed()) deadline_timer_.arm_at(loop_.now() + kLookInterval);
}

void RowsPath::on_page(std::span<const StoredRow> rows, bool complete) {
  if (!std::exchange(reading_, false) || reads_.empty()) return;  // given up meanwhile
  const Request request = reads_.front();
  reads_.pop_front();
  Page page = page_for(request.down, request.limit);
  for (const StoredRow& row : rows) {
    if (!page.add(row.sequence, text_.render(row))) break;
  }
  RowsAnswer answer = page.answer();
  answer.has_more = page.full() || !complete;
  answer.last_sequence = feeds_.cache().last_sequence();
  // Upwards, rows that were not there any more lead back to the cache.
  if (!request.down && answer.marks.empty()) answer.has_more = false;
  answers_.push(request.token, std::move(answer));
  pump();
}

void RowsPath::on_page_failed() {
  if (!std::exchange(reading_, false) || reads_.empty()) return;
  refuse(reads_.front());
  reads_.pop_front();
  pump();
}

void RowsPath::on_driver_change() { pump(); }

void RowsPath::on_heap_timer(HeapTimer&) {
  // The one that is being read has the connection's own time-out.
  const auto begin = reads_.begin() + (reading_ ? 1 : 0);
  const auto overdue = std::find_if(
      begin, reads_.end(), [this](const Request& request) { return request.deadline > loop_.now(); });
  for (auto one = begin; one != overdue; ++one) refuse(*one);
  reads_.erase(begin, overdue);
  pump();
}

void RowsPath::add_stats(MessageStoreStats& stats) const {
  text_.add_stats(stats);
  stats.pages_read += pages_read_;
}

}  // namespace dlb::backend
