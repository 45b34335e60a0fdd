#include "backend/key_ring.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/check.h"
#include "common/fd.h"

namespace dlb::backend {
namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr std::size_t kEncodedKey = 43;  // without the padding
constexpr std::size_t kMaxFileBytes = 64 * 1024;
constexpr int kMaxNames = 100;

std::array<unsigned char, 32> sha256(std::string_view label, std::string_view bytes) {
  std::array<unsigned char, 32> out{};
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  unsigned int length = 0;
  const bool ok = context != nullptr && EVP_DigestInit_ex(context, EVP_sha256(), nullptr) == 1 &&
                  EVP_DigestUpdate(context, label.data(), label.size()) == 1 &&
                  EVP_DigestUpdate(context, bytes.data(), bytes.size()) == 1 &&
                  EVP_DigestFinal_ex(context, out.data(), &length) == 1;
  EVP_MD_CTX_free(context);
  DLB_CHECK_MSG(ok && length == out.size(), "OpenSSL has no SHA-256");
  return out;
}

// 43 characters hold 258 bits: the last two must be zero, so that a key has one spelling.
bool decode_key(std::string_view text, std::array<unsigned char, KeyRing::kKeyBytes>& out) {
  if (text.size() == kEncodedKey + 1 && text.back() == '=') text.remove_suffix(1);
  if (text.size() != kEncodedKey) return false;
  std::uint32_t bits = 0;
  int held = 0;
  std::size_t place = 0;
  for (const char c : text) {
    const std::size_t value = kAlphabet.find(c);
    if (value == std::string_view::npos) return false;
    bits = (bits << 6) | static_cast<std::uint32_t>(value);
    held += 6;
    if (held >= 8 && place < out.size()) {
      held -= 8;
      out[place++] = static_cast<unsigned char>((bits >> held) & 0xffU);
    }
  }
  return place == out.size() && (bits & 3U) == 0;
}

std::string encode_key(const std::array<unsigned char, KeyRing::kKeyBytes>& key) {
  std::string out;
  std::uint32_t bits = 0;
  int held = 0;
  for (const unsigned char byte : key) {
    bits = (bits << 8) | byte;
    held += 8;
    while (held >= 6) {
      held -= 6;
      out += kAlphabet[(bits >> held) & 63U];
    }
  }
  out += kAlphabet[(bits << (6 - held)) & 63U];
  out += '=';
  return out;
}

std::string_view trim(std::string_view line) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t first = line.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(kBlank) - first + 1);
}

Result<void> write_all(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0) {
      const int err = errno;
      if (err == EINTR) continue;
      return errno_error("write " + path, err);
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  if (::fsync(fd) != 0) {
    const int err = errno;
    return errno_error("fsync " + path, err);
  }
  return {};
}

// The directory entry is made durable too: a key that is lost takes every message with it.
void sync_folder(const std::string& folder) {
  const Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd) [[maybe_unused]]
    const int ignored = ::fsync(fd.get());
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

std::string hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15U];
  }
  return out;
}

KeyRing::~KeyRing() {
  if (!keys_.empty()) OPENSSL_cleanse(keys_.data(), keys_.size() * sizeof(Key));
}

std::uint32_t KeyRing::fingerprint() const {
  std::string ids;
  for (const Key& key : keys_) ids += as_bytes(key.id);
  const auto digest = sha256("dlb-ring-v1", ids);
  std::uint32_t out = 0;
  for (std::size_t i = 0; i < 4; ++i) out = (out << 8) | digest[i];
  return out;
}

Result<KeyRing> KeyRing::parse(std::string_view text, std::string_view where) {
  KeyRing ring;
  ring.keys_.reserve(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) +
                     1);  // never moved: wiped
  std::size_t line_number = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++line_number;
    if (line.empty() || line.front() == '#') continue;
    Key key;
    if (!decode_key(line, key.bytes)) {
      return Error{std::string(where) + ":" + std::to_string(line_number) +
                   ": not a key: each line must be the URL-safe base64 of 32 random bytes (44 characters)"};
    }
    const auto digest =
        sha256("dlb-key-id-v1", {reinterpret_cast<const char*>(key.bytes.data()), key.bytes.size()});
    std::copy_n(digest.begin(), key.id.size(), key.id.begin());
    for (const Key& other : ring.keys_) {
      if (other.id == key.id) {
        return Error{std::string(where) + ":" + std::to_string(line_number) +
                     ": this key stands above already: remove one of the two lines"};
      }
    }
    ring.keys_.push_back(key);
    OPENSSL_cleanse(key.bytes.data(), key.bytes.size());
  }
  if (ring.keys_.empty()) {
    return Error{std::string(where) + ": no key in it: put the URL-safe base64 of 32 random bytes on a line"};
  }
  return ring;
}

Result<KeyRing> load_key_file(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) {
    const int err = errno;
    Error error = errno_error("message-encryption-key-file " + path, err);
    error.text += err == ENOENT ? ": make it with the URL-safe base64 of 32 random bytes, mode 0600"
                                : ": make it readable by this user";
    return error;
  }
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) {
    const int err = errno;
    return errno_error("stat " + path, err);
  }
  if (!S_ISREG(status.st_mode)) return Error{"message-encryption-key-file " + path + ": not a regular file"};
  if ((status.st_mode & 077) != 0) {
    return Error{"message-encryption-key-file " + path + ": group or others may use it: run chmod 600 " +
                 path};
  }
  std::string text(kMaxFileBytes + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(fd.get(), text.data() + size, text.size() - size);
    if (got < 0) {
      const int err = errno;
      if (err == EINTR) continue;
      return errno_error("read " + path, err);
    }
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  Result<KeyRing> ring = size > kMaxFileBytes ? Result<KeyRing>(Error{path + ": over 64 KiB: not a key file"})
                                              : KeyRing::parse(std::string_view(text).substr(0, size), path);
  OPENSSL_cleanse(text.data(), text.size());
  return ring;
}

Result<void> create_key_file(const std::string& path) {
  const std::string folder = folder_of(path);
  if (::access(path.c_str(), F_OK) == 0) return {};
  if (::mkdir(folder.c_str(), 0700) != 0) {
    const int err = errno;
    if (err != EEXIST) return errno_error("make folder " + folder, err);
  }
  std::array<unsigned char, KeyRing::kKeyBytes> key{};
  std::array<unsigned char, 8> name{};
  if (RAND_bytes(key.data(), static_cast<int>(key.size())) != 1) return Error{"no random bytes for the key"};
  std::string text = encode_key(key) + "\n";
  OPENSSL_cleanse(key.data(), key.size());

  Fd fd;
  std::string beside;
  for (int i = 0; i < kMaxNames && !fd; ++i) {
    if (RAND_bytes(name.data(), static_cast<int>(name.size())) != 1)
      return Error{"no random bytes for a name"};
    beside = path + ".new-" + hex({reinterpret_cast<const char*>(name.data()), name.size()});
    fd = Fd(::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    const int err = errno;
    if (!fd && err != EEXIST) {
      OPENSSL_cleanse(text.data(), text.size());
      return errno_error("create " + beside, err);
    }
  }
  if (!fd) return Error{"create " + beside + ": no free name"};
  Result<void> written = write_all(fd.get(), text, beside);
  OPENSSL_cleanse(text.data(), text.size());
  if (written) {
    // link() fails when another process was first: then its key is the one.
    if (::link(beside.c_str(), path.c_str()) != 0) {
      const int err = errno;
      if (err != EEXIST) written = errno_error("link " + path, err);
    }
  }
  ::unlink(beside.c_str());
  sync_folder(folder);
  return written;
}

}  // namespace dlb::backend
