#include "loadgen/payload.h"

#include <array>
#include <charconv>
#include <cmath>

#include "common/check.h"
#include "common/rng.h"
#include "loadgen/hash.h"

namespace dlb::loadgen {
namespace {

constexpr std::uint64_t kBlock = 1000;
constexpr std::uint64_t kReach = 32;  // a repeat looks for a message so many operations back
// 0x20 … 0x7e
constexpr std::string_view kPrintable =
    " !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~";
static_assert(kPrintable.size() == 0x7f - 0x20);
constexpr std::string_view kAlphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

// Streams of one seed must not overlap: Rng steps its own seed by a constant, so indices are mixed first.
std::uint64_t stream_seed(std::uint64_t seed, std::uint64_t purpose, std::uint64_t index) {
  return mix64(mix64(seed + purpose) ^ (index * 0x9e3779b97f4a7c15U));
}

void append_number(std::string& out, std::uint64_t value) {
  std::array<char, 20> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out.append(digits.data(), end);
}

// Four letters of each draw.
void fill_text(std::string& text, std::string_view letters, Rng& rng) {
  const auto letter = [letters](std::uint64_t bits) {
    return letters[((bits & 0xffffU) * letters.size()) >> 16];
  };
  char* at = text.data();
  std::size_t left = text.size();
  for (; left >= 4; left -= 4, at += 4) {
    const std::uint64_t bits = rng.next();
    at[0] = letter(bits);
    at[1] = letter(bits >> 16);
    at[2] = letter(bits >> 32);
    at[3] = letter(bits >> 48);
  }
  if (left == 0) return;
  for (std::uint64_t bits = rng.next(); left > 0; --left, bits >>= 16) *at++ = letter(bits);
}

// Only what printable ASCII needs.
void append_escaped(std::string& out, std::string_view text) {
  const char* from = text.data();
  const char* const end = from + text.size();
  for (const char* at = from; at != end; ++at) {
    if (*at != '"' && *at != '\\') continue;
    out.append(from, at);
    out += '\\';
    from = at;  // the character itself goes with what is behind it
  }
  out.append(from, end);
}

}  // namespace

std::string_view operation_class_name(OperationClass operation_class) {
  return operation_class == OperationClass::Message ? "message" : "feed";
}

Payload::Payload(const PayloadShape& shape)
    : shape_(shape),
      feeds_per_block_(static_cast<std::uint32_t>(std::lround(shape.feed_percent * 10))),
      repeats_per_block_(static_cast<std::uint32_t>(std::lround(shape.duplicate_percent * 10))) {
  DLB_CHECK(shape_.users > 0);
  DLB_CHECK(shape_.message_min > 0 && shape_.message_min <= shape_.message_max);
  DLB_CHECK(feeds_per_block_ <= kBlock && repeats_per_block_ <= kBlock);
}

OperationClass Payload::operation_class(std::uint64_t index) const {
  const bool feed = feeds_per_block_ > 0 && place(index) < feeds_per_block_;
  return feed ? OperationClass::Feed : OperationClass::Message;
}

bool Payload::is_repeat(std::uint64_t index) const {
  return repeats_per_block_ > 0 && place(index) >= kBlock - repeats_per_block_;
}

std::uint64_t Payload::origin(std::uint64_t index) const {
  if (!is_repeat(index)) return index;
  std::uint64_t before = index;
  for (std::uint64_t back = 0; back < kReach && before >= shape_.users; ++back) {
    before -= shape_.users;
    if (operation_class(before) == OperationClass::Message && !is_repeat(before)) return before;
  }
  return index;
}

std::uint64_t Payload::place(std::uint64_t index) const {
  // A permutation of the block's places: x → a·x + b modulo 1000 with a prime to 1000.
  Rng rng(stream_seed(shape_.seed, 1, index / kBlock));
  std::uint64_t a = rng.below(kBlock / 2) * 2 + 1;
  if (a % 5 == 0) a += 2;
  return (a * (index % kBlock) + rng.below(kBlock)) % kBlock;
}

Message Payload::message(std::uint64_t index) {
  index = origin(index);
  Rng rng(stream_seed(shape_.seed, 2, index));
  Message message;
  const std::uint64_t high = rng.next();
  message.id = make_message_id(high, rng.next());

  text_.resize(rng.between(shape_.message_min, shape_.message_max));
  fill_text(text_, shape_.alphabet == Alphabet::Printable ? kPrintable : kAlphanumeric, rng);

  name_ = "user-";
  const std::uint64_t user = index % (shape_.names > 0 ? shape_.names : shape_.users);
  for (std::uint64_t width = 10000; width > user && width > 1; width /= 10) name_ += '0';
  append_number(name_, user);

  message.client_name = name_;
  message.text = text_;
  return message;
}

std::uint64_t content_hash(std::string_view client_name, std::string_view text) {
  return hash_bytes(text, hash_bytes(client_name, 0x646c62U));
}

RequestWriter::RequestWriter(std::string host, std::string base_path, bool keep_alive)
    : keep_alive_(keep_alive) {
  const std::string common = " HTTP/1.1\r\nHost: " + host + "\r\nUser-Agent: dlb-loadgen\r\n";
  post_head_ =
      "POST " + base_path + "/message" + common + "Content-Type: application/json\r\nContent-Length: ";
  request_ = "GET " + base_path + "/feed" + common + "Accept: application/json";
  end_head();
  feed_request_ = request_;
}

void RequestWriter::end_head() { request_ += keep_alive_ ? "\r\n\r\n" : "\r\nConnection: close\r\n\r\n"; }

std::string_view RequestWriter::post_message(const Message& message) {
  std::array<char, kMessageIdChars> id{};
  write_message_id(message.id, id.data());
  const std::string_view id_text(id.data(), id.size());

  body_ = "{\"client-name\":\"";
  append_escaped(body_, message.client_name);
  body_ += "\",\"message-id\":\"";
  body_ += id_text;
  body_ += "\",\"msg\":\"";
  append_escaped(body_, message.text);
  body_ += "\"}";

  request_ = post_head_;
  append_number(request_, body_.size());
  request_ += "\r\nIdempotency-Key: ";
  request_ += id_text;
  end_head();
  request_ += body_;
  return request_;
}

std::string_view RequestWriter::get_feed() { return feed_request_; }

}  // namespace dlb::loadgen
