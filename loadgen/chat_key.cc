#include "loadgen/chat_key.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "common/fd.h"

namespace dlb::loadgen {
namespace {

constexpr std::size_t kMaxFileBytes = 64 * 1024;

// Nothing when there is no file.
Result<std::optional<ChatKey>> load(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    if (errno == ENOENT) return std::optional<ChatKey>();
    return errno_error(path, errno);
  }
  struct stat status {};
  std::string text(kMaxFileBytes, '\0');
  const ssize_t got = ::read(fd.get(), text.data(), text.size());
  if (got < 0 || ::fstat(fd.get(), &status) != 0) return errno_error(path, errno);
  text.resize(static_cast<std::size_t>(got));
  auto key = RsaPrivateKey::parse_pem(text);
  if (!key) return Error{path + ": no usable key (PKCS#8 in PEM, without a passphrase): " + key.error().text};
  ChatKey out{std::move(*key), false, {}};
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    out.warning = path + ": others can read this key and write in your name; use chmod 600";
  }
  return std::optional<ChatKey>(std::move(out));
}

// A file of that mode with those bytes, whole or not at all; false with EEXIST when there is one already.
Result<bool> create_whole(const std::string& path, const std::string& text) {
  const std::string beside = path + ".new." + std::to_string(::getpid());
  ::unlink(beside.c_str());
  Fd fd(::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!fd) return errno_error(beside, errno);
  int err = 0;
  if (::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::fsync(fd.get()) != 0) {
    err = errno != 0 ? errno : EIO;
  }
  // link() never replaces, which rename() would.
  if (err == 0 && ::link(beside.c_str(), path.c_str()) != 0) err = errno;
  ::unlink(beside.c_str());
  if (err == EEXIST) return false;
  if (err != 0) return errno_error(path, err);
  return true;
}

}  // namespace

Result<ChatKey> load_or_make_key(const std::string& path, std::string_view name) {
  auto loaded = load(path);
  if (!loaded) return loaded.error();
  if (loaded->has_value()) return std::move(**loaded);

  auto key = RsaPrivateKey::generate();
  if (!key) return key.error();
  // The text before the first line of dashes is a comment to every reader of PEM.
  const auto created = create_whole(path, "name: " + std::string(name) + "\n" + key->to_pem());
  if (!created) return created.error();
  if (*created) return ChatKey{std::move(*key), true, {}};
  auto others = load(path);
  if (!others) return others.error();
  if (!others->has_value()) return Error{path + ": the file comes and goes"};
  return std::move(**others);
}

std::string default_key_file(std::string_view name) {
  std::string out = "dlb-";
  for (const char c : name) {
    const bool usual = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_' || c == '-' || static_cast<unsigned char>(c) >= 0x80;
    out += usual ? c : '_';
  }
  return out + ".pem";
}

}  // namespace dlb::loadgen
