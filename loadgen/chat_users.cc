#include "loadgen/chat_users.h"

#include <fmt/format.h>

#include "loadgen/hash.h"

namespace dlb::loadgen {

std::uint64_t key_mark(const RsaPrivateKey& key) { return hash_bytes(key.public_der(), 0x6b6579U) >> 16; }

std::string chat_user_prefix(std::string_view kind, const RsaPrivateKey& key) {
  return fmt::format("{}-{:012x}-", kind, key_mark(key));
}

}  // namespace dlb::loadgen
