// What must hold for every input of the head parser and the chunk decoder, shared by the fuzz harnesses and
// the corpus replay in the unit tests: no crash (the sanitizers watch buffers of exact size), the same
// verdict however the bytes are cut, and results whose views lie inside the input. A breach aborts.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/check.h"
#include "common/chunked.h"
#include "common/http_parser.h"

namespace dlb::fuzz {

inline constexpr HeadLimits kLimits{2048, 512};

inline bool inside(std::string_view whole, std::string_view part) {
  return part.empty() ||
         (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

inline void check_fields(std::string_view whole, const HeaderFields& fields) {
  for (const HeaderField& field : fields.all()) {
    DLB_CHECK(!field.name.empty() && inside(whole, field.name) && inside(whole, field.value));
    DLB_CHECK(field.id == header_id(field.name));
    DLB_CHECK(field.value.find_first_of(std::string_view("\r\n\0", 3)) == std::string_view::npos);
  }
}

inline bool same(const ParseResult& a, const ParseResult& b) {
  return a.status == b.status && a.http_status == b.http_status && a.head_bytes == b.head_bytes;
}

// `parse(bytes, scanned)` is one of the parser's two calls.
template <class Parse>
void check_cuts(std::string_view input, const ParseResult& whole, Parse&& parse) {
  const auto feed = [&](std::size_t step) {
    std::size_t scanned = 0;
    for (std::size_t cut = std::min(step, input.size()); true; cut = std::min(cut + step, input.size())) {
      const auto exact = std::make_unique<char[]>(cut);
      input.copy(exact.get(), cut);
      const ParseResult result = parse(std::string_view(exact.get(), cut), scanned);
      DLB_CHECK(scanned <= cut);
      if (result.status != ParseStatus::NeedMore || cut == input.size()) return result;
    }
  };
  const std::size_t step = input.empty() ? 1 : 1 + static_cast<unsigned char>(input.back()) % 61;
  DLB_CHECK(same(feed(step), whole));
  if (input.size() <= 512) DLB_CHECK(same(feed(1), whole));
}

inline void check_request_head(std::string_view input) {
  static HeadParser parser;
  static RequestHead head;
  if (input.size() > 4096) return;
  std::size_t scanned = 0;
  const ParseResult whole = parser.parse_request(input, scanned, kLimits, head);
  if (whole.status == ParseStatus::Complete) {
    DLB_CHECK(whole.head_bytes <= input.size() && whole.head_bytes <= kLimits.max_head_bytes);
    DLB_CHECK(input.substr(0, whole.head_bytes).ends_with("\r\n\r\n"));
    DLB_CHECK(inside(input, head.method_text) && inside(input, head.target) && inside(input, head.query));
    DLB_CHECK(inside(input, head.authority) && head.target.size() <= kLimits.max_target_bytes);
    DLB_CHECK(!head.path.empty() || head.method == HttpMethod::Connect);
    DLB_CHECK(!head.authority.empty() || head.minor_version == 0);
    const std::size_t hosts = head.fields.find(HeaderId::Host) != nullptr ? 1 : 0;
    DLB_CHECK(hosts == 1 || head.minor_version == 0);
    const bool length = head.fields.find(HeaderId::ContentLength) != nullptr;
    const bool coded = head.fields.find(HeaderId::TransferEncoding) != nullptr;
    DLB_CHECK(!(length && coded));
    DLB_CHECK((head.framing == BodyFraming::Length) == length &&
              (head.framing == BodyFraming::Chunked) == coded);
    check_fields(input, head.fields);
  } else if (whole.status == ParseStatus::Bad) {
    DLB_CHECK(whole.http_status >= 400 && whole.http_status <= 505 && !whole.reason.empty());
  } else {
    DLB_CHECK(input.size() < kLimits.max_head_bytes);
  }
  check_cuts(input, whole, [](std::string_view bytes, std::size_t& cursor) {
    return parser.parse_request(bytes, cursor, kLimits, head);
  });
}

inline void check_response_head(std::string_view input) {
  static HeadParser parser;
  static ResponseHead head;
  if (input.size() > 4096) return;
  const HttpMethod method = input.size() % 5 == 0 ? HttpMethod::Head : HttpMethod::Get;
  std::size_t scanned = 0;
  const ParseResult whole = parser.parse_response(input, scanned, kLimits, method, head);
  if (whole.status == ParseStatus::Complete) {
    DLB_CHECK(whole.head_bytes <= input.size() && whole.head_bytes <= kLimits.max_head_bytes);
    DLB_CHECK(head.status >= 100 && head.status <= 999 && inside(input, head.reason));
    DLB_CHECK(method != HttpMethod::Head || head.framing == BodyFraming::None);
    DLB_CHECK(!head.keep_alive || (!head.ambiguous && head.framing != BodyFraming::UntilClose));
    check_fields(input, head.fields);
  } else if (whole.status == ParseStatus::Bad) {
    DLB_CHECK(whole.http_status == 502 && !whole.reason.empty());
  }
  check_cuts(input, whole, [method](std::string_view bytes, std::size_t& cursor) {
    return parser.parse_response(bytes, cursor, kLimits, method, head);
  });
}

struct DecodedChunks {
  ChunkDecoder::Status end = ChunkDecoder::Status::NeedMore;
  std::string body;
  std::string trailers;
};

inline DecodedChunks decode_chunks(std::string_view input, std::size_t step) {
  ChunkDecoder decoder;
  DecodedChunks out;
  std::size_t consumed = 0;
  for (std::size_t cut = std::min(step, input.size()); true; cut = std::min(cut + step, input.size())) {
    const auto exact = std::make_unique<char[]>(cut - consumed);
    input.copy(exact.get(), cut - consumed, consumed);
    std::string_view rest(exact.get(), cut - consumed);
    while (true) {
      const ChunkDecoder::Step part = decoder.next(rest);
      DLB_CHECK(part.consumed <= rest.size() && inside(rest, part.data));
      consumed += part.consumed;
      rest.remove_prefix(part.consumed);
      if (part.status == ChunkDecoder::Status::Data) {
        DLB_CHECK(!part.data.empty());
        out.body += part.data;
      } else if (part.status == ChunkDecoder::Status::Trailer) {
        out.trailers.append(part.data).append("\n");
      } else {
        out.end = part.status;
        break;
      }
    }
    if (out.end != ChunkDecoder::Status::NeedMore || cut == input.size()) return out;
  }
}

inline void check_chunked(std::string_view input) {
  if (input.size() > 16'384) return;
  const DecodedChunks whole = decode_chunks(input, input.size());
  DLB_CHECK(whole.trailers.size() <= ChunkDecoder::kMaxTrailerBytes);
  const std::size_t odd = input.empty() ? 1 : 1 + static_cast<unsigned char>(input.back()) % 61;
  for (const std::size_t step : {std::size_t{1}, odd}) {
    if (step == 1 && input.size() > 512) continue;  // a cut trailer line is presented again and again
    const DecodedChunks cut = decode_chunks(input, step);
    DLB_CHECK(cut.end == whole.end && cut.body == whole.body && cut.trailers == whole.trailers);
  }
  // What came out, sent again by our own encoder, must come out again.
  if (whole.end == ChunkDecoder::Status::End) {
    std::string again;
    char line[18];
    if (!whole.body.empty()) {
      again.append(line, write_chunk_line(line, whole.body.size())).append(whole.body).append("\r\n");
    }
    again.append("0\r\n\r\n");
    DLB_CHECK(decode_chunks(again, again.size()).body == whole.body);
  }
}

}  // namespace dlb::fuzz
