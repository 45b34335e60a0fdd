#include "lb/event_stream.h"

#include <array>
#include <utility>

#include "common/clock.h"
#include "common/socket.h"

namespace dlb::lb {
namespace {

constexpr std::string_view kHead =
    "HTTP/1.1 200 OK\r\n"
    "Content-Type: text/event-stream\r\n"
    "Cache-Control: no-store\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Connection: close\r\n\r\n";
// Browsers come back after this many milliseconds.
constexpr std::string_view kRetry = "retry: 1000\n\n";
constexpr int kDropsPerTurn = 16;

}  // namespace

// --- one reader

EventReader::EventReader(EventStream& stream, Transport transport, Handle<EventReader> self)
    : stream_(stream), transport_(std::move(transport)), self_(self), moved_at_(stream.loop_.now()) {
  transport_.rebind(stream_.loop_, *this);
}

void EventReader::give(std::shared_ptr<const std::string> text) {
  text_ = std::move(text);
  written_ = 0;
  last_debt_ = text_->size();
  moved_at_ = stream_.loop_.now();
  pump();
}

void EventReader::on_events(std::uint32_t events) {
  if (closed()) return;
  transport_.note_events(events);
  if (drop_input()) pump();
}

// Whatever comes from the client is dropped; its end, also a FIN alone, is the end. False: closed.
bool EventReader::drop_input() {
  std::array<char, 4096> sink;
  for (int i = 0; i < kDropsPerTurn; ++i) {
    const IoResult got = transport_.read(sink);
    if (got.status == IoStatus::WouldBlock) return true;
    if (!got.ok()) {
      close();
      return false;
    }
  }
  stream_.loop_.make_runnable(transport_.source());
  return true;
}

void EventReader::pump() {
  while (text_ && written_ < text_->size()) {
    const IoResult wrote = transport_.write(std::span(*text_).subspan(written_));
    if (wrote.status == IoStatus::Error) return close();
    if (!wrote.ok()) return;
    written_ += wrote.bytes;
    bytes_ += wrote.bytes;
  }
  text_.reset();
}

std::size_t EventReader::debt(TimePoint now) {
  const std::size_t unsent = text_ ? text_->size() - written_ : 0;
  const std::size_t debt = unsent + unacknowledged_bytes(transport_.fd());
  if (debt == 0 || debt < last_debt_) moved_at_ = now;
  last_debt_ = debt;
  return debt;
}

void EventReader::close(bool reset) {
  if (closed()) return;
  if (reset) {
    set_reset_on_close(transport_.fd());
  } else if (!text_) {
    std::ignore = transport_.say_goodbye();
  }
  text_.reset();
  transport_.close(stream_.loop_);
  stream_.figures_.readers.release();
  stream_.gone_(bytes_);
  stream_.readers_.retire(self_);
}

// --- all of them

EventStream::EventStream(EventLoop& loop, OwnPages& pages, const ConfigurationStore& configuration,
                         EventFigures& figures, std::function<void(std::uint64_t bytes)> gone)
    : loop_(loop),
      pages_(pages),
      configuration_(configuration),
      figures_(figures),
      gone_(std::move(gone)),
      ticks_(loop, kInterval),
      tick_(*this),
      readers_(0) {
  readers_.set_capacity(2 * EventFigures::kMaxReaders);  // with those that are closed in this turn
  loop_.add_turn_end_hook(*this);
}

EventStream::~EventStream() {
  close_all();
  readers_.reap();
  loop_.remove_turn_end_hook(*this);
}

bool EventStream::reserve() {
  if (!ended_ && figures_.readers.try_reserve(EventFigures::kMaxReaders)) return true;
  figures_.refused.fetch_add(1, std::memory_order_relaxed);
  return false;
}

void EventStream::begin(Transport transport, bool head_only) {
  EventReader* reader = readers_.create(*this, std::move(transport));
  if (reader == nullptr) {  // a turn in which more came and went than there are places
    transport.close(loop_);
    figures_.readers.release();
    return gone_(0);
  }
  std::string first(kHead);
  if (!head_only) {
    first += kRetry;
    first += *snapshot();
    figures_.sent.fetch_add(1, std::memory_order_relaxed);
    if (!tick_.armed()) ticks_.arm(tick_);
  }
  reader->give(std::make_shared<const std::string>(std::move(first)));
  reader->on_events(0);  // what was read ready before it came to us brings no edge any more
  if (head_only) reader->close();
}

// The snapshot of this interval: who comes between two gets the last one.
const std::shared_ptr<const std::string>& EventStream::snapshot() {
  if (snapshot_ && loop_.now() - made_at_ < kInterval) return snapshot_;
  made_at_ = loop_.now();
  std::string text = "id: " + std::to_string(wall_now_us() / 1000) + "\ndata: ";
  text += pages_.render_event();
  text += "\n\n";
  snapshot_ = std::make_shared<const std::string>(std::move(text));
  return snapshot_;
}

void EventStream::on_timer(Timer&) {
  if (readers_.live() == 0) {
    snapshot_.reset();
    return;
  }
  ticks_.arm(tick_);
  const TimePoint now = loop_.now();
  const Duration patience = configuration_.current()->options->client_write_timeout;
  readers_.for_each([&](EventReader& reader) {
    if (reader.debt(now) == 0) {
      figures_.sent.fetch_add(1, std::memory_order_relaxed);
      reader.give(snapshot());
    } else if (patience > Duration::zero() && now - reader.moved_at() >= patience) {
      figures_.cut.fetch_add(1, std::memory_order_relaxed);
      reader.close(/*reset=*/true);
    } else {
      figures_.skipped.fetch_add(1, std::memory_order_relaxed);
    }
  });
}

void EventStream::end() {
  if (std::exchange(ended_, true) || readers_.live() == 0) return;
  snapshot_.reset();  // the last one says that it is
  readers_.for_each([this](EventReader& reader) {
    if (reader.debt(loop_.now()) == 0) reader.give(snapshot());
    if (!reader.closed()) reader.close();
  });
}

void EventStream::close_all() {
  readers_.for_each([](EventReader& reader) { reader.close(); });
}

void EventStream::on_turn_end() { readers_.reap(); }

}  // namespace dlb::lb
