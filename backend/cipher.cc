#include "backend/cipher.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <algorithm>
#include <climits>
#include <cstdint>

#include "common/check.h"

namespace dlb::backend {
namespace {

constexpr std::string_view kFormatVersion = "dlb-message-v1";

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}
unsigned char* bytes_of(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }

std::array<unsigned char, 4> big_endian(std::size_t length) {
  const auto n = static_cast<std::uint32_t>(length);
  return {static_cast<unsigned char>(n >> 24), static_cast<unsigned char>(n >> 16),
          static_cast<unsigned char>(n >> 8), static_cast<unsigned char>(n)};
}

void append_with_length(std::string& out, std::string_view part) {
  const auto length = big_endian(part.size());
  out.append(reinterpret_cast<const char*>(length.data()), length.size());
  out += part;
}

struct FreeDigest {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

}  // namespace

ContentDigest content_digest(std::string_view client_name, std::string_view text) {
  thread_local const std::unique_ptr<EVP_MD_CTX, FreeDigest> context(EVP_MD_CTX_new());
  ContentDigest out{};
  const auto name_length = big_endian(client_name.size());
  unsigned int length = 0;
  const bool ok = context != nullptr && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1 &&
                  EVP_DigestUpdate(context.get(), name_length.data(), name_length.size()) == 1 &&
                  EVP_DigestUpdate(context.get(), client_name.data(), client_name.size()) == 1 &&
                  EVP_DigestUpdate(context.get(), text.data(), text.size()) == 1 &&
                  EVP_DigestFinal_ex(context.get(), out.data(), &length) == 1;
  DLB_CHECK_MSG(ok && length == out.size(), "OpenSSL has no SHA-256");
  return out;
}

bool same_content(const ContentDigest& a, const ContentDigest& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

void Cipher::FreeContext::operator()(evp_cipher_ctx_st* context) const { EVP_CIPHER_CTX_free(context); }

Cipher::Cipher(const KeyRing& ring) : fingerprint_(ring.fingerprint()) {
  DLB_CHECK(!ring.keys().empty());
  for (const KeyRing::Key& key : ring.keys()) {
    KeyContexts contexts;
    contexts.id = key.id;
    contexts.decrypt.reset(EVP_CIPHER_CTX_new());
    bool ok = contexts.decrypt != nullptr && EVP_DecryptInit_ex(contexts.decrypt.get(), EVP_aes_256_gcm(),
                                                                nullptr, key.bytes.data(), nullptr) == 1;
    if (contexts_.empty()) {
      contexts.encrypt.reset(EVP_CIPHER_CTX_new());
      ok = ok && contexts.encrypt != nullptr &&
           EVP_EncryptInit_ex(contexts.encrypt.get(), EVP_aes_256_gcm(), nullptr, key.bytes.data(),
                              nullptr) == 1;
    }
    DLB_CHECK_MSG(ok, "OpenSSL has no AES-256-GCM");
    contexts_.push_back(std::move(contexts));
  }
}

Cipher::~Cipher() = default;  // EVP_CIPHER_CTX_free wipes the key schedules

void Cipher::build_associated_data(std::string_view key_id, std::string_view message_id,
                                   std::string_view client_name) {
  associated_data_.clear();
  append_with_length(associated_data_, kFormatVersion);
  append_with_length(associated_data_, key_id);
  append_with_length(associated_data_, message_id);
  append_with_length(associated_data_, client_name);
}

// One draw costs as much as sealing a small message: nonces are drawn many at a time, and each is given out
// once.
bool Cipher::draw_nonce(std::array<unsigned char, SealedText::kNonceBytes>& nonce) {
  if (random_used_ == random_.size()) {
    if (RAND_bytes(random_.data(), static_cast<int>(random_.size())) != 1) return false;
    random_used_ = 0;
  }
  std::copy_n(random_.begin() + static_cast<std::ptrdiff_t>(random_used_), nonce.size(), nonce.begin());
  random_used_ += nonce.size();
  return true;
}

std::optional<SealedText> Cipher::seal(std::string_view message_id, std::string_view client_name,
                                       std::string_view text) {
  if (text.size() > INT_MAX / 2) return std::nullopt;
  SealedText out;
  out.key_id = contexts_.front().id;
  if (!draw_nonce(out.nonce)) return std::nullopt;
  build_associated_data(as_bytes(out.key_id), message_id, client_name);
  out.ciphertext.resize(text.size() + SealedText::kTagBytes);

  EVP_CIPHER_CTX* context = contexts_.front().encrypt.get();
  int length = 0;
  int rest = 0;
  const bool ok = EVP_EncryptInit_ex(context, nullptr, nullptr, nullptr, out.nonce.data()) == 1 &&
                  EVP_EncryptUpdate(context, nullptr, &length, bytes_of(std::string_view(associated_data_)),
                                    static_cast<int>(associated_data_.size())) == 1 &&
                  EVP_EncryptUpdate(context, bytes_of(out.ciphertext), &length, bytes_of(text),
                                    static_cast<int>(text.size())) == 1 &&
                  EVP_EncryptFinal_ex(context, bytes_of(out.ciphertext) + length, &rest) == 1 &&
                  EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, static_cast<int>(SealedText::kTagBytes),
                                      bytes_of(out.ciphertext) + text.size()) == 1;
  if (!ok || static_cast<std::size_t>(length + rest) != text.size()) return std::nullopt;
  return out;
}

std::optional<std::string> Cipher::open(std::string_view message_id, std::string_view client_name,
                                        std::string_view key_id, std::string_view nonce,
                                        std::string_view ciphertext) {
  if (nonce.size() != SealedText::kNonceBytes || ciphertext.size() < SealedText::kTagBytes ||
      ciphertext.size() > INT_MAX / 2) {
    return std::nullopt;
  }
  EVP_CIPHER_CTX* context = nullptr;
  for (const KeyContexts& contexts : contexts_) {
    if (as_bytes(contexts.id) == key_id) context = contexts.decrypt.get();
  }
  if (context == nullptr) return std::nullopt;
  build_associated_data(key_id, message_id, client_name);

  const std::size_t size = ciphertext.size() - SealedText::kTagBytes;
  std::array<unsigned char, SealedText::kTagBytes> tag{};
  std::copy_n(bytes_of(ciphertext) + size, tag.size(), tag.begin());
  std::string text(size, '\0');
  int length = 0;
  int rest = 0;
  const bool ok =
      EVP_DecryptInit_ex(context, nullptr, nullptr, nullptr, bytes_of(nonce)) == 1 &&
      EVP_DecryptUpdate(context, nullptr, &length, bytes_of(std::string_view(associated_data_)),
                        static_cast<int>(associated_data_.size())) == 1 &&
      EVP_DecryptUpdate(context, bytes_of(text), &length, bytes_of(ciphertext), static_cast<int>(size)) ==
          1 &&
      EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_SET_TAG, static_cast<int>(tag.size()), tag.data()) == 1 &&
      EVP_DecryptFinal_ex(context, bytes_of(text) + length, &rest) == 1;
  if (!ok || static_cast<std::size_t>(length + rest) != size) return std::nullopt;
  return text;
}

}  // namespace dlb::backend
