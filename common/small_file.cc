#include "common/small_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "common/fd.h"

namespace dlb {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n'; }

std::string_view skip_blanks(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  return text;
}

// v1 writes "no limit" as a number near 2^63, which may be above it on some kernels: clamped.
std::int64_t leading_integer(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end == text.data() || error == std::errc::invalid_argument) return -1;
  if (end != text.data() + text.size() && !is_blank(*end)) return -1;
  if (error != std::errc() || value > INT64_MAX) return INT64_MAX;
  return static_cast<std::int64_t>(value);
}

}  // namespace

std::string_view SmallFileText::read(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return read(file.get());
}

std::string_view SmallFileText::read(int fd) {
  if (fd < 0) return {};
  ssize_t got = 0;
  do {
    got = ::pread(fd, buffer_.data(), buffer_.size(), 0);
  } while (got < 0 && errno == EINTR);
  return {buffer_.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))};
}

std::int64_t integer_field(std::string_view text, int index) {
  text = skip_blanks(text);
  for (; index > 0 && !text.empty(); --index) {
    while (!text.empty() && !is_blank(text.front())) text.remove_prefix(1);
    text = skip_blanks(text);
  }
  return leading_integer(text);
}

std::int64_t keyed_integer(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    if (line.size() > key.size() && line.starts_with(key) && is_blank(line[key.size()])) {
      return leading_integer(skip_blanks(line.substr(key.size())));
    }
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return -1;
}

}  // namespace dlb
