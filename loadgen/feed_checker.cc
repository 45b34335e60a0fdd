#include "loadgen/feed_checker.h"

#include <simdjson.h>

#include <array>

#include "loadgen/hash.h"
#include "loadgen/payload.h"

namespace dlb::loadgen {

struct FeedChecker::Parser {
  simdjson::dom::parser json;
};

// A set of ids as 128-bit hashes in open addressing.
struct FeedChecker::ForeignIds {
  struct Key {
    std::uint64_t a = 0;
    std::uint64_t b = 0;
    bool operator==(const Key&) const = default;
  };

  // True when it is new.
  bool insert(std::string_view id) {
    if (keys.size() < (count + 1) * 2) grow();
    return place(Key{hash_bytes(id, 1) | 1U, hash_bytes(id, 2)});
  }

  bool place(const Key& key) {
    const std::size_t mask = keys.size() - 1;
    std::size_t at = key.b & mask;
    for (; keys[at].a != 0; at = (at + 1) & mask) {
      if (keys[at] == key) return false;
    }
    keys[at] = key;
    ++count;
    return true;
  }

  void grow() {
    const std::vector<Key> old = std::exchange(keys, std::vector<Key>(keys.empty() ? 1024 : keys.size() * 2));
    count = 0;
    for (const Key& key : old) {
      if (key.a != 0) place(key);
    }
  }

  std::vector<Key> keys;
  std::size_t count = 0;
};

FeedChecker::FeedChecker(Ledger& ledger, FeedRowUser* rows)
    : ledger_(ledger),
      rows_(rows),
      splitter_(*this),
      parser_(std::make_unique<Parser>()),
      foreign_(std::make_unique<ForeignIds>()) {
  ledger_.prepare_lookup();
}

FeedChecker::~FeedChecker() = default;

bool FeedChecker::feed(std::string_view bytes) {
  summary_.bytes += bytes.size();
  return splitter_.feed(bytes);
}

bool FeedChecker::on_element(std::string_view json) {
  static_assert(FeedSplitter::kPadding >= simdjson::SIMDJSON_PADDING);
  // The document parser: it picks its code by the CPU at run time, and looks at every byte of the row.
  simdjson::dom::object row;
  if (parser_->json.parse(json.data(), json.size(), false).get_object().get(row) != simdjson::SUCCESS)
    return false;

  std::string_view id;
  std::string_view client_name;
  std::string_view text;
  std::string_view timestamp;
  std::int64_t sequence = 0;
  if (row["message-id"].get_string().get(id) != simdjson::SUCCESS ||
      row["client-name"].get_string().get(client_name) != simdjson::SUCCESS ||
      row["sequence"].get_int64().get(sequence) != simdjson::SUCCESS) {
    return false;
  }
  simdjson::dom::element msg;
  if (row["msg"].get(msg) != simdjson::SUCCESS) return false;
  const bool quarantined = msg.is_null();
  if (!quarantined && msg.get_string().get(text) != simdjson::SUCCESS) return false;
  const bool stamped = row["timestamp"].get_string().get(timestamp) == simdjson::SUCCESS;
  const std::uint64_t content = quarantined ? 0 : content_hash(client_name, text);
  const ChatRow whole{sequence, id, content, stamped ? hash_bytes(timestamp, 0) : 0};
  check_row(whole, !quarantined);
  if (rows_ != nullptr) rows_->on_feed_row(whole);
  return true;
}

void FeedChecker::check_row(const ChatRow& row, bool readable) {
  const auto& [sequence, id, content, stamp] = row;
  FeedFaults& faults = summary_.faults;
  if (summary_.rows > 0 && sequence <= summary_.last_sequence)
    example("out of order", id, ++faults.out_of_order);
  ++summary_.rows;
  summary_.last_sequence = sequence;

  MessageId ours;
  Ledger::Entry* entry = parse_message_id(id, ours) ? ledger_.find(ours) : nullptr;
  if (entry == nullptr) {
    ++summary_.foreign;
    if (foreign_->count >= kMaxForeign) {
      summary_.foreign_unchecked = true;
    } else if (!foreign_->insert(id)) {
      example("duplicated", id, ++faults.duplicated);
    }
    return;
  }
  if (entry->seen > 0) {
    example("duplicated", id, ++faults.duplicated);
    return;
  }
  entry->seen = 1;
  if (entry->promise == Promise::Conflict) return;
  const bool promised = entry->sequence == 0 || (!entry->contradicted && entry->sequence == sequence &&
                                                 (entry->stamp == 0 || stamp == 0 || entry->stamp == stamp));
  if (!readable || entry->content != content || !promised) example("altered", id, ++faults.altered);
  if (entry->promise == Promise::Accepted) {
    ++summary_.found;
  } else {
    ++summary_.ambiguous_found;
  }
}

FeedSummary FeedChecker::finish() {
  FeedFaults& faults = summary_.faults;
  if (!splitter_.finish()) faults.malformed = splitter_.error();
  if (faults.malformed.empty() && !splitter_.has_count()) faults.malformed = "the feed has no \"count\"";
  if (splitter_.has_count() && splitter_.count() != summary_.rows) {
    faults.wrong_count = true;
    faults.examples.push_back("count says " + std::to_string(splitter_.count()) + ", rows are " +
                              std::to_string(summary_.rows));
  }
  for (std::size_t i = 0; i < ledger_.size(); ++i) {
    const Ledger::Entry& entry = ledger_.at(i);
    if (entry.promise != Promise::Accepted || entry.seen > 0) continue;
    std::array<char, kMessageIdChars> id{};
    write_message_id(entry.id, id.data());
    example("lost", std::string_view(id.data(), id.size()), ++faults.lost);
  }
  return std::move(summary_);
}

void FeedChecker::example(std::string_view kind, std::string_view id, std::uint64_t count) {
  if (count > kMaxExamples) return;
  std::string text(kind);
  text += ' ';
  text += id.substr(0, 128);
  summary_.faults.examples.push_back(std::move(text));
}

}  // namespace dlb::loadgen
