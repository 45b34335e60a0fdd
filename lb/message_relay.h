// MessageRelay: one message on its way through, decoded from its source's framing and encoded in its sink's.
// Pure: it owns buffers and cursors, the exchange does the reads and writes. Bodies are always re-framed,
// never copied through.
//
//   head block:   |-- sent --|-- to send --|
//   body block:   |-- sent, held for a replay --|-- payload to send --|-- raw bytes not decoded yet --|
//                 0                          sent_                decoded_                          size
//
// One block bounds what a direction holds. While `holding`, sent bytes stay so that rewind() can send the
// message anew; when the block is full and more must be read, the hold is given up (the message can no longer
// be replayed).
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/buffer.h"
#include "common/chunked.h"
#include "common/http_message.h"

namespace dlb::lb {

class MessageRelay {
 public:
  static constexpr int kMaxParts = 5;

  enum class Intake : std::uint8_t {
    More,   // the message goes on
    Ended,  // its last byte has been taken; what is left in the block belongs to what comes next
    Bad,    // its framing is broken (or it was cut): reason() says what
  };

  // Takes the serialised head (may be invalid: none) and the framings. With sink Chunked the body is
  // re-chunked; with Length, None and UntilClose it goes out as it is. `length` counts with source Length.
  void start(Buffer head, BodyFraming source, std::uint64_t length, BodyFraming sink);
  void reset();

  // --- input
  // Hands over a block and decodes what it holds already. Requires !has_block().
  Intake give_block(Buffer block);
  // Moves what the block holds into a larger one.
  void grow_block(Buffer larger);
  std::size_t block_bytes() const { return body_.capacity(); }
  bool has_block() const { return body_.valid(); }
  // Where to read to; empty when the block is full or the message has ended. Never more than a Length body's
  // remainder, so that bytes of the next message stay where they are.
  std::span<char> room();
  // Decodes `bytes` that were just read into room().
  Intake take_read(std::size_t bytes);
  // The source has finished sending. Ended for UntilClose, Bad for a message that is cut short.
  Intake source_finished();
  bool source_ended() const { return ended_; }
  std::string_view reason() const { return reason_; }
  // Raw bytes behind the end of a message (pipelined input); valid until the block goes.
  std::string_view leftover() const;
  std::uint64_t payload_bytes() const { return payload_bytes_; }

  // --- around the blocks: a body whose framing stays, moved by someone else (splice)
  // How much of it may pass now: nothing while something is held back or waits to be sent here.
  std::uint64_t passable() const {
    return source_ == BodyFraming::Length && sink_ == BodyFraming::Length && !holding_ && !anything_to_send()
               ? remaining_
               : 0;
  }
  // `bytes` of it have been taken from the source, and will reach the sink before anything that is sent from
  // here.
  void passed(std::uint64_t bytes);

  // --- output
  // Fills up to kMaxParts parts with what can be sent now; returns how many.
  int gather(iovec* parts);
  void sent(std::size_t bytes);
  bool anything_to_send() const;
  std::string_view unsent_head() const;
  BodyFraming sink() const { return sink_; }
  bool complete() const { return ended_ && !anything_to_send(); }
  bool nothing_sent_yet() const { return total_sent_ == 0; }
  std::uint64_t total_sent() const { return total_sent_; }

  // --- replay
  void hold() { holding_ = true; }
  bool holding() const { return holding_; }
  void release_hold();
  // True while every byte since the start is still here.
  bool can_rewind() const { return holding_ || total_sent_ == 0; }
  // Sends the message anew from its first byte. Requires can_rewind().
  void rewind();

  // Gives the block back when it holds nothing: an exchange that waits keeps no buffer. Not while holding.
  void shrink();

 private:
  Intake decode();
  Intake decode_chunks();
  void open_chunk();
  std::size_t payload_left() const { return decoded_ - sent_; }
  std::string_view final_part() const;

  Buffer head_;
  Buffer body_;
  std::size_t head_sent_ = 0;
  std::size_t sent_ = 0;         // in body_.data()
  std::size_t decoded_ = 0;      // in body_.data()
  std::uint64_t remaining_ = 0;  // of a Length source
  std::uint64_t payload_bytes_ = 0;
  std::uint64_t total_sent_ = 0;
  ChunkDecoder decoder_;
  std::string final_;  // `0 CRLF trailers CRLF` when trailers came; else the static one is used
  std::string_view reason_;
  BodyFraming source_ = BodyFraming::None;
  BodyFraming sink_ = BodyFraming::None;
  bool ended_ = true;
  bool holding_ = false;

  // The outgoing chunk: its line, its payload, its CRLF.
  std::array<char, 20> line_{};
  std::uint8_t line_size_ = 0;
  std::uint8_t line_sent_ = 0;
  std::uint8_t crlf_left_ = 0;
  std::size_t chunk_left_ = 0;
  std::size_t final_sent_ = 0;
};

}  // namespace dlb::lb
