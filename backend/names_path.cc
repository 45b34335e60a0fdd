#include "backend/names_path.h"

#include <utility>

#include "common/check.h"

namespace dlb::backend {
namespace {

constexpr std::size_t kMaxQueue = 8192;
constexpr std::size_t kInFlight = 16;
constexpr int kTries = 3;
constexpr Duration kTimeout = std::chrono::seconds(5);
constexpr Duration kLookInterval = std::chrono::milliseconds(500);

}  // namespace

NamesPath::NamesPath(EventLoop& loop, TimerHeap& timers, AnswerQueue& answers, ChatDriver& driver)
    : loop_(loop), answers_(answers), driver_(driver), timer_(timers, *this) {}

void NamesPath::claim(std::string_view name, std::string_view public_key, std::uint64_t token) {
  DLB_CHECK(!public_key.empty());
  take({std::string(name), std::string(public_key), token});
}

void NamesPath::find_key(std::string_view name, std::uint64_t token) { take({std::string(name), {}, token}); }

void NamesPath::take(Request request) {
  if (from_cache(request.name, request.token)) return;
  if (away(request) || queue_.size() >= kMaxQueue) return answer(request, OwnerAnswer::Kind::Unavailable);
  request.deadline = loop_.now() + kTimeout;
  queue_.push_back(std::move(request));
  pump();
}

bool NamesPath::from_cache(std::string_view name, std::uint64_t token) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return false;
  known_.splice(known_.begin(), known_, found->second);
  answers_.push(token, OwnerAnswer{OwnerAnswer::Kind::Known, known_.front().public_key});
  return true;
}

void NamesPath::remember(std::string_view name, std::string_view public_key) {
  if (by_name_.contains(name)) return;
  known_.push_front({std::string(name), std::string(public_key)});
  by_name_.emplace(known_.front().name, known_.begin());
  if (known_.size() <= kCached) return;
  by_name_.erase(known_.back().name);
  known_.pop_back();
}

void NamesPath::answer(const Request& request, OwnerAnswer::Kind kind, std::string_view public_key) {
  answers_.push(request.token, OwnerAnswer{kind, std::string(public_key)});
}

bool NamesPath::ready(const Request& request) const {
  return request.public_key.empty() ? driver_.chat_reads_ready() : driver_.chat_writes_ready();
}

bool NamesPath::away(const Request& request) const {
  return request.public_key.empty() ? driver_.chat_reads_away() : driver_.chat_writes_away();
}

// In order: who waits for the one connection holds up who waits for the other, for a reconnection at most.
void NamesPath::pump() {
  while (!queue_.empty() && in_flight_.size() < kInFlight) {
    Request& next = queue_.front();
    if (away(next) || next.deadline <= loop_.now()) {
      answer(next, OwnerAnswer::Kind::Unavailable);
    } else if (!from_cache(next.name, next.token)) {
      if (!ready(next)) break;
      const std::uint64_t id = next_id_++;
      const Request& sent = in_flight_.emplace(id, std::move(next)).first->second;
      if (sent.public_key.empty()) {
        driver_.send_find_key(id, sent.name);
      } else {
        driver_.send_claim(id, sent.name, sent.public_key);
      }
    }
    queue_.pop_front();
  }
  if (!queue_.empty() && !timer_.armed()) timer_.arm_at(loop_.now() + kLookInterval);
}

void NamesPath::on_key(std::uint64_t id, std::string_view public_key) {
  auto node = in_flight_.extract(id);
  DLB_CHECK(!node.empty());
  Request& request = node.mapped();
  if (!public_key.empty()) {
    remember(request.name, public_key);
    answer(request, OwnerAnswer::Kind::Known, public_key);
  } else if (request.public_key.empty()) {
    answer(request, OwnerAnswer::Kind::Nobody);
  } else if (++request.tries < kTries) {
    queue_.push_back(std::move(request));
  } else {
    answer(request, OwnerAnswer::Kind::Unavailable);
  }
  pump();
}

// Whether a claim that was lost was carried out doesn't matter: asked again, the same key finds its name.
void NamesPath::on_failed(std::uint64_t id) {
  auto node = in_flight_.extract(id);
  DLB_CHECK(!node.empty());
  Request& request = node.mapped();
  if (++request.tries < kTries) {
    queue_.push_back(std::move(request));
  } else {
    answer(request, OwnerAnswer::Kind::Unavailable);
  }
  if (!queue_.empty() && !timer_.armed()) timer_.arm_at(loop_.now() + kLookInterval / 10);
}

void NamesPath::on_driver_change() { pump(); }

void NamesPath::on_heap_timer(HeapTimer&) { pump(); }

}  // namespace dlb::backend
