#include "common/chunked.h"

#include <algorithm>

#include "common/http_syntax.h"

namespace dlb {
namespace {

constexpr std::uint64_t kMaxChunkBytes = std::uint64_t{1} << 62;
constexpr std::uint8_t kMaxDigits = 16;

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char low = http::lower(c);
  return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

}  // namespace

ChunkDecoder::Step ChunkDecoder::next(std::string_view input) {
  std::size_t i = 0;
  const auto bad = [&](std::string_view reason) {
    state_ = State::Bad;
    return Step{Status::Bad, i, {}, reason};
  };
  while (i < input.size()) {
    const char c = input[i];
    switch (state_) {
      case State::Size:
        if (const int digit = hex_value(c); digit >= 0) {
          if (++digits_ > kMaxDigits) return bad("a chunk size has too many digits");
          if (remaining_ > (kMaxChunkBytes >> 4)) return bad("a chunk size is too large");
          remaining_ = remaining_ << 4 | static_cast<std::uint64_t>(digit);
          if (remaining_ > kMaxChunkBytes) return bad("a chunk size is too large");
          ++i;
          break;
        }
        if (digits_ == 0) return bad("a chunk size is missing or malformed");
        line_bytes_ = 0;
        if (c == '\r') {
          state_ = State::SizeLf;
        } else if (c == ';') {
          state_ = State::Extension;
        } else {
          return bad("a chunk size is malformed");
        }
        ++i;
        break;

      case State::Extension:
        if (c == '\r') {
          state_ = State::SizeLf;
        } else if (http::has_class(c, http::kControl)) {
          return bad("a control byte in a chunk extension");
        } else if (++line_bytes_ > kMaxExtensionBytes) {
          return bad("a chunk extension is too long");
        }
        ++i;
        break;

      case State::SizeLf:
        if (c != '\n') return bad("a bare CR in a chunk line");
        ++i;
        digits_ = 0;
        state_ = remaining_ == 0 ? State::Trailer : State::Data;
        break;

      case State::Data: {
        const auto length = static_cast<std::size_t>(std::min<std::uint64_t>(remaining_, input.size() - i));
        remaining_ -= length;
        if (remaining_ == 0) state_ = State::DataCr;
        return {Status::Data, i + length, input.substr(i, length), {}};
      }

      case State::DataCr:
        if (c != '\r') return bad("a chunk does not end with CRLF");
        state_ = State::DataLf;
        ++i;
        break;

      case State::DataLf:
        if (c != '\n') return bad("a chunk does not end with CRLF");
        state_ = State::Size;
        ++i;
        break;

      case State::Trailer: {
        const std::string_view rest = input.substr(i);
        const std::size_t allowed = kMaxTrailerBytes - trailer_bytes_;  // for this line with its CRLF
        const std::size_t lf = rest.substr(0, std::max<std::size_t>(allowed, 2)).find('\n');
        if (lf == std::string_view::npos) {
          if (rest.find('\r') < rest.size() - 1) return bad("a bare CR in a trailer line");
          if (rest.size() >= allowed && rest != "\r") return bad("the trailers are too large");
          return {Status::NeedMore, i, {}, {}};
        }
        if (lf == 0 || rest[lf - 1] != '\r') return bad("a trailer line ends with a bare LF");
        const std::size_t cr = lf - 1;
        if (cr == 0) {
          state_ = State::End;
          return {Status::End, i + 2, {}, {}};
        }
        if (cr + 2 > allowed) return bad("the trailers are too large");
        if (http::field_line_colon(rest.substr(0, cr)) == std::string_view::npos) {
          return bad("a trailer line is malformed");
        }
        trailer_bytes_ += static_cast<std::uint32_t>(cr + 2);
        return {Status::Trailer, i + cr + 2, rest.substr(0, cr), {}};
      }

      case State::End:
        return {Status::End, i, {}, {}};
      case State::Bad:
        return {Status::Bad, i, {}, "the body was malformed before"};
    }
  }
  if (state_ == State::End) return {Status::End, i, {}, {}};
  if (state_ == State::Bad) return bad("the body was malformed before");
  return {Status::NeedMore, i, {}, {}};
}

std::size_t write_chunk_line(char* out, std::uint64_t size) {
  std::size_t digits = 1;
  while (digits < 16 && (size >> (4 * digits)) != 0) ++digits;
  for (std::size_t i = digits; i-- > 0; size >>= 4) out[i] = "0123456789abcdef"[size & 15];
  out[digits] = '\r';
  out[digits + 1] = '\n';
  return digits + 2;
}

}  // namespace dlb
