#include "common/http_response.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "common/http_syntax.h"

namespace dlb {
namespace {

constexpr int kMaxParts = 64;  // of one writev

void append_number(std::string& out, std::uint64_t value) {
  std::array<char, 20> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out.append(digits.data(), static_cast<std::size_t>(end - digits.data()));
}

void append_line(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ").append(value).append("\r\n");
}

bool is_clean(const HeaderLine& line) {
  if (!http::is_token(line.name)) return false;
  for (const char c : line.value) {
    if (http::has_class(c, http::kControl)) return false;
  }
  return true;
}

}  // namespace

std::string_view DateLine::at(TimePoint now) {
  if (now >= valid_until_) {
    const std::int64_t wall_us = wall_now_us();
    line_ = "Date: " + http_date(wall_us) + "\r\n";
    valid_until_ = now + std::chrono::microseconds(1'000'000 - wall_us % 1'000'000);
  }
  return line_;
}

void append_response_head(std::string& out, const ResponseText& text) {
  out.append("HTTP/1.1 ");
  append_number(out, static_cast<std::uint64_t>(text.status));
  out.append(" ").append(reason_phrase(text.status)).append("\r\n");
  out.append(text.fixed_lines).append(text.date_line);
  if (!text.content_type.empty()) append_line(out, "Content-Type", text.content_type);
  if (status_has_body(text.status)) {
    out.append("Content-Length: ");
    append_number(out, text.content_length);
    out.append("\r\n");
  }
  if (text.connection == ConnectionLine::Close) out.append("Connection: close\r\n");
  if (text.connection == ConnectionLine::KeepAlive) out.append("Connection: keep-alive\r\n");
  for (const HeaderLine& line : text.headers) {
    if (is_clean(line)) append_line(out, line.name, line.value);
  }
  out.append("\r\n");
}

void ResponseCursor::start(std::string_view head, HttpBody body) {
  head_ = head;
  body_ = std::move(body);
  part_ = offset_ = 0;
  skip_empty_parts();
}

IoResult ResponseCursor::write(Transport& transport) {
  std::array<iovec, kMaxParts> parts{};
  int count = 0;
  const auto push = [&](std::string_view bytes) {
    parts[static_cast<std::size_t>(count++)] = {const_cast<char*>(bytes.data()), bytes.size()};
  };
  if (!head_.empty()) push(head_);
  std::size_t offset = offset_;
  for (std::size_t i = part_; i < part_count() && count < kMaxParts; ++i) {
    const std::string_view bytes = (*body_.parts)[i].bytes.substr(offset);
    if (!bytes.empty()) push(bytes);
    offset = 0;
  }
  const IoResult result = transport.writev(parts.data(), count);
  if (result.ok()) advance(result.bytes);
  return result;
}

void ResponseCursor::keep_head() {
  if (head_.empty()) return;
  kept_head_.assign(head_);
  head_ = kept_head_;
}

void ResponseCursor::advance(std::size_t bytes) {
  const std::size_t of_head = std::min(bytes, head_.size());
  head_.remove_prefix(of_head);
  bytes -= of_head;
  while (bytes > 0) {
    const std::size_t left = (*body_.parts)[part_].bytes.size() - offset_;
    const std::size_t taken = std::min(bytes, left);
    bytes -= taken;
    offset_ += taken;
    skip_empty_parts();
  }
}

void ResponseCursor::skip_empty_parts() {
  while (part_ < part_count() && (*body_.parts)[part_].bytes.size() == offset_) {
    ++part_;
    offset_ = 0;
  }
}

}  // namespace dlb
