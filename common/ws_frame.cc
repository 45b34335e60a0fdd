#include "common/ws_frame.h"

#include <bit>
#include <cstring>

#include "common/check.h"

namespace dlb {
namespace {

constexpr unsigned kFinal = 0x80;
constexpr unsigned kReserved = 0x70;
constexpr unsigned kOpcode = 0x0F;
constexpr unsigned kMasked = 0x80;
constexpr unsigned kLength16 = 126;
constexpr unsigned kLength64 = 127;

unsigned byte_at(std::span<const char> bytes, std::size_t at) {
  return static_cast<unsigned char>(bytes[at]);
}

std::uint64_t big_endian(std::span<const char> bytes) {
  std::uint64_t value = 0;
  for (const char c : bytes) value = (value << 8) | static_cast<unsigned char>(c);
  return value;
}

void append_header(std::string& out, WsOpcode opcode, std::size_t size, bool final, bool masked) {
  const unsigned mask_bit = masked ? kMasked : 0;
  out.push_back(static_cast<char>(static_cast<unsigned>(opcode) | (final ? kFinal : 0)));
  int length_bytes = 0;
  if (size < kLength16) {
    out.push_back(static_cast<char>(size | mask_bit));
  } else if (size <= 0xFFFF) {
    out.push_back(static_cast<char>(kLength16 | mask_bit));
    length_bytes = 2;
  } else {
    out.push_back(static_cast<char>(kLength64 | mask_bit));
    length_bytes = 8;
  }
  for (int shift = 8 * (length_bytes - 1); shift >= 0; shift -= 8) {
    out.push_back(static_cast<char>((static_cast<std::uint64_t>(size) >> shift) & 0xFF));
  }
}

WsFramePtr make_frame(WsOpcode opcode, std::string_view payload) {
  std::string bytes;
  bytes.reserve(payload.size() + 10);
  append_ws_frame(bytes, opcode, payload);
  return std::make_shared<const WsFrame>(std::move(bytes));
}

}  // namespace

bool ws_close_code_valid(std::uint16_t code) {
  return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) || (code >= 3000 && code <= 4999);
}

std::uint32_t ws_mask(std::span<char> bytes, std::uint32_t mask) {
  char* at = bytes.data();
  std::size_t left = bytes.size();
  const std::uint64_t wide = (static_cast<std::uint64_t>(mask) << 32) | mask;
  if (mask != 0) {
    for (; left >= 8; left -= 8, at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, at, sizeof word);
      word ^= wide;
      std::memcpy(at, &word, sizeof word);
    }
    if (left >= 4) {
      std::uint32_t word = 0;
      std::memcpy(&word, at, sizeof word);
      word ^= mask;
      std::memcpy(at, &word, sizeof word);
      at += 4;
      left -= 4;
    }
    char key[4];
    std::memcpy(key, &mask, sizeof key);
    for (std::size_t i = 0; i < left; ++i) at[i] = static_cast<char>(at[i] ^ key[i & 3]);
  }
  // What comes next in memory stands in the low byte on a little-endian machine.
  const int used = static_cast<int>(bytes.size() & 3) * 8;
  return std::endian::native == std::endian::little ? std::rotr(mask, used) : std::rotl(mask, used);
}

// ---- decoding ----

struct WsDecoder::Header {
  WsOpcode opcode = WsOpcode::Continuation;
  bool final = false;
  std::uint64_t length = 0;
  std::size_t bytes = 0;  // of the header itself
  std::uint32_t mask = 0;
};

WsPart WsDecoder::fail(std::uint16_t code, std::string_view reason) {
  WsPart part;
  part.kind = WsPart::Kind::Fail;
  part.code = code;
  part.reason = reason;
  return part;
}

WsPart WsDecoder::next(std::span<char> input) {
  if (remaining_ > 0) return input.empty() ? WsPart{} : read_payload(input, 0);
  return read_header(input);
}

// Every rule is applied as soon as its byte is there: what is wrong must not wait for more.
WsPart WsDecoder::read_header(std::span<char> input) {
  using ws_close::kProtocolError;
  if (input.empty()) return {};
  const unsigned first = byte_at(input, 0);
  if ((first & kReserved) != 0) return fail(kProtocolError, "reserved bit set");
  Header header;
  header.final = (first & kFinal) != 0;
  header.opcode = static_cast<WsOpcode>(first & kOpcode);
  const bool control = (first & 0x08) != 0;
  if (header.opcode > WsOpcode::Pong || (header.opcode > WsOpcode::Binary && !control)) {
    return fail(kProtocolError, "reserved opcode");
  }
  if (control && !header.final) return fail(kProtocolError, "fragmented control frame");
  if (!control && in_message_ != (header.opcode == WsOpcode::Continuation)) {
    return fail(kProtocolError, in_message_ ? "new message inside another" : "continuation of nothing");
  }
  if (input.size() < 2) return {};

  const unsigned second = byte_at(input, 1);
  const bool masked = (second & kMasked) != 0;
  if (masked != (side_ == Side::Server)) {
    return fail(kProtocolError, masked ? "masked server frame" : "unmasked client frame");
  }
  const unsigned short_length = second & ~kMasked;
  if (control && short_length > kWsControlBytes) return fail(kProtocolError, "control frame too long");
  const std::size_t length_bytes = short_length == kLength16 ? 2 : short_length == kLength64 ? 8 : 0;
  if (length_bytes == 8 && input.size() > 2 && (byte_at(input, 2) & 0x80) != 0) {
    return fail(kProtocolError, "top bit of a length");
  }
  if (input.size() < 2 + length_bytes) return {};
  header.length = length_bytes == 0 ? short_length : big_endian(input.subspan(2, length_bytes));
  if ((length_bytes == 2 && header.length < kLength16) || (length_bytes == 8 && header.length <= 0xFFFF)) {
    return fail(kProtocolError, "length not minimal");
  }
  if (!control) {
    if (WsPart bad = check_data_header(header); bad.kind == WsPart::Kind::Fail) return bad;
  }
  header.bytes = 2 + length_bytes + (masked ? 4 : 0);
  if (input.size() < header.bytes) return {};
  if (masked) std::memcpy(&header.mask, input.data() + header.bytes - 4, 4);
  if (control) return read_control(header, input);

  if (header.opcode != WsOpcode::Continuation) {
    binary_ = header.opcode == WsOpcode::Binary;
    in_message_ = first_piece_ = true;
    message_bytes_ = 0;
    utf8_.reset();
  }
  message_bytes_ += header.length;
  remaining_ = header.length;
  mask_ = header.mask;
  final_frame_ = header.final;
  return read_payload(input, header.bytes);
}

WsPart WsDecoder::check_data_header(const Header& header) const {
  if (header.opcode == WsOpcode::Binary && !accept_binary_) {
    return fail(ws_close::kUnsupported, "text messages only");
  }
  const std::uint64_t before = header.opcode == WsOpcode::Continuation ? message_bytes_ : 0;
  if (header.length > max_message_bytes_ - before) return fail(ws_close::kTooBig, "message too big");
  return {};
}

WsPart WsDecoder::read_payload(std::span<char> input, std::size_t header_bytes) {
  const std::size_t there = input.size() - header_bytes;
  const auto taken = static_cast<std::size_t>(there < remaining_ ? there : remaining_);
  const std::span<char> payload = input.subspan(header_bytes, taken);
  mask_ = ws_mask(payload, mask_);
  remaining_ -= taken;
  WsPart part;
  part.kind = WsPart::Kind::Data;
  part.binary = binary_;
  part.first = first_piece_;
  part.last = remaining_ == 0 && final_frame_;
  part.consumed = header_bytes + taken;
  part.payload = {payload.data(), payload.size()};
  if (!binary_) {
    const bool valid = utf8_.feed(part.payload) && (!part.last || utf8_.complete());
    if (!valid) return fail(ws_close::kBadData, "invalid UTF-8");
  }
  first_piece_ = false;
  if (part.last) in_message_ = false;
  return part;
}

// A control frame is taken when it is whole; until then its bytes are left where they are, masked.
WsPart WsDecoder::read_control(const Header& header, std::span<char> input) {
  const auto length = static_cast<std::size_t>(header.length);
  if (header.opcode == WsOpcode::Close && length == 1) {
    return fail(ws_close::kProtocolError, "close code cut short");
  }
  if (input.size() - header.bytes < length) return {};
  const std::span<char> payload = input.subspan(header.bytes, length);
  ws_mask(payload, header.mask);
  WsPart part;
  part.consumed = header.bytes + length;
  part.payload = {payload.data(), payload.size()};
  if (header.opcode != WsOpcode::Close) {
    part.kind = header.opcode == WsOpcode::Ping ? WsPart::Kind::Ping : WsPart::Kind::Pong;
    return part;
  }
  part.kind = WsPart::Kind::Close;
  part.code = ws_close::kNone;
  if (length == 0) return part;
  part.code = static_cast<std::uint16_t>(big_endian(payload.first(2)));
  if (!ws_close_code_valid(part.code)) return fail(ws_close::kProtocolError, "close code not allowed");
  part.payload.remove_prefix(2);
  if (!is_valid_utf8(part.payload)) return fail(ws_close::kBadData, "close reason is not UTF-8");
  return part;
}

// ---- encoding ----

void append_ws_frame(std::string& out, WsOpcode opcode, std::string_view payload, bool final) {
  append_header(out, opcode, payload.size(), final, false);
  out.append(payload);
}

void append_masked_ws_frame(std::string& out, WsOpcode opcode, std::string_view payload, std::uint32_t mask,
                            bool final) {
  append_header(out, opcode, payload.size(), final, true);
  char key[4];
  std::memcpy(key, &mask, sizeof key);
  out.append(key, sizeof key);
  const std::size_t begin = out.size();
  out.append(payload);
  ws_mask({out.data() + begin, payload.size()}, mask);
}

std::string ws_close_payload(std::uint16_t code, std::string_view reason) {
  std::string payload;
  if (code == ws_close::kNone) return payload;
  DLB_CHECK(ws_close_code_valid(code));
  payload.push_back(static_cast<char>(code >> 8));
  payload.push_back(static_cast<char>(code & 0xFF));
  std::size_t size = reason.size();
  if (size > kWsControlBytes - 2) {
    size = kWsControlBytes - 2;
    while (size > 0 && (static_cast<unsigned char>(reason[size]) & 0xC0) == 0x80) --size;
  }
  payload.append(reason.substr(0, size));
  return payload;
}

WsFramePtr WsFrame::text(std::string_view payload) { return make_frame(WsOpcode::Text, payload); }

WsFramePtr WsFrame::binary(std::string_view payload) { return make_frame(WsOpcode::Binary, payload); }

WsFramePtr WsFrame::ping(std::string_view payload) {
  DLB_CHECK(payload.size() <= kWsControlBytes);
  return make_frame(WsOpcode::Ping, payload);
}

WsFramePtr WsFrame::pong(std::string_view payload) {
  DLB_CHECK(payload.size() <= kWsControlBytes);
  return make_frame(WsOpcode::Pong, payload);
}

WsFramePtr WsFrame::close(std::uint16_t code, std::string_view reason) {
  return make_frame(WsOpcode::Close, ws_close_payload(code, reason));
}

}  // namespace dlb
