#include "lb/message_relay.h"

#include <algorithm>
#include <cstring>

#include "common/check.h"

namespace dlb::lb {
namespace {

constexpr std::string_view kFinalChunk = "0\r\n\r\n";
constexpr std::string_view kCrlf = "\r\n";
// Below this much room a block is compacted before it is read into: moving little beats reading in crumbs.
constexpr std::size_t kWorthReading = 2048;

iovec part(std::string_view bytes) { return iovec{const_cast<char*>(bytes.data()), bytes.size()}; }

// Fields that frame or route a message may not come in a trailer (RFC 9110 section 6.5.1): dropped, not
// forwarded.
bool allowed_in_trailer(std::string_view line) {
  const std::string_view name = line.substr(0, line.find(':'));
  switch (header_id(name)) {
    case HeaderId::Authorization:
    case HeaderId::Connection:
    case HeaderId::ContentLength:
    case HeaderId::ContentType:
    case HeaderId::Cookie:
    case HeaderId::Expect:
    case HeaderId::Forwarded:
    case HeaderId::Host:
    case HeaderId::IdempotencyKey:
    case HeaderId::KeepAlive:
    case HeaderId::ProxyConnection:
    case HeaderId::Te:
    case HeaderId::Trailer:
    case HeaderId::TransferEncoding:
    case HeaderId::Upgrade:
    case HeaderId::XForwardedFor:
    case HeaderId::XForwardedHost:
    case HeaderId::XForwardedProto:
    case HeaderId::XRequestId:
      return false;
    default:
      return true;
  }
}

}  // namespace

void MessageRelay::start(Buffer head, BodyFraming source, std::uint64_t length, BodyFraming sink) {
  head_ = std::move(head);
  head_sent_ = sent_ = decoded_ = 0;
  remaining_ = length;
  payload_bytes_ = total_sent_ = 0;
  decoder_.reset();
  final_.clear();
  reason_ = {};
  source_ = source;
  sink_ = sink;
  ended_ = source == BodyFraming::None || (source == BodyFraming::Length && length == 0);
  holding_ = false;
  line_size_ = line_sent_ = crlf_left_ = 0;
  chunk_left_ = final_sent_ = 0;
}

void MessageRelay::reset() {
  body_.reset();
  start({}, BodyFraming::None, 0, BodyFraming::None);
}

MessageRelay::Intake MessageRelay::give_block(Buffer block) {
  DLB_CHECK(!body_.valid());
  body_ = std::move(block);
  sent_ = decoded_ = 0;
  return decode();
}

void MessageRelay::grow_block(Buffer larger) {
  const bool fits = larger.append(body_.data());
  DLB_CHECK(fits);
  body_ = std::move(larger);
}

std::span<char> MessageRelay::room() {
  if (ended_ || !body_.valid()) return {};
  if (!holding_ && sent_ > 0 && body_.writable().size() < kWorthReading) {
    body_.consume(sent_);
    decoded_ -= sent_;
    sent_ = 0;
    body_.compact();
  }
  std::span<char> space = body_.writable();
  if (source_ == BodyFraming::Length && space.size() > remaining_) space = space.first(remaining_);
  return space;
}

MessageRelay::Intake MessageRelay::take_read(std::size_t bytes) {
  body_.commit(bytes);
  return decode();
}

void MessageRelay::passed(std::uint64_t bytes) {
  DLB_CHECK(bytes <= passable());
  remaining_ -= bytes;
  payload_bytes_ += bytes;
  total_sent_ += bytes;
  ended_ = remaining_ == 0;
}

MessageRelay::Intake MessageRelay::decode() {
  if (ended_) return Intake::Ended;
  const std::size_t raw = body_.size() - decoded_;
  switch (source_) {
    case BodyFraming::None:
      ended_ = true;
      return Intake::Ended;
    case BodyFraming::Length: {
      const std::size_t taken = std::min<std::uint64_t>(raw, remaining_);
      decoded_ += taken;
      payload_bytes_ += taken;
      remaining_ -= taken;
      ended_ = remaining_ == 0;
      return ended_ ? Intake::Ended : Intake::More;
    }
    case BodyFraming::UntilClose:
      decoded_ += raw;
      payload_bytes_ += raw;
      return Intake::More;
    case BodyFraming::Chunked:
      return decode_chunks();
  }
  return Intake::Bad;
}

// Decodes in place: payload moves down to decoded_, what stays undecoded moves behind it.
MessageRelay::Intake MessageRelay::decode_chunks() {
  char* base = body_.begin();
  std::size_t raw = decoded_;
  const std::size_t end = body_.size();
  Intake result = Intake::More;
  while (raw < end) {
    const ChunkDecoder::Step step = decoder_.next({base + raw, end - raw});
    if (step.status == ChunkDecoder::Status::Data) {
      std::memmove(base + decoded_, step.data.data(), step.data.size());
      decoded_ += step.data.size();
      payload_bytes_ += step.data.size();
    } else if (step.status == ChunkDecoder::Status::Trailer) {
      if (allowed_in_trailer(step.data)) {
        if (final_.empty()) final_ = "0\r\n";
        final_.append(step.data).append(kCrlf);
      }
    } else if (step.status == ChunkDecoder::Status::End) {
      raw += step.consumed;
      if (!final_.empty()) final_.append(kCrlf);
      ended_ = true;
      result = Intake::Ended;
      break;
    } else if (step.status == ChunkDecoder::Status::Bad) {
      reason_ = step.reason;
      return Intake::Bad;
    }
    raw += step.consumed;
    if (step.status == ChunkDecoder::Status::NeedMore) break;
  }
  const std::size_t left = end - raw;
  if (left > 0) std::memmove(base + decoded_, base + raw, left);
  body_.truncate(decoded_ + left);
  return result;
}

MessageRelay::Intake MessageRelay::source_finished() {
  if (ended_) return Intake::Ended;
  if (source_ == BodyFraming::UntilClose) {
    ended_ = true;
    return Intake::Ended;
  }
  reason_ = "the connection was closed in the middle of the body";
  return Intake::Bad;
}

std::string_view MessageRelay::unsent_head() const {
  return head_.valid() ? head_.data().substr(head_sent_) : std::string_view{};
}

std::string_view MessageRelay::leftover() const {
  return body_.valid() ? body_.data().substr(decoded_) : std::string_view{};
}

std::string_view MessageRelay::final_part() const {
  return final_.empty() ? kFinalChunk : std::string_view(final_);
}

void MessageRelay::open_chunk() {
  if (chunk_left_ > 0 || line_sent_ < line_size_ || crlf_left_ > 0 || payload_left() == 0) return;
  chunk_left_ = payload_left();
  line_size_ = static_cast<std::uint8_t>(write_chunk_line(line_.data(), chunk_left_));
  line_sent_ = 0;
  crlf_left_ = 2;
}

int MessageRelay::gather(iovec* parts) {
  int count = 0;
  if (head_sent_ < head_.size()) parts[count++] = part(head_.data().substr(head_sent_));
  if (sink_ != BodyFraming::Chunked) {
    if (payload_left() > 0) parts[count++] = part(body_.data().substr(sent_, payload_left()));
    return count;
  }
  open_chunk();
  if (line_sent_ < line_size_) {
    parts[count++] = iovec{line_.data() + line_sent_, static_cast<std::size_t>(line_size_ - line_sent_)};
  }
  if (chunk_left_ > 0) parts[count++] = part(body_.data().substr(sent_, chunk_left_));
  if (crlf_left_ > 0) parts[count++] = part(kCrlf.substr(2U - crlf_left_));
  // The end follows at once when this chunk is the last one.
  if (ended_ && payload_left() == chunk_left_ && final_sent_ < final_part().size()) {
    parts[count++] = part(final_part().substr(final_sent_));
  }
  return count;
}

void MessageRelay::sent(std::size_t bytes) {
  total_sent_ += bytes;
  const auto take = [&bytes](std::size_t most) {
    const std::size_t taken = std::min(bytes, most);
    bytes -= taken;
    return taken;
  };
  head_sent_ += take(head_.size() - head_sent_);
  if (sink_ != BodyFraming::Chunked) {
    sent_ += take(payload_left());
  } else {
    line_sent_ =
        static_cast<std::uint8_t>(line_sent_ + take(static_cast<std::size_t>(line_size_ - line_sent_)));
    const std::size_t payload = take(chunk_left_);
    sent_ += payload;
    chunk_left_ -= payload;
    crlf_left_ = static_cast<std::uint8_t>(crlf_left_ - take(crlf_left_));
    if (ended_ && payload_left() == 0) final_sent_ += take(final_part().size() - final_sent_);
  }
  DLB_CHECK(bytes == 0);
  if (holding_) return;
  if (head_.valid() && head_sent_ == head_.size()) {
    head_.reset();
    head_sent_ = 0;
  }
  if (body_.valid() && sent_ == decoded_ && sent_ > 0) {
    body_.consume(sent_);
    sent_ = decoded_ = 0;
  }
}

bool MessageRelay::anything_to_send() const {
  if (head_sent_ < head_.size() || payload_left() > 0) return true;
  if (sink_ != BodyFraming::Chunked) return false;
  return line_sent_ < line_size_ || crlf_left_ > 0 || (ended_ && final_sent_ < final_part().size());
}

void MessageRelay::release_hold() {
  holding_ = false;
  sent(0);
}

void MessageRelay::rewind() {
  DLB_CHECK(can_rewind());
  head_sent_ = sent_ = 0;
  total_sent_ = 0;
  line_size_ = line_sent_ = crlf_left_ = 0;
  chunk_left_ = final_sent_ = 0;
}

void MessageRelay::shrink() {
  if (!holding_ && body_.valid() && body_.empty()) body_.reset();
}

}  // namespace dlb::lb
