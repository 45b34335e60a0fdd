// SignedMessages: what the publishers of a chat run will send, signed before the run begins, since an RSA
// signature costs 0.75 ms. Message i is publisher i modulo their number's; ids and texts are a function of
// seed, key and number, so the same seed and key send the same messages. Keeps 280 bytes a message
// (signature, id), at most kMax messages: texts are made again when they are sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/rsa_pss.h"
#include "loadgen/hash_places.h"
#include "loadgen/payload.h"

namespace dlb::loadgen {

class SignedMessages {
 public:
  static constexpr std::size_t kMax = 400'000;  // 110 MB, and five minutes of signing

  // `shape.seed` is the run's; `names` is what the publishers' names begin with. Requires publishers > 0.
  SignedMessages(PayloadShape shape, const RsaPrivateKey& key, std::string names, std::uint64_t publishers);

  // Signs up to `count` messages in all, and asks `go_on(done)` now and then: false ends it there. Requires
  // count <= kMax.
  void sign(std::size_t count, const std::function<bool(std::size_t)>& go_on);
  std::size_t size() const { return ids_.size(); }
  std::size_t publishers() const { return publishers_; }

  const MessageId& id(std::size_t number) const { return ids_[number]; }
  std::size_t publisher(std::size_t number) const { return number % publishers_; }
  // content_hash() of name and text.
  std::uint64_t content(std::size_t number);
  // What the publisher sends; lives until the next call.
  std::string_view request(std::size_t number);
  // The number of the message with that id, or HashPlaces::kNone.
  std::uint32_t find(std::string_view id) const;

 private:
  std::string name(std::size_t number) const;

  const RsaPrivateKey& key_;
  Payload payload_;
  std::string names_;
  std::size_t publishers_;
  std::vector<MessageId> ids_;
  std::string signatures_;  // raw, of one length each
  HashPlaces places_;
  std::string request_;
};

}  // namespace dlb::loadgen
