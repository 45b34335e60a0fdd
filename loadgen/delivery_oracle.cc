#include "loadgen/delivery_oracle.h"

#include <algorithm>

#include "common/check.h"
#include "loadgen/hash.h"

namespace dlb::loadgen {
namespace {

constexpr std::array<std::string_view, 6> kKindNames = {"missed",  "duplicated", "reordered",
                                                        "altered", "phantom",    "contradicted"};

std::uint64_t hash_of(const MessageId& id) { return mix64(id.high ^ mix64(id.low)); }
std::uint64_t hash_of(std::int64_t sequence) { return mix64(static_cast<std::uint64_t>(sequence)); }
std::uint64_t hash_of(std::string_view id) { return hash_bytes(id, 3); }

std::string id_text(const MessageId& id) {
  std::string text(kMessageIdChars, ' ');
  write_message_id(id, text.data());
  return text;
}

std::string named(std::string_view id, std::int64_t sequence) {
  return std::string(id.substr(0, 128)) + " (sequence " + std::to_string(sequence) + ")";
}

template <class Member>
std::uint64_t sum_of(const std::vector<GroupDelivery>& groups, Member member) {
  std::uint64_t sum = 0;
  for (const GroupDelivery& group : groups) sum += group.*member;
  return sum;
}

}  // namespace

StreamFaults& StreamFaults::operator+=(const StreamFaults& other) {
  missed += other.missed;
  duplicated += other.duplicated;
  reordered += other.reordered;
  altered += other.altered;
  phantom += other.phantom;
  return *this;
}

std::uint64_t Delivery::expected() const { return sum_of(groups, &GroupDelivery::expected); }
std::uint64_t Delivery::delivered() const { return sum_of(groups, &GroupDelivery::delivered); }
std::uint64_t Delivery::resets() const { return sum_of(groups, &GroupDelivery::resets); }

StreamFaults Delivery::faults() const {
  StreamFaults faults;
  for (const GroupDelivery& group : groups) faults += group.faults;
  return faults;
}

std::size_t DeliveryOracle::add_group(std::string name) {
  groups_.push_back({});
  groups_.back().name = std::move(name);
  return groups_.size() - 1;
}

std::size_t DeliveryOracle::add_stream(std::size_t group, std::int64_t base) {
  lowest_base_ = streams_.empty() ? base : std::min(lowest_base_, base);
  streams_.push_back({group, static_cast<std::size_t>(groups_[group].streams++), StreamCursor(base)});
  return streams_.size() - 1;
}

std::uint32_t DeliveryOracle::message_place(std::string_view id) const {
  MessageId ours;
  if (!parse_message_id(id, ours)) return HashPlaces::kNone;
  return message_places_.find(hash_of(ours), [&](std::uint32_t at) { return messages_[at].id == ours; });
}

void DeliveryOracle::sent(const MessageId& id, std::uint64_t content, TimePoint intended) {
  const std::uint64_t hash = hash_of(id);
  const auto is_it = [&](std::uint32_t at) { return messages_[at].id == id; };
  if (message_places_.find(hash, is_it) != HashPlaces::kNone) return;
  DLB_CHECK(messages_.size() < HashPlaces::kNone);
  message_places_.insert(hash, static_cast<std::uint32_t>(messages_.size()));
  Message& message = messages_.emplace_back();
  message.id = id;
  message.content = content;
  message.intended = intended;
}

void DeliveryOracle::accepted(const MessageId& id, std::int64_t sequence, std::uint64_t stamp,
                              TimePoint now) {
  const std::uint32_t place =
      message_places_.find(hash_of(id), [&](std::uint32_t at) { return messages_[at].id == id; });
  DLB_CHECK(place != HashPlaces::kNone);
  Message& message = messages_[place];
  if (message.accepted) return;
  message.accepted = true;
  message.accepted_at = now;
  message.stamp = stamp;
  ++accepted_;
  before_promise_ += message.before_promise;
  if (sequence <= 0) return;

  message.promised = sequence;
  horizon_ = std::max(horizon_, sequence);
  bool fresh = false;
  const ChatRow promised{sequence, {}, message.content, stamp};
  const Row& row = row_at(promised, place, &fresh);
  const bool agrees = fresh || (row.message == place && (stamp == 0 || row.stamp == stamp));
  if (!agrees || (message.seen != 0 && message.seen != sequence)) {
    ++contradicted_;
    note(Contradicted, named(id_text(id), sequence), HashPlaces::kNone);
  }
  message.seen = sequence;
}

DeliveryOracle::Row& DeliveryOracle::row_at(const ChatRow& row, std::uint32_t message, bool* fresh) {
  const std::uint64_t hash = hash_of(row.sequence);
  const std::uint32_t at =
      row_places_.find(hash, [&](std::uint32_t place) { return rows_[place].sequence == row.sequence; });
  *fresh = at == HashPlaces::kNone;
  if (!*fresh) return rows_[at];
  DLB_CHECK(rows_.size() < HashPlaces::kNone);
  row_places_.insert(hash, static_cast<std::uint32_t>(rows_.size()));
  Row& added = rows_.emplace_back();
  added.sequence = row.sequence;
  added.id = message == HashPlaces::kNone ? hash_of(row.id) : hash_of(messages_[message].id);
  added.content = row.content;
  added.stamp = row.stamp;
  added.message = message;
  return added;
}

// Whether a delivery is not what was sent and promised, or, of other people's rows, not what was seen before.
bool DeliveryOracle::altered(const Row& known, bool fresh, const ChatRow& row, std::uint32_t message) const {
  if (message != HashPlaces::kNone) {
    const Message& sent = messages_[message];
    if (sent.content != row.content) return true;
    if (sent.stamp != 0 && sent.stamp != row.stamp) return true;
    return !fresh && (known.message != message || (known.stamp != 0 && known.stamp != row.stamp));
  }
  return !fresh && (known.message != HashPlaces::kNone || known.id != hash_of(row.id) ||
                    known.content != row.content || known.stamp != row.stamp);
}

DeliveryOracle::Receipt DeliveryOracle::received(std::size_t number, const ChatRow& row) {
  Stream& stream = streams_[number];
  StreamFaults& faults = groups_[stream.group].faults;
  const std::uint32_t place = message_place(row.id);
  Message* const message = place == HashPlaces::kNone ? nullptr : &messages_[place];
  if (message != nullptr && message->seen != 0 && message->seen != row.sequence) {
    // The same message under another number: a copy of what it had, or its only one, renumbered.
    if (stream.cursor.has(message->seen)) {
      ++faults.duplicated;
      note(Duplicated, named(row.id, row.sequence), number);
    } else {
      ++faults.altered;
      note(Altered, named(row.id, row.sequence), number);
    }
    return {};
  }
  switch (stream.cursor.take(row.sequence)) {
    case StreamCursor::Take::Next:
      break;
    case StreamCursor::Take::Late:
      ++faults.reordered;
      note(Reordered, named(row.id, row.sequence), number);
      break;
    case StreamCursor::Take::Again:
      ++faults.duplicated;
      note(Duplicated, named(row.id, row.sequence), number);
      return {};
  }
  bool fresh = false;
  Row& known = row_at(row, place, &fresh);
  if (altered(known, fresh, row, place)) {
    ++faults.altered;
    note(Altered, named(row.id, row.sequence), number);
  }
  if (known.stream == HashPlaces::kNone) known.stream = static_cast<std::uint32_t>(number);
  if (known.stamp == 0) known.stamp = row.stamp;
  if (message == nullptr) return {};
  message->seen = row.sequence;
  if (!message->accepted) ++message->before_promise;
  return {true, message->intended, message->accepted_at};
}

void DeliveryOracle::reset(std::size_t number) {
  Stream& stream = streams_[number];
  ++groups_[stream.group].resets;
  stream.cursor = StreamCursor(0);
}

void DeliveryOracle::feed_row(const ChatRow& row) {
  feed_last_ = std::max(feed_last_, row.sequence);
  horizon_ = std::max(horizon_, row.sequence);
  if (streams_.empty() || row.sequence <= lowest_base_) return;
  const std::uint32_t place = message_place(row.id);
  bool fresh = false;
  Row& known = row_at(row, place, &fresh);
  // That feeds differ from each other, or from what was sent, is the feed checker's to say.
  const bool first = !known.in_feed;
  known.in_feed = true;
  if (fresh || !first || known.stream == HashPlaces::kNone) return;
  const bool same =
      known.message == place && known.stamp == row.stamp &&
      (place != HashPlaces::kNone || (known.id == hash_of(row.id) && known.content == row.content));
  if (same) return;
  const std::size_t group = streams_[known.stream].group;
  ++groups_[group].faults.altered;
  note(Altered, named(row.id, row.sequence), known.stream);
  known.message = place;
}

std::string DeliveryOracle::stream_name(std::size_t number) const {
  const Stream& stream = streams_[number];
  return "subscriber " + std::to_string(stream.number) + " at " + groups_[stream.group].name;
}

std::string DeliveryOracle::row_name(const Row& row) const {
  return named(row.message == HashPlaces::kNone ? "a foreign message" : id_text(messages_[row.message].id),
               row.sequence);
}

void DeliveryOracle::note(Kind kind, const std::string& what, std::size_t stream) {
  if (++shown_[kind] > kMaxExamples) return;
  std::string text(kKindNames[kind]);
  text += ' ' + what;
  if (stream != HashPlaces::kNone) text += ": " + stream_name(stream);
  examples_.push_back(std::move(text));
}

// `rows`: places of the rows that stand, by sequence.
void DeliveryOracle::judge_stream(std::size_t number, const std::vector<std::uint32_t>& rows) {
  const Stream& stream = streams_[number];
  GroupDelivery& group = groups_[stream.group];
  const auto behind = [&](std::int64_t sequence) {  // the first row above it
    return std::upper_bound(rows.begin(), rows.end(), sequence,
                            [&](std::int64_t s, std::uint32_t row) { return s < rows_[row].sequence; });
  };
  const std::int64_t end = std::max(stream.cursor.last(), horizon_);
  const auto expected = static_cast<std::uint64_t>(behind(end) - behind(stream.cursor.base()));

  std::uint64_t missed = 0;
  const auto miss = [&](std::int64_t first, std::int64_t last) {
    const auto from = behind(first - 1);
    const auto count = behind(last) - from;
    missed += static_cast<std::uint64_t>(count);
    for (auto row = from; row != from + count && shown_[Missed] < kMaxExamples; ++row) {
      note(Missed, row_name(rows_[*row]), number);
    }
  };
  for (const SequenceGap& gap : stream.cursor.gaps()) miss(gap.first, gap.last);
  if (stream.cursor.last() < end) miss(stream.cursor.last() + 1, end);
  if (stream.cursor.forgot_gaps() && expected > stream.cursor.taken()) {
    missed = std::max(missed, expected - stream.cursor.taken());
  }
  group.expected += expected;
  group.delivered += expected - missed;
  group.faults.missed += missed;
}

Delivery DeliveryOracle::judge() {
  Delivery out;
  std::vector<std::uint32_t> standing;
  for (std::uint32_t place = 0; place < rows_.size(); ++place) {
    const Row& row = rows_[place];
    const bool in_no_feed = feed_read_ && !row.in_feed && row.sequence <= feed_last_;
    if (in_no_feed && row.stream != HashPlaces::kNone) {
      ++groups_[streams_[row.stream].group].faults.phantom;
      note(Phantom, row_name(row), row.stream);
    }
    // A promise that is in no feed is lost: the feed checker says so.
    if (in_no_feed || row.sequence <= lowest_base_) continue;
    standing.push_back(place);
    if (row.message == HashPlaces::kNone) ++out.foreign_rows;
  }
  std::sort(standing.begin(), standing.end(),
            [&](std::uint32_t a, std::uint32_t b) { return rows_[a].sequence < rows_[b].sequence; });
  for (std::size_t number = 0; number < streams_.size(); ++number) judge_stream(number, standing);

  out.groups = groups_;
  out.accepted = accepted_;
  out.rows = standing.size();
  out.contradicted = contradicted_;
  out.feed_read = feed_read_;
  out.examples = std::move(examples_);
  return out;
}

}  // namespace dlb::loadgen
