#include "lb/message_relay.h"

#include <algorithm>
#include <string>

#include "common/rng.h"
#include "test/support/catch.h"

namespace dlb::lb {
namespace {

Buffer block_with(BufferPool& pool, std::string_view text) {
  Buffer block = pool.acquire();
  REQUIRE(block.append(text));
  return block;
}

// Takes up to `most` bytes of what the relay wants to send.
std::string take_some(MessageRelay& relay, std::size_t most) {
  iovec parts[MessageRelay::kMaxParts];
  const int count = relay.gather(parts);
  std::string out;
  for (int i = 0; i < count; ++i) {
    out.append(static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
  }
  out.resize(std::min(most, out.size()));
  relay.sent(out.size());
  return out;
}

std::string take_all(MessageRelay& relay) {
  std::string out;
  for (;;) {
    const std::string some = take_some(relay, 1 << 20);
    if (some.empty()) return out;
    out += some;
  }
}

std::string chunked(std::string_view body, std::size_t chunk) {
  std::string out;
  char line[20];
  for (std::size_t at = 0; at < body.size(); at += chunk) {
    const std::string_view piece = body.substr(at, chunk);
    out.append(line, write_chunk_line(line, piece.size())).append(piece).append("\r\n");
  }
  return out + "0\r\n\r\n";
}

// What a chunked reader makes of `wire`; requires that it is exactly one body.
std::string dechunked(std::string_view wire) {
  ChunkDecoder decoder;
  std::string out;
  while (!decoder.done()) {
    const ChunkDecoder::Step step = decoder.next(wire);
    REQUIRE(step.status != ChunkDecoder::Status::Bad);
    if (step.status == ChunkDecoder::Status::Data) out += step.data;
    REQUIRE((step.consumed > 0 || step.status == ChunkDecoder::Status::End));
    wire.remove_prefix(step.consumed);
  }
  REQUIRE(wire.empty());
  return out;
}

}  // namespace

TEST_CASE("a head without a body goes out as it is and ends the message") {
  BufferPool pool(256, 8, 8);
  MessageRelay relay;
  relay.start(block_with(pool, "HEAD"), BodyFraming::None, 0, BodyFraming::None);
  CHECK(relay.source_ended());
  CHECK_FALSE(relay.complete());
  CHECK(take_all(relay) == "HEAD");
  CHECK(relay.complete());
  CHECK(pool.in_use() == 0);
}

TEST_CASE("any framing in, any framing out, in any pieces: the body arrives byte for byte") {
  const auto seed = static_cast<std::uint64_t>(GENERATE(range(1, 60)));
  CAPTURE(seed);
  Rng rng(seed);
  const BodyFraming framings[] = {BodyFraming::Length, BodyFraming::Chunked, BodyFraming::UntilClose};
  const BodyFraming source = framings[rng.below(3)];
  const BodyFraming sink = source == BodyFraming::Length ? BodyFraming::Length : framings[1 + rng.below(2)];
  std::string body(rng.below(5000), 'x');
  for (char& c : body) c = static_cast<char>(rng.below(256));
  const std::string wire = source == BodyFraming::Chunked ? chunked(body, 1 + rng.below(300)) : body;
  const std::string behind = source == BodyFraming::Chunked ? "GET / HTTP/1.1\r\n" : "";
  const std::string input = wire + behind;

  BufferPool pool(256, 8, 8);
  MessageRelay relay;
  relay.start(block_with(pool, "H"), source, body.size(), sink);
  std::string output;
  std::size_t at = 0;
  while (!relay.complete()) {
    if (rng.below(2) == 0) output += take_some(relay, 1 + rng.below(100));
    if (relay.source_ended()) continue;
    relay.shrink();
    if (!relay.has_block()) relay.give_block(pool.acquire());
    const std::span<char> room = relay.room();
    if (room.empty()) continue;
    const std::size_t take = std::min({room.size(), std::size_t{1} + rng.below(80), input.size() - at});
    if (take == 0) {
      REQUIRE(source == BodyFraming::UntilClose);
      REQUIRE(relay.source_finished() == MessageRelay::Intake::Ended);
      continue;
    }
    std::copy_n(input.begin() + static_cast<std::ptrdiff_t>(at), take, room.begin());
    at += take;
    REQUIRE(relay.take_read(take) != MessageRelay::Intake::Bad);
  }
  output += take_all(relay);
  REQUIRE(output.substr(0, 1) == "H");
  const std::string sent = output.substr(1);
  CHECK((sink == BodyFraming::Chunked ? dechunked(sent) : sent) == body);
  CHECK(relay.payload_bytes() == body.size());
  // Bytes of the next message are neither lost nor sent: in the block, or still with the source.
  CHECK(std::string(relay.leftover()) + input.substr(at) == behind);
  relay.reset();
  CHECK(pool.in_use() == 0);
}

TEST_CASE("a held message can be sent again from its first byte, whatever was sent before") {
  BufferPool pool(256, 8, 8);
  for (std::size_t sent_before = 0; sent_before <= 40; ++sent_before) {
    MessageRelay relay;
    relay.start(block_with(pool, "HEAD"), BodyFraming::Chunked, 0, BodyFraming::Chunked);
    relay.hold();
    REQUIRE(relay.give_block(block_with(pool, "5\r\nhello\r\n0\r\n\r\n")) == MessageRelay::Intake::Ended);
    take_some(relay, sent_before);
    REQUIRE(relay.can_rewind());
    relay.rewind();
    CHECK(relay.nothing_sent_yet());
    CHECK(take_all(relay) == "HEAD5\r\nhello\r\n0\r\n\r\n");
    CHECK(relay.complete());
  }
  CHECK(pool.in_use() == 0);
}

TEST_CASE("once its block had to be given up, a message can't be sent again") {
  BufferPool pool(64, 8, 8);
  MessageRelay relay;
  relay.start(block_with(pool, "HEAD"), BodyFraming::Length, 200, BodyFraming::Length);
  relay.hold();
  REQUIRE(relay.give_block(block_with(pool, std::string(64, 'a'))) == MessageRelay::Intake::More);
  CHECK(take_all(relay) == "HEAD" + std::string(64, 'a'));
  CHECK(relay.room().empty());
  CHECK(relay.can_rewind());
  relay.release_hold();
  CHECK_FALSE(relay.can_rewind());
  CHECK(relay.room().size() == 64);
}

TEST_CASE("a Length body never reads into the next message") {
  BufferPool pool(256, 8, 8);
  MessageRelay relay;
  relay.start({}, BodyFraming::Length, 10, BodyFraming::Length);
  relay.give_block(pool.acquire());
  CHECK(relay.room().size() == 10);
}

TEST_CASE("trailers pass, fields that frame or route don't") {
  BufferPool pool(256, 8, 8);
  MessageRelay relay;
  relay.start({}, BodyFraming::Chunked, 0, BodyFraming::Chunked);
  REQUIRE(
      relay.give_block(block_with(
          pool, "1\r\na\r\n0\r\nX-Sum: 7\r\nContent-Length: 9\r\nHost: b\r\nTransfer-Encoding: x\r\n\r\n")) ==
      MessageRelay::Intake::Ended);
  CHECK(take_all(relay) == "1\r\na\r\n0\r\nX-Sum: 7\r\n\r\n");
}

TEST_CASE("a message that is cut short is Bad, and its chunked copy has no end") {
  BufferPool pool(256, 8, 8);
  MessageRelay relay;
  relay.start({}, BodyFraming::Length, 10, BodyFraming::Length);
  relay.give_block(block_with(pool, "abc"));
  CHECK(relay.source_finished() == MessageRelay::Intake::Bad);
  CHECK_FALSE(relay.complete());

  MessageRelay rechunked;
  rechunked.start({}, BodyFraming::Chunked, 0, BodyFraming::Chunked);
  rechunked.give_block(block_with(pool, "5\r\nhel"));
  CHECK(rechunked.source_finished() == MessageRelay::Intake::Bad);
  CHECK(take_all(rechunked) == "3\r\nhel\r\n");
  CHECK_FALSE(rechunked.complete());
}

}  // namespace dlb::lb
