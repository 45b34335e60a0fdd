#include "loadgen/signed_messages.h"

#include <array>

#include "common/check.h"
#include "loadgen/chat_protocol.h"
#include "loadgen/chat_users.h"
#include "loadgen/hash.h"

namespace dlb::loadgen {
namespace {

constexpr std::size_t kAskEvery = 64;

std::uint64_t hash_of(const MessageId& id) { return mix64(id.high ^ mix64(id.low)); }

PayloadShape with_key(PayloadShape shape, const RsaPrivateKey& key) {
  // Another key has other names, so its messages must have other ids.
  shape.seed = mix64(shape.seed ^ key_mark(key));
  return shape;
}

std::string id_text(const MessageId& id) {
  std::string text(kMessageIdChars, ' ');
  write_message_id(id, text.data());
  return text;
}

}  // namespace

SignedMessages::SignedMessages(PayloadShape shape, const RsaPrivateKey& key, std::string names,
                               std::uint64_t publishers)
    : key_(key),
      payload_(with_key(shape, key)),
      names_(std::move(names)),
      publishers_(static_cast<std::size_t>(publishers)) {
  DLB_CHECK(publishers > 0);
}

std::string SignedMessages::name(std::size_t number) const {
  return names_ + std::to_string(publisher(number));
}

void SignedMessages::sign(std::size_t count, const std::function<bool(std::size_t)>& go_on) {
  DLB_CHECK(count <= kMax);
  ids_.reserve(count);
  for (std::size_t number = ids_.size(); number < count; ++number) {
    const Message message = payload_.message(number);
    const std::string signature = key_.sign(message_text(name(number), id_text(message.id), message.text));
    DLB_CHECK(!signature.empty() && (number == 0 || signature.size() == signatures_.size() / number));
    if (number == 0) signatures_.reserve(signature.size() * count);
    signatures_ += signature;
    ids_.push_back(message.id);
    places_.insert(hash_of(message.id), static_cast<std::uint32_t>(number));
    if (number % kAskEvery == kAskEvery - 1 && !go_on(number + 1)) return;
  }
}

std::uint64_t SignedMessages::content(std::size_t number) {
  return content_hash(name(number), payload_.message(number).text);
}

std::string_view SignedMessages::request(std::size_t number) {
  const std::size_t size = signatures_.size() / ids_.size();
  request_ = message_request(id_text(ids_[number]), payload_.message(number).text,
                             std::string_view(signatures_).substr(number * size, size));
  return request_;
}

std::uint32_t SignedMessages::find(std::string_view id) const {
  MessageId ours;
  if (!parse_message_id(id, ours)) return HashPlaces::kNone;
  return places_.find(hash_of(ours), [&](std::uint32_t at) { return ids_[at] == ours; });
}

}  // namespace dlb::loadgen
