// WebSocket framing (RFC 6455 section 5), both sides, without I/O: WsDecoder takes bytes as they come and
// says what they are; the writers make frames. No extensions: a reserved bit is an error.
//
//   input ──▶ WsDecoder::next ──▶ Data (a piece of a message, unmasked where it stands)
//                    │            Ping, Pong, Close (whole: a control frame has at most 125 bytes)
//                    │            NeedMore (a header or control frame is not whole: present the rest again)
//                    └──────────▶ Fail (the close code to send; nothing may be decoded after it)
//
// The decoder holds no payload and allocates nothing: a claimed length costs nothing, an oversized message is
// refused by the header that makes it so. Text is checked as it comes (utf8_check.h), so the first byte that
// can't belong to valid UTF-8 fails at once, whatever is still to come. The verdict doesn't depend on how the
// input is cut. Pure; one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "common/utf8_check.h"

namespace dlb {

enum class WsOpcode : std::uint8_t { Continuation = 0, Text = 1, Binary = 2, Close = 8, Ping = 9, Pong = 10 };

// Close codes that we send or compare with; a peer may send others (ws_close_code_valid).
namespace ws_close {
inline constexpr std::uint16_t kNormal = 1000;
inline constexpr std::uint16_t kGoingAway = 1001;
inline constexpr std::uint16_t kProtocolError = 1002;
inline constexpr std::uint16_t kUnsupported = 1003;
inline constexpr std::uint16_t kNone = 1005;      // "the Close frame had no code"; never on the wire
inline constexpr std::uint16_t kAbnormal = 1006;  // "there was no Close frame"; never on the wire
inline constexpr std::uint16_t kBadData = 1007;
inline constexpr std::uint16_t kPolicy = 1008;
inline constexpr std::uint16_t kTooBig = 1009;
inline constexpr std::uint16_t kInternal = 1011;
inline constexpr std::uint16_t kTryLater = 1013;
}  // namespace ws_close

// Whether `code` may stand in a Close frame: 1000-1003, 1007-1014, 3000-4999.
bool ws_close_code_valid(std::uint16_t code);

inline constexpr std::size_t kWsControlBytes = 125;  // most payload of a control frame
inline constexpr std::size_t kWsHeaderBytes = 14;    // the longest header
inline constexpr std::size_t kWsMaxUndecoded = 139;  // most that NeedMore leaves unconsumed, less one

// What the bytes turned out to be.
struct WsPart {
  enum class Kind : std::uint8_t { NeedMore, Data, Ping, Pong, Close, Fail };

  Kind kind = Kind::NeedMore;
  bool binary = false;         // Data: the message's kind, on every piece
  bool first = false;          // Data: a message begins with this piece
  bool last = false;           // Data: it ends with this piece (which may be empty)
  std::uint16_t code = 0;      // Close: the peer's, kNone when it gave none; Fail: what to answer
  std::size_t consumed = 0;    // bytes of the input that are done with; 0 with Fail
  std::string_view payload{};  // Data, Ping, Pong: in the input; Close: its reason
  std::string_view reason{};   // Fail: a few words with static lifetime, for the Close frame and the log
};

class WsDecoder {
 public:
  enum class Side : std::uint8_t {
    Server,  // reads what a client sent: every frame must be masked
    Client,  // reads what a server sent: none may be
  };

  // `max_message_bytes`: of all fragments together; over it Fail 1009. Without `accept_binary` a sound binary
  // frame is Fail 1003.
  WsDecoder(Side side, std::uint64_t max_message_bytes, bool accept_binary)
      : max_message_bytes_(max_message_bytes), side_(side), accept_binary_(accept_binary) {}

  // Decodes one part from the beginning of `input`, which holds everything that was not consumed yet; masked
  // payload is unmasked in place. Call again with the rest until NeedMore. After Close or Fail don't.
  WsPart next(std::span<char> input);

  // Inside a frame whose payload is still coming: the peer can't send anything else meanwhile.
  bool in_frame() const { return remaining_ > 0; }
  // Inside a message: a first piece has been given out and no last one.
  bool in_message() const { return in_message_; }

 private:
  struct Header;
  static WsPart fail(std::uint16_t code, std::string_view reason);
  WsPart read_header(std::span<char> input);
  WsPart read_control(const Header& header, std::span<char> input);
  WsPart read_payload(std::span<char> input, std::size_t header_bytes);
  WsPart check_data_header(const Header& header) const;

  std::uint64_t max_message_bytes_;
  std::uint64_t message_bytes_ = 0;  // of the current message, as far as headers have announced it
  std::uint64_t remaining_ = 0;      // payload of the current data frame still to come
  std::uint32_t mask_ = 0;           // rotated so that it fits the next byte
  Utf8Check utf8_;
  Side side_;
  bool accept_binary_;
  bool in_message_ = false;
  bool binary_ = false;
  bool final_frame_ = false;  // the current frame ends the message
  bool first_piece_ = false;  // the next piece is the message's first
};

// XORs `bytes` with the mask, a word at a time; returns the mask as it fits the byte behind them. `mask` is
// the four bytes of the wire, in the order of memory.
std::uint32_t ws_mask(std::span<char> bytes, std::uint32_t mask);

// One frame, header and payload, that never changes: made once and shared by all who get it. Unmasked: what a
// server sends.
class WsFrame {
 public:
  static std::shared_ptr<const WsFrame> text(std::string_view payload);  // must be valid UTF-8
  static std::shared_ptr<const WsFrame> binary(std::string_view payload);
  static std::shared_ptr<const WsFrame> ping(std::string_view payload);  // at most kWsControlBytes, likewise
  static std::shared_ptr<const WsFrame> pong(std::string_view payload);
  // `code` must be valid, or kNone for an empty Close; a reason too long is cut between two code points.
  static std::shared_ptr<const WsFrame> close(std::uint16_t code, std::string_view reason);

  std::string_view bytes() const { return bytes_; }  // as they go on the wire
  std::size_t size() const { return bytes_.size(); }

  // For the functions above and for bytes that precede the first frame (a handshake's answer).
  explicit WsFrame(std::string bytes) : bytes_(std::move(bytes)) {}

 private:
  std::string bytes_;
};

using WsFramePtr = std::shared_ptr<const WsFrame>;

// Appends a server's frame to `out`.
void append_ws_frame(std::string& out, WsOpcode opcode, std::string_view payload, bool final = true);
// Appends a client's frame, masked with `mask` (four bytes in the order of memory; any value, also 0).
void append_masked_ws_frame(std::string& out, WsOpcode opcode, std::string_view payload, std::uint32_t mask,
                            bool final = true);
// The payload of a Close frame: code (none for kNone) and reason, at most kWsControlBytes.
std::string ws_close_payload(std::uint16_t code, std::string_view reason);

}  // namespace dlb
