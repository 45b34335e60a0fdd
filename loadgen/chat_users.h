// Names of the users that loadgen puts into a chat. A name belongs for ever to the key that took it first, so
// a name says whose it is: `chat-1f0c9a52b3d4-7` is user 7 of the key that those digits stand for. Another
// key never meets a name that is taken; the same key finds its names again. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/rsa_pss.h"

namespace dlb::loadgen {

// A number that stands for the key: 48 bits of a hash.
std::uint64_t key_mark(const RsaPrivateKey& key);
// `KIND-MARK-`: a number goes behind it.
std::string chat_user_prefix(std::string_view kind, const RsaPrivateKey& key);

}  // namespace dlb::loadgen
