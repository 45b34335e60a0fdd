// Cipher: messages to AES-256-GCM ciphertext and back. A fresh random 96-bit nonce each time; the
// authenticated data is the format version, key id, message id and client name, each with its length before
// it, so that no row's or column's ciphertext passes for another's. Counting encryptions per key is the
// store's business (key_budget.h). No I/O, no clock; one thread.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/key_ring.h"

struct evp_cipher_ctx_st;

namespace dlb::backend {

// SHA-256 over client name and text, for "same content?" without keeping or comparing the texts.
using ContentDigest = std::array<unsigned char, 32>;
ContentDigest content_digest(std::string_view client_name, std::string_view text);
// In constant time.
bool same_content(const ContentDigest& a, const ContentDigest& b);

struct SealedText {
  static constexpr std::size_t kNonceBytes = 12;
  static constexpr std::size_t kTagBytes = 16;

  KeyId key_id{};
  std::array<unsigned char, kNonceBytes> nonce{};
  std::string ciphertext;  // with the tag behind it

  std::string_view nonce_bytes() const { return {reinterpret_cast<const char*>(nonce.data()), nonce.size()}; }
};

class Cipher {
 public:
  explicit Cipher(const KeyRing& ring);
  Cipher(const Cipher&) = delete;
  Cipher& operator=(const Cipher&) = delete;
  ~Cipher();

  const KeyId& encrypting_key() const { return contexts_.front().id; }
  std::uint32_t ring_fingerprint() const { return fingerprint_; }

  // Encrypts with the ring's first key. Empty only when the system gives no random bytes.
  std::optional<SealedText> seal(std::string_view message_id, std::string_view client_name,
                                 std::string_view text);

  // The text, or nothing when the key is not in the ring or the row isn't what was sealed.
  std::optional<std::string> open(std::string_view message_id, std::string_view client_name,
                                  std::string_view key_id, std::string_view nonce,
                                  std::string_view ciphertext);

 private:
  struct FreeContext {
    void operator()(evp_cipher_ctx_st* context) const;
  };
  using Context = std::unique_ptr<evp_cipher_ctx_st, FreeContext>;
  struct KeyContexts {
    KeyId id{};
    Context encrypt;  // null but for the first key
    Context decrypt;
  };

  bool draw_nonce(std::array<unsigned char, SealedText::kNonceBytes>& nonce);
  void build_associated_data(std::string_view key_id, std::string_view message_id,
                             std::string_view client_name);

  std::vector<KeyContexts> contexts_;  // the key schedule is made once; only the nonce changes
  std::string associated_data_;        // kept for its memory
  std::uint32_t fingerprint_ = 0;
  std::array<unsigned char, SealedText::kNonceBytes * 64> random_{};
  std::size_t random_used_ = random_.size();
};

}  // namespace dlb::backend
