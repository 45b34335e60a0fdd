#include "backend/feed_cache.h"

#include <algorithm>
#include <cstring>

#include "common/check.h"
#include "common/clock.h"
#include "common/json_writer.h"

namespace dlb::backend {
namespace {

constexpr std::string_view kOpen = "{\"messages\":[";

std::string closing_of(std::uint64_t rows) { return "],\"count\":" + std::to_string(rows) + "}"; }

// The list begins with kOpen; the first element's comma goes.
HttpBody finish(std::vector<BodyPart> parts, std::string closing) {
  if (parts.size() > 1) parts[1].bytes.remove_prefix(1);
  auto owner = std::make_shared<const std::string>(std::move(closing));
  const std::string_view view = *owner;
  parts.push_back(BodyPart{std::move(owner), view});
  HttpBody body;
  for (const BodyPart& part : parts) body.size += part.bytes.size();
  body.parts = std::make_shared<const std::vector<BodyPart>>(std::move(parts));
  return body;
}

}  // namespace

void append_feed_element(std::string& out, const StoredMessage& message) {
  out += "{\"message-id\":";
  append_json_string(out, message.id);
  out += ",\"client-name\":";
  append_json_string(out, message.client_name);
  out += ",\"msg\":";
  if (message.undecryptable) {
    out += "null";
  } else {
    append_json_string(out, message.text);
  }
  out += ",\"timestamp\":\"";
  out += iso8601_utc(message.timestamp_us);
  out += "\",\"sequence\":";
  out += std::to_string(message.sequence);
  out += message.source == MessageSource::Wss ? ",\"source\":\"wss\"" : ",\"source\":\"http\"";
  if (!message.signature.empty()) {
    out += ",\"signature\":";
    append_json_string(out, message.signature);
  }
  if (message.undecryptable) out += ",\"error\":\"undecryptable\"";
  out += '}';
}

FeedChunk::FeedChunk(std::size_t capacity, std::size_t expected_rows)
    : data_(new char[capacity]), capacity_(capacity) {
  marks_.reserve(expected_rows);
}

void FeedChunk::append(std::int64_t sequence, std::string_view element) {
  DLB_CHECK(fits(element.size()));
  marks_.push_back({sequence, size_});
  data_[size_++] = ',';
  std::memcpy(data_.get() + size_, element.data(), element.size());
  size_ += element.size();
}

std::size_t FeedChunk::first_above(std::int64_t sequence) const {
  const auto found =
      std::upper_bound(marks_.begin(), marks_.end(), sequence,
                       [](std::int64_t value, const Mark& mark) { return value < mark.sequence; });
  return static_cast<std::size_t>(found - marks_.begin());
}

std::string_view FeedChunk::slice(std::size_t first, std::size_t last) const {
  if (first >= last) return {};
  const std::size_t begin = marks_[first].offset;
  const std::size_t end = last < marks_.size() ? marks_[last].offset : size_;
  return bytes().substr(begin, end - begin);
}

void FeedCache::append(std::int64_t sequence, std::string_view nonce, std::string_view element) {
  DLB_CHECK(rows_ == 0 || sequence > last_sequence_);
  if (chunks_.empty() || !chunks_.back()->fits(element.size())) {
    if (!chunks_.empty()) memory_ += chunks_.back()->memory() - open_memory_;
    const std::size_t rows = chunks_.empty() ? kFirstRows : chunks_.back()->rows();
    chunks_.push_back(new_chunk(std::max(chunk_bytes_, element.size() + 1), rows));
    open_memory_ = chunks_.back()->memory();
    memory_ += open_memory_;
  }
  chunks_.back()->append(sequence, element);
  last_sequence_ = sequence;
  last_nonce_.assign(nonce);
  ++rows_;
  whole_.reset();
  while (memory_ > max_bytes_ && chunks_.size() > 1) {
    memory_ -= chunks_.front()->memory();
    dropped_rows_ += chunks_.front()->rows();
    dropped_bytes_ += chunks_.front()->bytes().size();
    dropped_through_ = chunks_.front()->last_sequence();
    chunks_.pop_front();
  }
}

void FeedCache::clear() {
  chunks_.clear();
  memory_ = open_memory_ = 0;
  rows_ = dropped_rows_ = dropped_bytes_ = 0;
  dropped_through_ = last_sequence_ = 0;
  last_nonce_.clear();
  whole_.reset();
}

std::shared_ptr<FeedChunk> FeedCache::new_chunk(std::size_t capacity, std::size_t expected_rows) const {
  auto chunk = std::make_unique<FeedChunk>(capacity, expected_rows);
  if (held_ == nullptr) return chunk;
  const std::size_t bytes = chunk->memory();
  *held_ += bytes;
  return {chunk.release(), [held = held_, bytes](FeedChunk* last) {
            *held -= bytes;
            delete last;
          }};
}

void FeedCache::adopt(const References& earlier) {
  DLB_CHECK(empty());
  for (const auto& reference : earlier) {
    auto chunk = reference.lock();
    if (chunk == nullptr) break;
    rows_ += chunk->rows();
    last_sequence_ = chunk->last_sequence();
    open_memory_ = chunk->memory();
    memory_ += open_memory_;
    chunks_.push_back(std::move(chunk));
  }
}

void FeedCache::append_parts(std::vector<BodyPart>& parts) const {
  for (const auto& chunk : chunks_) parts.push_back(BodyPart{chunk, chunk->bytes()});
}

HttpBody FeedCache::whole(const FeedCache* older) const {
  if (older == nullptr && whole_.has_value()) return *whole_;
  std::vector<BodyPart> parts;
  parts.reserve(chunks_.size() + (older != nullptr ? older->chunks_.size() : 0) + 2);
  parts.push_back(BodyPart{nullptr, kOpen});
  if (older != nullptr) older->append_parts(parts);
  append_parts(parts);
  HttpBody body = finish(std::move(parts), closing_of(rows_));
  if (older == nullptr) whole_ = body;
  return body;
}

std::uint64_t FeedCache::whole_size() const {
  std::uint64_t elements = dropped_bytes_;
  for (const auto& chunk : chunks_) elements += chunk->bytes().size();
  if (elements > 0) --elements;  // the first comma
  return kOpen.size() + elements + closing_of(rows_).size();
}

std::optional<FeedCache::Page> FeedCache::page(std::int64_t after, std::int64_t limit,
                                               std::int64_t through) const {
  if (after < dropped_through_) return std::nullopt;
  if (through == 0) through = last_sequence_;
  Page page;
  page.next_after = after;
  std::vector<BodyPart> parts;
  parts.push_back(BodyPart{nullptr, kOpen});
  auto chunk = std::upper_bound(
      chunks_.begin(), chunks_.end(), after,
      [](std::int64_t value, const std::shared_ptr<FeedChunk>& c) { return value < c->last_sequence(); });
  auto left = static_cast<std::size_t>(std::max<std::int64_t>(limit, 0));
  for (; chunk != chunks_.end() && left > 0; ++chunk) {
    const std::size_t first = (*chunk)->first_above(after);
    const std::size_t last = std::min((*chunk)->rows(), first + left);
    if (first == last) continue;
    parts.push_back(BodyPart{*chunk, (*chunk)->slice(first, last)});
    page.rows += last - first;
    left -= last - first;
    page.next_after = (*chunk)->sequence_of(last - 1);
  }
  const bool has_more = page.next_after < through;
  page.body = finish(std::move(parts), "],\"count\":" + std::to_string(page.rows) +
                                           ",\"has_more\":" + (has_more ? "true" : "false") +
                                           ",\"next_after\":" + std::to_string(page.next_after) + "}");
  return page;
}

}  // namespace dlb::backend
