// Payload: what each operation of a run is, as a pure function of the seed and the operation's index: message
// or feed, message id, client name, text, and the request's bytes. The same shape and seed give the same
// bytes, whatever the timing of the run, since user u performs the operations u, u + users, u + 2·users, …
//
// Lengths of texts are uniform.
// Feeds and repeats are spread evenly: each block of 1,000 operations has feed-percent and duplicate-percent
// of them, at places that the seed decides. A repeat is the message of the operation before it of the same
// user, byte for byte; where there is none within reach it is a message like any other.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "loadgen/message_id.h"

namespace dlb::loadgen {

enum class OperationClass : std::uint8_t { Message, Feed };
inline constexpr std::size_t kOperationClasses = 2;
std::string_view operation_class_name(OperationClass operation_class);

enum class Alphabet : std::uint8_t {
  Printable,     // printable ASCII, quotes and backslashes too, so that escaping is exercised
  Alphanumeric,  // A-Z a-z 0-9
};

struct PayloadShape {
  std::uint64_t seed = 1;
  std::uint64_t users = 1;  // client names are user-00000 … by index modulo users
  std::uint64_t names = 0;  // … or modulo this, when it isn't 0
  Alphabet alphabet = Alphabet::Printable;
  std::uint32_t message_min = 16;  // bytes of text, both inclusive
  std::uint32_t message_max = 512;
  double feed_percent = 0;       // of all operations, 0–100
  double duplicate_percent = 0;  // repeats, of all operations; with the feeds at most 100
};

struct Message {
  MessageId id;
  std::string_view client_name;  // views live until the next call of Payload::message()
  std::string_view text;
};

class Payload {
 public:
  // Requires users > 0 and 0 < message_min <= message_max.
  explicit Payload(const PayloadShape& shape);

  OperationClass operation_class(std::uint64_t index) const;
  // The operation whose message `index` sends: itself, or for a repeat an earlier one.
  std::uint64_t origin(std::uint64_t index) const;

  // The message of operation `index`, which is that of its origin; makes no allocation once the scratch has
  // its size.
  Message message(std::uint64_t index);

  const PayloadShape& shape() const { return shape_; }

 private:
  std::uint64_t place(std::uint64_t index) const;
  bool is_repeat(std::uint64_t index) const;

  PayloadShape shape_;
  std::uint32_t feeds_per_block_;
  std::uint32_t repeats_per_block_;
  std::string text_;
  std::string name_;
};

// Hash of what the feed must show for a message: client name and text.
std::uint64_t content_hash(std::string_view client_name, std::string_view text);

// Writes requests for one target into a buffer that is used again and again.
class RequestWriter {
 public:
  // `host` is the Host field's value, `base_path` stands before /message and /feed ("" or "/prefix").
  RequestWriter(std::string host, std::string base_path, bool keep_alive);

  // The bytes live until the next call.
  std::string_view post_message(const Message& message);
  std::string_view get_feed();

 private:
  void end_head();

  std::string post_head_;  // up to the value of Content-Length
  std::string feed_request_;
  bool keep_alive_;
  std::string body_;
  std::string request_;
};

}  // namespace dlb::loadgen
