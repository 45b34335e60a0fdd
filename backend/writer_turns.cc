#include "backend/writer_turns.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdint>

#include "common/check.h"
#include "common/fd.h"

namespace dlb::backend {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kPlaces = 64;  // who finds none free waits for no turn

// CLOCK_MONOTONIC is one for all processes of a machine.
std::int64_t nanoseconds(TimePoint time) { return time.time_since_epoch().count(); }

bool silent(std::int64_t seen, std::int64_t now) {
  const std::int64_t age = now - seen;
  // Far in the future is left from before the machine's last start.
  return age > WriterTurns::kSilence.count() || age < -WriterTurns::kSilence.count();
}

}  // namespace

// A cache line each. In memory that others write: nothing read from it is believed beyond its meaning here.
struct alignas(64) WriterTurns::Place {
  std::atomic<std::int64_t> asked;  // 0: nobody waits at this place
  std::atomic<std::int64_t> seen;
};

WriterTurns::~WriterTurns() { close(); }

bool WriterTurns::open(const std::string& path) {
  close();
  static_assert(sizeof(Place) * kPlaces <= kPageBytes && std::atomic<std::int64_t>::is_always_lock_free);
  const Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  // With blocks of its own: a page that the disk has no room for would be a SIGBUS.
  if (!file || ::posix_fallocate(file.get(), 0, kPageBytes) != 0) return false;
  void* page = ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (page == MAP_FAILED) return false;
  places_ = static_cast<Place*>(page);
  return true;
}

void WriterTurns::close() {
  if (places_ == nullptr) return;
  leave();
  ::munmap(places_, kPageBytes);
  places_ = nullptr;
}

void WriterTurns::ask(TimePoint now) {
  DLB_CHECK(!in_line_);
  if (places_ == nullptr) return;
  asked_ = nanoseconds(now);
  for (std::size_t i = 0; i < kPlaces; ++i) {
    const std::size_t place = (place_ + i) % kPlaces;
    std::int64_t holder = places_[place].asked.load();
    if (holder != 0 && !silent(places_[place].seen.load(), asked_)) continue;
    if (!places_[place].asked.compare_exchange_strong(holder, asked_)) continue;
    places_[place].seen.store(asked_);
    place_ = place;
    in_line_ = true;
    return;
  }
}

bool WriterTurns::mine(TimePoint now) {
  if (!in_line_) return true;
  const std::int64_t now_ns = nanoseconds(now);
  places_[place_].asked.store(asked_);  // someone may have taken it for a dead one's
  places_[place_].seen.store(now_ns);
  for (std::size_t i = 0; i < kPlaces; ++i) {
    if (i == place_) continue;
    const std::int64_t asked = places_[i].asked.load();
    if (asked == 0 || asked > asked_ || (asked == asked_ && i > place_)) continue;
    if (!silent(places_[i].seen.load(), now_ns)) return false;
  }
  return true;
}

void WriterTurns::leave() {
  if (!in_line_) return;
  in_line_ = false;
  std::int64_t mine = asked_;
  places_[place_].asked.compare_exchange_strong(mine, 0);
}

}  // namespace dlb::backend
