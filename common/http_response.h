// Response heads as text, the Date field's cache, and the cursor that writes a head and a body of shared
// parts with writev, referencing both. Pure but for the cursor's IO through Transport.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common/clock.h"
#include "common/http_body.h"
#include "common/http_server.h"
#include "common/transport.h"

namespace dlb {

// `Date: ...` with CRLF, made anew once a second.
class DateLine {
 public:
  std::string_view at(TimePoint now);

 private:
  TimePoint valid_until_{};
  std::string line_;
};

enum class ConnectionLine : std::uint8_t { None, Close, KeepAlive };

struct ResponseText {
  int status = 200;
  std::string_view fixed_lines{};  // whole lines
  std::string_view date_line{};
  std::string_view content_type{};
  std::uint64_t content_length = 0;  // not written with 1xx, 204 and 304
  ConnectionLine connection = ConnectionLine::None;
  std::span<const HeaderLine> headers{};  // a line with a control byte is left out
};

// Appends the whole head, empty line included.
void append_response_head(std::string& out, const ResponseText& text);

constexpr bool status_has_body(int status) { return status >= 200 && status != 204 && status != 304; }

// What is still to be written of one answer.
class ResponseCursor {
 public:
  // `head` must stay where it is until written or kept(); `body` is held. A body that must not be sent is
  // given empty.
  void start(std::string_view head, HttpBody body);

  // One writev. The bytes it moved are done with.
  IoResult write(Transport& transport);

  // Takes a copy of what is left of the head: the caller's text may go.
  void keep_head();

  bool done() const { return head_.empty() && part_ == part_count(); }
  void reset() { *this = ResponseCursor(); }

 private:
  std::size_t part_count() const { return body_.parts == nullptr ? 0 : body_.parts->size(); }
  void advance(std::size_t bytes);
  void skip_empty_parts();

  std::string_view head_;
  std::string kept_head_;
  HttpBody body_;
  std::size_t part_ = 0;    // index of the part being written
  std::size_t offset_ = 0;  // bytes of it that are written
};

}  // namespace dlb
