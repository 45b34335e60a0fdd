// HeadParser: request and response heads from bytes, by llhttp with our own strict check of the same bytes beside it,
// so that the verdict is the same with any llhttp version. Bodies are not its business (chunked.h, and counting).
//
// Use: keep the head's bytes in one buffer; after each read call parse_*() with all of them and the same `scanned`
// cursor (start it at 0). Only new bytes are looked at until the empty line is there; then the whole head is parsed once.
// One parser serves any number of connections of one loop: it keeps no state between calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "common/http_message.h"

namespace dlb {

struct HeadLimits {
  std::size_t max_head_bytes = 16 * 1024;  // request line to empty line, inclusive: over it 431
  std::size_t max_target_bytes = 8 * 1024;  // over it 414
};

enum class ParseStatus : std::uint8_t { NeedMore, Complete, Bad };

struct ParseResult {
  ParseStatus status = ParseStatus::NeedMore;
  std::size_t head_bytes = 0;   // with Complete: where the body starts
  int http_status = 0;          // with Bad, requests: the answer (400, 414, 417 is the caller's, 431, 501, 505)
  std::string_view reason{};    // with Bad: one static sentence saying what is wrong
};

class HeadParser {
 public:
  HeadParser();
  HeadParser(const HeadParser&) = delete;
  HeadParser& operator=(const HeadParser&) = delete;
  ~HeadParser();

  // Empty lines before a request line are skipped (RFC 9112 section 2.2), they count in head_bytes.
  ParseResult parse_request(std::string_view bytes, std::size_t& scanned, const HeadLimits& limits, RequestHead& out);

  // `request_method` decides the framing (HEAD has no body). Interim (1xx) responses come out as Complete with
  // framing None; the caller parses on behind them, with `scanned` at 0 again. Bad means 502 to the client.
  ParseResult parse_response(std::string_view bytes, std::size_t& scanned, const HeadLimits& limits,
                             HttpMethod request_method, ResponseHead& out);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlb
