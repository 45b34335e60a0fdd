// HttpSession's part between a complete head and a complete body: by length straight into the exchange's
// body, or through the chunk decoder. The head's own block is put aside meanwhile.
#include <algorithm>
#include <utility>

#include "common/http_session.h"

namespace dlb {
namespace {

constexpr std::size_t kReadBytes = 64 * 1024;  // one read of a body with a length
constexpr std::string_view kNoBuffers = "The server is out of buffers.";
constexpr std::string_view kTooLarge = "The request body is too large.";
constexpr std::string_view kTooMany = "Too many request bodies at once.";

}  // namespace

// The head's block is put aside, since the head is parsed once more when the body is there; the body goes on
// in x.body, or through a block of its own while chunks are decoded.
HttpSession::Step HttpSession::start_body(HttpExchange& x, std::size_t head_bytes) {
  const RequestHead& head = parts_.head;
  const std::string_view behind = buffer_.data().substr(head_bytes);
  chunked_ = head.framing == BodyFraming::Chunked;
  interim_left_ = head.expect_continue && behind.empty() ? static_cast<std::uint8_t>(kContinue.size()) : 0;
  enter(State::Body, &parts_.body);
  watch_rate();
  head_block_ = std::move(buffer_);
  if (chunked_) {
    decoder_.reset();
    if (!behind.empty()) {
      const bool small = behind.size() <= parts_.small_blocks.block_bytes();
      buffer_ = (small ? parts_.small_blocks : parts_.large_blocks).acquire();
      if (!buffer_.valid()) return refuse(503, kNoBuffers);
      buffer_.append(behind);
      return decode_chunks(x);
    }
  } else {
    remaining_ = head.content_length;
    if (!add_body(x, behind)) return Step::Again;
    remaining_ -= behind.size();
  }
  return Step::Again;
}

HttpSession::Step HttpSession::read_body() {
  HttpExchange* x = exchange();
  if (interim_left_ > 0 && !write_interim()) return Step::Wait;
  if (!transport_.read_ready()) return Step::Wait;
  return chunked_ ? read_body_chunked(*x) : read_body_length(*x);
}

HttpSession::Step HttpSession::read_body_length(HttpExchange& x) {
  const std::size_t old_size = x.body.size();
  const auto room = static_cast<std::size_t>(std::min<std::uint64_t>(remaining_, kReadBytes));
  if (parts_.body_bytes + room > server_.options_.max_total_body_bytes) {
    return refuse(503, kTooMany);
  }
  x.body.resize(old_size + room);
  const IoResult got = read_into({x.body.data() + old_size, room});
  x.body.resize(old_size + got.bytes);
  if (got.status == IoStatus::WouldBlock) return Step::Wait;
  if (!got.ok()) {
    close();
    return Step::Wait;
  }
  parts_.body_bytes += got.bytes;
  x.body_bytes_counted += got.bytes;
  remaining_ -= got.bytes;
  parts_.body.arm(timer_);
  return remaining_ == 0 ? body_complete(x) : Step::Again;
}

HttpSession::Step HttpSession::read_body_chunked(HttpExchange& x) {
  if (!make_room()) return refuse(503, kNoBuffers);
  const IoResult got = read_into(buffer_.writable());
  if (got.status == IoStatus::WouldBlock) return Step::Wait;
  if (!got.ok()) {
    close();
    return Step::Wait;
  }
  buffer_.commit(got.bytes);
  parts_.body.arm(timer_);
  return decode_chunks(x);
}

HttpSession::Step HttpSession::decode_chunks(HttpExchange& x) {
  while (true) {
    const ChunkDecoder::Step part = decoder_.next(buffer_.data());
    switch (part.status) {
      case ChunkDecoder::Status::Data:
        if (x.body.size() + part.data.size() > server_.options_.max_body_bytes) {
          return refuse(413, kTooLarge);
        }
        if (!add_body(x, part.data)) return Step::Again;
        break;
      case ChunkDecoder::Status::Trailer:  // nothing here uses trailers
        break;
      case ChunkDecoder::Status::NeedMore:
        buffer_.consume(part.consumed);
        if (buffer_.empty()) buffer_.reset();
        return Step::Again;
      case ChunkDecoder::Status::End:
        buffer_.consume(part.consumed);
        return body_complete(x);
      case ChunkDecoder::Status::Bad:
        return refuse(400, "The chunked request body is malformed.");
    }
    buffer_.consume(part.consumed);
  }
}

bool HttpSession::add_body(HttpExchange& x, std::string_view bytes) {
  if (parts_.body_bytes + bytes.size() > server_.options_.max_total_body_bytes) {
    refuse(503, kTooMany);
    return false;
  }
  parts_.body_bytes += bytes.size();
  x.body_bytes_counted += bytes.size();
  x.body.append(bytes);
  return true;
}

HttpSession::Step HttpSession::body_complete(HttpExchange& x) {
  std::size_t cursor = 0;  // parsed before: the same bytes give the same head again
  parts_.parser.parse_request(head_block_.data(), cursor, server_.options_.head_limits, parts_.head);
  timer_.cancel();
  rate_timer_.cancel();
  if (interim_left_ == kContinue.size()) interim_left_ = 0;  // the body came without it
  request_bytes_ = 0;                                        // not in buffer_
  dispatch(x, x.body);
  head_block_.reset();
  if (buffer_.empty()) buffer_.reset();
  return Step::Again;
}

}  // namespace dlb
