// The message encryption keys: read from a file, or made on the first start of an embedded deployment.
//
// File format: one key a line, URL-safe base64 of 32 bytes (44 characters, or 43 without the padding). The
// first line encrypts, every line decrypts; so a new key is put in front and the old ones stay below. Empty
// lines and lines that begin with '#' are skipped, blanks around a key too. The file must not be readable or
// writable by group or others. Pure but for the three file functions, which block: they run before the loop
// does.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"

namespace dlb::backend {

// Names a key without telling it: the first 8 bytes of SHA-256 over "dlb-key-id-v1" and the key.
using KeyId = std::array<unsigned char, 8>;

inline std::string_view as_bytes(const KeyId& id) {
  return {reinterpret_cast<const char*>(id.data()), id.size()};
}
std::string hex(std::string_view bytes);

class KeyRing {
 public:
  static constexpr std::size_t kKeyBytes = 32;

  struct Key {
    KeyId id{};
    std::array<unsigned char, kKeyBytes> bytes{};
  };

  // From the text of a key file; `where` names it in errors ("FILE:LINE: ...").
  static Result<KeyRing> parse(std::string_view text, std::string_view where);

  KeyRing() = default;
  KeyRing(const KeyRing&) = default;
  KeyRing& operator=(const KeyRing&) = default;
  KeyRing(KeyRing&&) = default;
  KeyRing& operator=(KeyRing&&) = default;
  ~KeyRing();  // wipes the keys

  const std::vector<Key>& keys() const { return keys_; }  // not empty after parse()
  const Key& first() const { return keys_.front(); }

  // Tells rings apart without telling keys: part of the feed's ETag, since another ring may read other rows.
  std::uint32_t fingerprint() const;

 private:
  std::vector<Key> keys_;
};

// Reads and checks `path`. Errors say what to change.
Result<KeyRing> load_key_file(const std::string& path);

// Makes `path` (and its folder, mode 0700) with one fresh key, mode 0600, unless it is there already. Of
// several processes that do this at once all end up with the same complete file: it is written beside and
// linked into place.
Result<void> create_key_file(const std::string& path);

}  // namespace dlb::backend
