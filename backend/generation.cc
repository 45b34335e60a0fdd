#include "backend/generation.h"

#include <openssl/rand.h>

#include <array>

#include "backend/key_ring.h"
#include "common/check.h"

namespace dlb::backend {

std::string new_generation() {
  std::array<unsigned char, 16> bytes{};
  DLB_CHECK_MSG(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1, "no random bytes");
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0fU) | 0x40U);
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3fU) | 0x80U);
  std::string text = hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  for (const std::size_t place : {8U, 13U, 18U, 23U}) text.insert(place, 1, '-');
  return text;
}

}  // namespace dlb::backend
