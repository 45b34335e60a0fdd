#include "common/http_parser.h"

#include <llhttp.h>

#include <algorithm>

#include "common/http_head.h"
#include "common/http_scan.h"

namespace dlb {

using http::Fault;
using http::HeadFacts;
using http::Scan;

namespace {

constexpr std::size_t kMaxEmptyLines = 4;  // before a request line
constexpr std::string_view kCrLf = "\r\n";

// True when the request target that starts in `line` (sound so far, perhaps cut) is longer than `max`.
bool target_too_long(std::string_view line, std::size_t max) {
  if (line.size() <= max) return false;
  const std::size_t space = line.find_first_of(" \r");
  if (space == std::string_view::npos || line[space] == '\r') return false;
  const std::string_view target = line.substr(space + 1, max + 1);
  return target.size() > max && target.find_first_of(" \r") == std::string_view::npos;
}

ParseResult refuse(Fault fault) { return {ParseStatus::Bad, 0, fault.status, fault.reason}; }

}  // namespace

// ---- llhttp, the second opinion ----

struct HeadParser::Impl {
  Impl() {
    llhttp_settings_init(&settings);
    settings.on_headers_complete = [](llhttp_t*) -> int { return HPE_PAUSED; };
    settings.on_header_value_complete = [](llhttp_t* running) -> int {
      ++*static_cast<std::size_t*>(running->data);
      return 0;
    };
  }

  // Runs llhttp over a whole head; it stops where a body would start. `fields` and the parser's results are
  // for agree().
  bool agrees(llhttp_type_t type, std::string_view head, const HeadFacts& facts, std::size_t our_fields) {
    llhttp_init(&parser, type, &settings);
    fields = 0;
    parser.data = &fields;
    if (facts.minor_version > 1) parser.lenient_flags |= LENIENT_VERSION;
    if (type == HTTP_RESPONSE) {  // both lengths are legal there, chunked wins; our framing decides
      llhttp_set_lenient_chunked_length(&parser, 1);
      llhttp_set_lenient_transfer_encoding(&parser, 1);
    }
    return llhttp_execute(&parser, head.data(), head.size()) == HPE_PAUSED && fields == our_fields &&
           parser.http_major == 1 && parser.http_minor == facts.minor_version &&
           (facts.content_lengths == 0 || parser.content_length == facts.content_length);
  }

  http::LineEnds lines;  // scratch of one call
  llhttp_settings_t settings{};
  llhttp_t parser{};
  std::size_t fields = 0;
};

HeadParser::HeadParser() : impl_(std::make_unique<Impl>()) {}
HeadParser::~HeadParser() = default;

ParseResult HeadParser::parse_request(std::string_view bytes, std::size_t& scanned, const HeadLimits& limits,
                                      RequestHead& out) {
  std::size_t first = 0;
  while (bytes.substr(first, 2) == kCrLf) {
    first += 2;
    if (first > 2 * kMaxEmptyLines) return refuse({400, "empty lines instead of a request"});
  }
  // Nothing beyond the limit is looked at, so that the verdict doesn't depend on how the bytes were cut.
  const std::string_view window = bytes.substr(0, limits.max_head_bytes);
  const Scan scan = http::scan_head(window, std::min(first, window.size()), scanned, impl_->lines);
  if (scan.end > first && target_too_long(window.substr(first, scan.end - first), limits.max_target_bytes)) {
    return refuse({414, "the request target is too long"});
  }
  if (scan.status == ParseStatus::Bad) return refuse({400, scan.reason});
  if (scan.status == ParseStatus::NeedMore) {
    if (bytes.size() >= limits.max_head_bytes) return refuse({431, "the request head is too large"});
    return {};
  }
  const std::string_view head = window.substr(first, scan.end - first);
  HeadFacts facts;
  if (const Fault fault = http::read_request(window, first, impl_->lines, facts, out)) return refuse(fault);
  if (!impl_->agrees(HTTP_REQUEST, head, facts, out.fields.size()) ||
      impl_->parser.method != facts.llhttp_method ||
      ((impl_->parser.flags & F_CHUNKED) != 0) != (out.framing == BodyFraming::Chunked)) {
    return refuse({400, "the request head is malformed"});
  }
  return {ParseStatus::Complete, scan.end, 0, {}};
}

ParseResult HeadParser::parse_response(std::string_view bytes, std::size_t& scanned, const HeadLimits& limits,
                                       HttpMethod request_method, ResponseHead& out) {
  const std::string_view window = bytes.substr(0, limits.max_head_bytes);
  const Scan scan = http::scan_head(window, 0, scanned, impl_->lines);
  if (scan.status == ParseStatus::Bad) return refuse({502, scan.reason});
  if (scan.status == ParseStatus::NeedMore) {
    if (bytes.size() >= limits.max_head_bytes) return refuse({502, "the response head is too large"});
    return {};
  }
  const std::string_view head = window.substr(0, scan.end);
  HeadFacts facts;
  if (const Fault fault = http::read_response(window, impl_->lines, request_method, facts, out))
    return refuse({502, fault.reason});
  if (!impl_->agrees(HTTP_RESPONSE, head, facts, out.fields.size()) ||
      impl_->parser.status_code != out.status) {
    return refuse({502, "the response head is malformed"});
  }
  return {ParseStatus::Complete, scan.end, 0, {}};
}

}  // namespace dlb
