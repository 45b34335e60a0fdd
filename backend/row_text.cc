#include "backend/row_text.h"

#include <algorithm>
#include <utility>

#include "backend/feed_cache.h"
#include "common/clock.h"

namespace dlb::backend {
namespace {

// Years of four digits; a foreign row may hold anything.
constexpr std::int64_t kFirstTime = 0;
constexpr std::int64_t kLastTime = 253'402'300'799'999'999;

}  // namespace

std::string_view RowText::render(const StoredRow& row) {
  StoredMessage message;
  message.sequence = row.sequence;
  message.timestamp_us = std::clamp(row.timestamp_us, kFirstTime, kLastTime);
  message.id = row.message_id;
  message.client_name = row.client_name;
  message.source = row.source;
  message.signature = row.signature;
  const TimePoint begin = monotonic_now();
  auto text = cipher_.open(row.message_id, row.client_name, row.key_id, row.nonce, row.ciphertext);
  seconds_ += seconds(monotonic_now() - begin);
  ++decrypts_;
  if (text.has_value()) {
    message.text = *text;
  } else {
    message.undecryptable = true;
    ++undecryptable_;
    log_.warn("row does not decrypt: it is shown without its text",
              {{"message-id", row.message_id}, {"sequence", row.sequence}});
  }
  element_.clear();
  append_feed_element(element_, message);
  return element_;
}

std::string_view RowText::render(const NewMessage& written, std::int64_t sequence,
                                 std::int64_t timestamp_us) {
  StoredMessage message;
  message.sequence = sequence;
  message.timestamp_us = std::clamp(timestamp_us, kFirstTime, kLastTime);
  message.id = written.id;
  message.client_name = written.client_name;
  message.text = written.text;
  message.source = written.source;
  message.signature = written.signature;
  element_.clear();
  append_feed_element(element_, message);
  return element_;
}

void RowText::add_stats(MessageStoreStats& stats) const {
  stats.decrypts += decrypts_;
  stats.decrypt_seconds_sum += seconds_;
  stats.undecryptable += undecryptable_;
}

}  // namespace dlb::backend
