#include "loadgen/ledger.h"

#include <bit>

#include "common/check.h"
#include "loadgen/hash.h"

namespace dlb::loadgen {
namespace {

// Two contents under one id are two entries: if both were accepted, one of them is lost.
bool same_message(const Ledger::Entry& a, const Ledger::Entry& b) {
  return a.id == b.id && a.content == b.content;
}

}  // namespace

void Ledger::add(const MessageId& id, std::uint64_t content, Promise promise, const Acknowledged& told) {
  if (!keeps_ && oracle_ == nullptr) return;
  if (size_ % kChunk == 0) chunks_.push_back(std::make_unique<Entry[]>(kChunk));
  at(size_++) = Entry{id, content, promise, 0, false, told.sequence, told.stamp};
  if (promise == Promise::Accepted) ++accepted_;
  if (promise == Promise::Ambiguous) ++ambiguous_;
  if (oracle_ != nullptr && promise == Promise::Accepted) {
    oracle_->accepted(id, told.sequence, told.stamp, told.at);
  }
}

void Ledger::prepare_lookup() {
  DLB_CHECK(size_ < UINT32_MAX);
  places_.assign(std::bit_ceil(size_ * 2 + 2), 0);
  const std::size_t mask = places_.size() - 1;
  for (std::size_t i = 0; i < size_; ++i) {
    Entry& entry = at(i);
    entry.seen = 0;
    if (entry.promise == Promise::Repeated) continue;
    std::size_t place = mix64(entry.id.high ^ entry.id.low) & mask;
    while (places_[place] != 0 && !same_message(at(places_[place] - 1), entry)) place = (place + 1) & mask;
    if (places_[place] == 0) {
      places_[place] = static_cast<std::uint32_t>(i + 1);
    } else {
      join(at(places_[place] - 1), entry);
    }
  }
}

void Ledger::join(Entry& first, Entry& again) {
  if (again.promise == Promise::Ambiguous) --ambiguous_;
  if (again.promise == Promise::Accepted) {
    if (first.promise == Promise::Accepted) --accepted_;
    if (first.promise == Promise::Ambiguous) --ambiguous_;
    first.promise = Promise::Accepted;
    if (first.sequence == 0) {
      first.sequence = again.sequence;
      first.stamp = again.stamp;
    } else if (again.sequence != 0) {
      first.contradicted =
          first.contradicted || first.sequence != again.sequence || first.stamp != again.stamp;
    }
  }
  again.promise = Promise::Repeated;
}

Ledger::Entry* Ledger::find(const MessageId& id) {
  if (places_.empty()) return nullptr;
  const std::size_t mask = places_.size() - 1;
  for (std::size_t place = mix64(id.high ^ id.low) & mask; places_[place] != 0; place = (place + 1) & mask) {
    Entry& entry = at(places_[place] - 1);
    if (entry.id == id) return &entry;
  }
  return nullptr;
}

}  // namespace dlb::loadgen
