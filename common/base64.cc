#include "common/base64.h"

#include <openssl/evp.h>

#include <climits>

#include "common/check.h"

namespace dlb {

std::string base64_encode(std::string_view bytes) {
  DLB_CHECK(bytes.size() < INT_MAX / 2);
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // EVP_EncodeBlock ends with a NUL
  const int length =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                      reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(length));
  return text;
}

// EVP_DecodeBlock takes white space around the text, and any last bits, and gives zeros for padding; encoding
// what it has found again tells whether that was all right.
std::optional<std::string> base64_decode(std::string_view text) {
  if (text.empty()) return std::string();
  if (text.size() % 4 != 0 || text.size() > INT_MAX / 2) return std::nullopt;
  std::string bytes(text.size() / 4 * 3, '\0');
  const int length =
      EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                      reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()));
  if (length != static_cast<int>(bytes.size())) return std::nullopt;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  bytes.resize(bytes.size() - padding);
  if (base64_encode(bytes) != text) return std::nullopt;
  return bytes;
}

}  // namespace dlb
