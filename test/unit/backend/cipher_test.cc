// Sealing and opening, the key file's rules, and the one key that several first starts agree on.
#include "backend/cipher.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "test/support/catch.h"
#include "test/support/temp_dir.h"

namespace dlb::backend {
namespace {

constexpr const char* kKeyA = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
constexpr const char* kKeyB = "_-79_Pv6-fj39vX08_Lx8O_u7ezr6uno5-bl5OPi4eA";  // 43 characters are enough

KeyRing ring(const std::string& text) {
  auto parsed = KeyRing::parse(text, "keys");
  REQUIRE(parsed.has_value());
  return *parsed;
}

std::string error(const std::string& text) {
  auto parsed = KeyRing::parse(text, "keys");
  return parsed ? "" : parsed.error().text;
}

}  // namespace

TEST_CASE("what is sealed opens to the same bytes and nothing else does", "[cipher]") {
  Cipher cipher(ring(kKeyA));
  const std::string text = std::string("text with \0 and \xff bytes", 24);
  const auto sealed = cipher.seal("id", "ann", text);
  REQUIRE(sealed.has_value());
  const std::string_view key = as_bytes(sealed->key_id);
  CHECK(sealed->ciphertext.size() == text.size() + SealedText::kTagBytes);
  CHECK(cipher.open("id", "ann", key, sealed->nonce_bytes(), sealed->ciphertext) == text);

  CHECK_FALSE(cipher.open("id2", "ann", key, sealed->nonce_bytes(), sealed->ciphertext));
  CHECK_FALSE(cipher.open("id", "bob", key, sealed->nonce_bytes(), sealed->ciphertext));
  // Lengths are part of what is authenticated: moving a byte between the fields fails.
  CHECK_FALSE(cipher.open("ida", "nn", key, sealed->nonce_bytes(), sealed->ciphertext));
  CHECK_FALSE(cipher.open("id", "ann", "12345678", sealed->nonce_bytes(), sealed->ciphertext));
  CHECK_FALSE(cipher.open("id", "ann", key, "short", sealed->ciphertext));
  CHECK_FALSE(cipher.open("id", "ann", key, sealed->nonce_bytes(), "short"));
  CHECK_FALSE(cipher.open("id", "ann", key, sealed->nonce_bytes(), ""));
  for (std::size_t i = 0; i < sealed->ciphertext.size(); ++i) {
    std::string changed = sealed->ciphertext;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    CHECK_FALSE(cipher.open("id", "ann", key, sealed->nonce_bytes(), changed));
  }
  // A failed opening spoils nothing.
  CHECK(cipher.open("id", "ann", key, sealed->nonce_bytes(), sealed->ciphertext) == text);
}

TEST_CASE("each sealing has its own nonce", "[cipher]") {
  Cipher cipher(ring(kKeyA));
  std::set<std::string> nonces;
  for (int i = 0; i < 2000; ++i) nonces.emplace(cipher.seal("id", "ann", "text")->nonce_bytes());
  CHECK(nonces.size() == 2000);
}

TEST_CASE("the first key encrypts and every key decrypts", "[cipher]") {
  Cipher old(ring(kKeyA));
  Cipher both(ring(std::string("# new\n\n  ") + kKeyB + " \r\n" + kKeyA + "\n"));
  Cipher fresh(ring(kKeyB));
  const auto before = old.seal("id", "ann", "x");
  const auto after = both.seal("id", "ann", "x");
  CHECK(both.open("id", "ann", as_bytes(before->key_id), before->nonce_bytes(), before->ciphertext) == "x");
  CHECK(fresh.open("id", "ann", as_bytes(after->key_id), after->nonce_bytes(), after->ciphertext) == "x");
  CHECK_FALSE(fresh.open("id", "ann", as_bytes(before->key_id), before->nonce_bytes(), before->ciphertext));
  CHECK(old.ring_fingerprint() != both.ring_fingerprint());
  CHECK(before->key_id != after->key_id);
}

TEST_CASE("content is compared by client name and text together", "[cipher]") {
  CHECK(same_content(content_digest("ann", "text"), content_digest("ann", "text")));
  CHECK_FALSE(same_content(content_digest("ann", "text"), content_digest("annt", "ext")));
  CHECK_FALSE(same_content(content_digest("ann", "text"), content_digest("ann", "text ")));
}

TEST_CASE("a bad key file says which line and what to do", "[cipher]") {
  CHECK(error("") == "keys: no key in it: put the URL-safe base64 of 32 random bytes on a line");
  CHECK(error("# only\n").find("no key") != std::string::npos);
  CHECK(error(std::string(kKeyA) + "\nshort\n").find("keys:2: not a key") == 0);
  CHECK(error("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9=").find("keys:1:") == 0);  // bits left over
  CHECK(error("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdH+8=").find("keys:1:") == 0);  // not the URL alphabet
  CHECK(error(std::string(kKeyA) + "\n#\n" + kKeyA).find("keys:3: this key stands above") == 0);
  CHECK(error(std::string("AAECAwQF\0gcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", 44)).find("keys:1:") == 0);
}

TEST_CASE("a key file that others may use, or that is missing, is refused", "[cipher]") {
  ::dlb::test::TempDir folder;
  const std::string path = folder.write("key", std::string(kKeyA) + "\n");
  for (const mode_t mode : {0644U, 0640U, 0604U, 0620U}) {
    REQUIRE(::chmod(path.c_str(), mode) == 0);
    const auto loaded = load_key_file(path);
    REQUIRE_FALSE(loaded.has_value());
    CHECK(loaded.error().text.find("chmod 600") != std::string::npos);
  }
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
  CHECK(load_key_file(path).has_value());
  CHECK(load_key_file(folder.file("none")).error().text.find("ENOENT") != std::string::npos);
  CHECK_FALSE(load_key_file(folder.path()).has_value());
}

TEST_CASE("processes that make the key at once agree on one", "[cipher]") {
  ::dlb::test::TempDir folder;
  const std::string path = folder.file("data/encryption.key");
  constexpr int kProcesses = 8;
  int results[2];
  REQUIRE(::pipe(results) == 0);
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      std::uint32_t fingerprint = 0;
      if (create_key_file(path)) {
        if (auto loaded = load_key_file(path)) fingerprint = loaded->fingerprint();
      }
      ::_exit(::write(results[1], &fingerprint, sizeof fingerprint) == sizeof fingerprint ? 0 : 1);
    }
    REQUIRE(pid > 0);
    children.push_back(pid);
  }
  for (const pid_t pid : children) {
    int status = 0;
    REQUIRE(::waitpid(pid, &status, 0) == pid);
    CHECK(status == 0);
  }
  std::set<std::uint32_t> fingerprints;
  for (int i = 0; i < kProcesses; ++i) {
    std::uint32_t fingerprint = 0;
    REQUIRE(::read(results[0], &fingerprint, sizeof fingerprint) == sizeof fingerprint);
    fingerprints.insert(fingerprint);
  }
  ::close(results[0]);
  ::close(results[1]);
  CHECK(fingerprints.size() == 1);
  CHECK(!fingerprints.contains(0));
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.file("data"))) ++files;
  CHECK(files == 1);
}

}  // namespace dlb::backend
