#include "common/http_parser.h"

#include <llhttp.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "common/http_fields.h"
#include "common/http_syntax.h"

namespace dlb {

using http::ConnectionOptions;
using http::Fault;
using http::FieldFacts;
using http::TransferCoding;

namespace {

constexpr std::size_t kMaxEmptyLines = 4;  // before a request line
constexpr std::string_view kCrLf = "\r\n";

// ---- finding the end of the head ----

struct Scan {
  ParseStatus status = ParseStatus::NeedMore;
  std::size_t end = 0;  // Complete: behind the empty line; else how far the bytes are known to be sound
  std::string_view reason{};
};

// The first byte at or behind `i` that is a control byte (HTAB and DEL too), or `size`; eight bytes at a
// time.
std::size_t next_control(const char* bytes, std::size_t i, std::size_t size) {
  static_assert(std::endian::native == std::endian::little, "the byte order decides which flag comes first");
  constexpr std::uint64_t kLow = 0x7f7f7f7f7f7f7f7fULL;
  constexpr std::uint64_t kHigh = ~kLow;
  for (; i + 8 <= size; i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + i, sizeof word);
    const std::uint64_t at_least_space = ((word & kLow) + 0x6060606060606060ULL) | word;
    const std::uint64_t not_delete = (((word ^ kLow) & kLow) + kLow) | word;
    const std::uint64_t controls = ~(at_least_space & not_delete) & kHigh;
    if (controls != 0) return i + static_cast<std::size_t>(std::countr_zero(controls)) / 8;
  }
  for (; i < size; ++i) {
    const auto c = static_cast<unsigned char>(bytes[i]);
    if (c < 0x20 || c == 0x7f) return i;
  }
  return size;
}

// Looks at the bytes from `scanned` on. `first` is where the first line starts. Needs no memory but the
// cursor: the byte before it tells whether a line starts there.
Scan find_head_end(std::string_view bytes, std::size_t first, std::size_t& scanned) {
  const char* const p = bytes.data();
  const std::size_t size = bytes.size();
  std::size_t i = std::max(scanned, first);
  while (true) {
    i = next_control(p, i, size);
    if (i == size) break;
    if (p[i] == '\t') {
      ++i;
      continue;
    }
    if (p[i] != '\r') {
      return {ParseStatus::Bad, i,
              p[i] == '\n' ? "a line ends with a bare LF" : "a control byte in the head"};
    }
    if (i + 1 == size) break;  // its LF may come
    if (p[i + 1] != '\n') return {ParseStatus::Bad, i, "a bare CR in the head"};
    if (i == first || p[i - 1] == '\n') {
      scanned = i + 2;
      return {ParseStatus::Complete, i + 2, {}};
    }
    i += 2;
  }
  scanned = i;
  return {ParseStatus::NeedMore, i, {}};
}

// True when the request target that starts in `line` (sound so far, perhaps cut) is longer than `max`.
bool target_too_long(std::string_view line, std::size_t max) {
  if (line.size() <= max) return false;
  const std::size_t space = line.find_first_of(" \r");
  if (space == std::string_view::npos || line[space] == '\r') return false;
  const std::string_view target = line.substr(space + 1, max + 1);
  return target.size() > max && target.find_first_of(" \r") == std::string_view::npos;
}

ParseResult refuse(Fault fault) { return {ParseStatus::Bad, 0, fault.status, fault.reason}; }

// ---- the request line ----

struct MethodName {
  std::string_view name;
  HttpMethod method;
};

// What both HTTP and every llhttp version know. Other than the first nine are passed on as they are.
constexpr std::array<MethodName, 34> kMethods = {{
    {"GET", HttpMethod::Get},          {"HEAD", HttpMethod::Head},         {"POST", HttpMethod::Post},
    {"PUT", HttpMethod::Put},          {"DELETE", HttpMethod::Delete},     {"OPTIONS", HttpMethod::Options},
    {"PATCH", HttpMethod::Patch},      {"CONNECT", HttpMethod::Connect},   {"TRACE", HttpMethod::Trace},
    {"COPY", HttpMethod::Other},       {"LOCK", HttpMethod::Other},        {"MKCOL", HttpMethod::Other},
    {"MOVE", HttpMethod::Other},       {"PROPFIND", HttpMethod::Other},    {"PROPPATCH", HttpMethod::Other},
    {"SEARCH", HttpMethod::Other},     {"UNLOCK", HttpMethod::Other},      {"BIND", HttpMethod::Other},
    {"REBIND", HttpMethod::Other},     {"UNBIND", HttpMethod::Other},      {"ACL", HttpMethod::Other},
    {"REPORT", HttpMethod::Other},     {"MKACTIVITY", HttpMethod::Other},  {"CHECKOUT", HttpMethod::Other},
    {"MERGE", HttpMethod::Other},      {"M-SEARCH", HttpMethod::Other},    {"NOTIFY", HttpMethod::Other},
    {"SUBSCRIBE", HttpMethod::Other},  {"UNSUBSCRIBE", HttpMethod::Other}, {"PURGE", HttpMethod::Other},
    {"MKCALENDAR", HttpMethod::Other}, {"LINK", HttpMethod::Other},        {"UNLINK", HttpMethod::Other},
    {"SOURCE", HttpMethod::Other},
}};

const MethodName* find_method(std::string_view text) {
  for (const MethodName& known : kMethods) {
    if (known.name == text) return &known;
  }
  return nullptr;
}

// `HTTP/1.x`: x in `minor`. A major version other than 1 is 505, anything else that differs 400.
Fault read_version(std::string_view text, std::uint8_t& minor) {
  const auto digit = [&](std::size_t at) { return text[at] >= '0' && text[at] <= '9'; };
  if (text.size() != 8 || !text.starts_with("HTTP/") || !digit(5) || text[6] != '.' || !digit(7)) {
    return {400, "the HTTP version is malformed"};
  }
  if (text[5] != '1') return {505, "only HTTP/1.0 and HTTP/1.1 are spoken here"};
  minor = static_cast<std::uint8_t>(text[7] - '0');
  return {};
}

// Splits a target that begins with `/` (or is a query behind an authority) at `?`.
void split_path(std::string_view text, RequestHead& out) {
  const std::size_t mark = text.find('?');
  out.path = text.substr(0, mark);
  out.query = mark == std::string_view::npos ? std::string_view() : text.substr(mark + 1);
}

Fault read_absolute_target(RequestHead& out) {
  const std::size_t colon = out.target.find("://");
  const std::string_view scheme = out.target.substr(0, colon);
  if (colon == std::string_view::npos ||
      (!equals_ignoring_case(scheme, "http") && !equals_ignoring_case(scheme, "https"))) {
    return {400, "the request target is neither a path nor an http URI"};
  }
  const std::string_view rest = out.target.substr(colon + 3);
  const std::size_t end = rest.find_first_of("/?");
  out.authority = rest.substr(0, end);
  if (!http::is_authority(out.authority)) return {400, "the authority of the request target is malformed"};
  out.absolute_form = true;
  split_path(end == std::string_view::npos ? std::string_view() : rest.substr(end), out);
  if (out.path.empty()) {  // RFC 9112 section 3.2.4: OPTIONS on a whole server becomes `*`
    out.path = out.method == HttpMethod::Options && end == std::string_view::npos ? "*" : "/";
  }
  return {};
}

Fault read_target(RequestHead& out) {
  if (!std::all_of(out.target.begin(), out.target.end(),
                   [](char c) { return http::has_class(c, http::kTargetChar); })) {
    return {400, "the request target holds a forbidden character"};
  }
  out.absolute_form = false;
  out.query = {};
  out.authority = {};
  if (out.method == HttpMethod::Connect) {
    if (!http::is_authority(out.target)) return {400, "the target of CONNECT is malformed"};
    out.authority = out.target;
    out.path = {};
    return {};
  }
  if (out.target.front() == '/') {
    split_path(out.target, out);
    return {};
  }
  if (out.target == "*") {
    out.path = out.target;
    if (out.method != HttpMethod::Options) return {400, "the target * is for OPTIONS only"};
    return {};
  }
  return read_absolute_target(out);
}

Fault read_request_line(std::string_view line, std::uint8_t& minor, RequestHead& out) {
  const Fault malformed{400, "the request line is malformed"};
  const std::size_t first = line.find(' ');
  if (first == std::string_view::npos) return malformed;
  const std::size_t second = line.find(' ', first + 1);
  if (second == std::string_view::npos || second == first + 1) return malformed;
  out.method_text = line.substr(0, first);
  out.target = line.substr(first + 1, second - first - 1);
  const MethodName* const known = find_method(out.method_text);
  if (known == nullptr && !http::is_token(out.method_text)) return {400, "the method is malformed"};
  if (const Fault fault = read_version(line.substr(second + 1), minor)) return fault;
  if (known == nullptr) return {501, "the method is not known"};
  out.method = known->method;
  return read_target(out);
}

Fault read_request_framing(const FieldFacts& facts, RequestHead& out) {
  out.framing = BodyFraming::None;
  out.content_length = 0;
  if (facts.transfer_encodings > 0) {
    if (facts.content_lengths > 0) return {400, "both Content-Length and Transfer-Encoding"};
    if (out.minor_version == 0) return {400, "Transfer-Encoding in an HTTP/1.0 request"};
    switch (http::read_transfer_encoding(out.fields)) {
      case TransferCoding::Chunked:
        break;
      case TransferCoding::Identity:
      case TransferCoding::Unknown:
        return {501, "the transfer coding is not known"};
      case TransferCoding::Malformed:
        return {400, "Transfer-Encoding is malformed"};
    }
    out.framing = BodyFraming::Chunked;
  } else if (facts.content_lengths > 0) {
    out.framing = BodyFraming::Length;
    out.content_length = facts.content_length;
  }
  return {};
}

Fault read_host(const FieldFacts& facts, RequestHead& out) {
  if (facts.hosts > 1) return {400, "more than one Host"};
  if (facts.hosts == 0) {
    if (out.minor_version >= 1) return {400, "Host is missing"};
    return {};
  }
  if (!http::is_authority(facts.host)) return {400, "Host is malformed"};
  if (!out.absolute_form && out.method != HttpMethod::Connect) out.authority = facts.host;
  return {};
}

void read_expect(RequestHead& out) {
  if (out.minor_version == 0) return;  // RFC 9110 section 10.1.1: ignored
  for (const HeaderField& field : out.fields.all()) {
    if (field.id != HeaderId::Expect) continue;
    if (equals_ignoring_case(field.value, "100-continue")) {
      out.expect_continue = true;
    } else {
      out.expect_unknown = true;
    }
  }
}

// `head` runs from the first line to the empty line, inclusive.
Fault read_request(std::string_view head, std::uint8_t& minor, FieldFacts& facts, RequestHead& out) {
  const std::size_t line = head.find('\r');
  if (const Fault fault = read_request_line(head.substr(0, line), minor, out)) return fault;
  out.minor_version = minor > 1 ? std::uint8_t{1} : minor;
  out.fields.clear();
  const char* const end = head.data() + head.size() - kCrLf.size();
  if (const Fault fault = http::read_fields(head.data() + line + kCrLf.size(), end, out.fields, facts))
    return fault;

  ConnectionOptions connection;
  if (facts.connections > 0) {
    if (const Fault fault = http::read_connection(out.fields, connection)) return fault;
  }
  out.keep_alive = !connection.close && (out.minor_version >= 1 || connection.keep_alive);
  out.upgrade = connection.upgrade && facts.has_upgrade && out.minor_version >= 1;
  out.expect_continue = out.expect_unknown = false;
  if (facts.expects > 0) read_expect(out);
  if (const Fault fault = read_host(facts, out)) return fault;
  return read_request_framing(facts, out);
}

// ---- the status line and response framing ----

bool read_status_line(std::string_view line, std::uint8_t& minor, ResponseHead& out) {
  if (line.size() < 12 || line[8] != ' ' || read_version(line.substr(0, 8), minor)) return false;
  unsigned status = 0;
  for (const char c : line.substr(9, 3)) {
    if (c < '0' || c > '9') return false;
    status = status * 10 + static_cast<unsigned>(c - '0');
  }
  if (status < 100 || (line.size() > 12 && line[12] != ' ')) return false;
  out.status = static_cast<std::uint16_t>(status);
  out.reason = line.size() > 13 ? line.substr(13) : std::string_view();
  return true;
}

Fault read_response_framing(const FieldFacts& facts, HttpMethod request_method, ResponseHead& out) {
  out.has_content_length = facts.content_lengths > 0;
  out.content_length = facts.content_length;
  out.ambiguous = false;
  const bool interim = out.status < 200;
  const bool bodiless =
      interim || out.status == 204 || out.status == 304 || request_method == HttpMethod::Head;
  auto coding = TransferCoding::Identity;
  if (facts.transfer_encodings > 0) {
    coding = http::read_transfer_encoding(out.fields);
    if (coding == TransferCoding::Malformed) return {502, "Transfer-Encoding of the response is malformed"};
    // We never ask for one (no TE), and the coding would be lost on the way to the client.
    if (coding == TransferCoding::Unknown) return {502, "the transfer coding of the response is not known"};
    out.ambiguous = out.has_content_length || out.minor_version == 0;
  }
  if (bodiless) {
    out.framing = BodyFraming::None;
    // Neither may announce a body; who does will probably send it.
    const bool announced = facts.transfer_encodings > 0 || facts.content_length > 0;
    if ((interim || out.status == 204) && announced) out.ambiguous = true;
  } else if (coding == TransferCoding::Chunked) {
    out.framing = BodyFraming::Chunked;
  } else if (facts.transfer_encodings == 0 && out.has_content_length) {
    out.framing = BodyFraming::Length;
  } else {
    out.framing = BodyFraming::UntilClose;
  }
  if (out.framing == BodyFraming::UntilClose || out.ambiguous) out.keep_alive = false;
  return {};
}

Fault read_response(std::string_view head, HttpMethod request_method, std::uint8_t& minor, FieldFacts& facts,
                    ResponseHead& out) {
  const std::size_t line = head.find('\r');
  if (!read_status_line(head.substr(0, line), minor, out)) return {502, "the status line is malformed"};
  out.minor_version = minor > 1 ? std::uint8_t{1} : minor;
  out.fields.clear();
  const char* const end = head.data() + head.size() - kCrLf.size();
  if (const Fault fault = http::read_fields(head.data() + line + kCrLf.size(), end, out.fields, facts))
    return fault;
  ConnectionOptions connection;
  if (facts.connections > 0) {
    if (const Fault fault = http::read_connection(out.fields, connection)) return fault;
  }
  out.keep_alive = !connection.close && (out.minor_version >= 1 || connection.keep_alive);
  return read_response_framing(facts, request_method, out);
}

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
  bool run(llhttp_type_t type, std::string_view head, std::uint8_t minor) {
    llhttp_init(&parser, type, &settings);
    fields = 0;
    parser.data = &fields;
    if (minor > 1) parser.lenient_flags |= LENIENT_VERSION;
    if (type == HTTP_RESPONSE) {  // both lengths are legal there, chunked wins; our framing decides
      llhttp_set_lenient_chunked_length(&parser, 1);
      llhttp_set_lenient_transfer_encoding(&parser, 1);
    }
    return llhttp_execute(&parser, head.data(), head.size()) == HPE_PAUSED;
  }

  bool agrees(const FieldFacts& facts, const HeaderFields& ours, std::uint8_t minor) const {
    return fields == ours.size() && parser.http_major == 1 && parser.http_minor == minor &&
           (facts.content_lengths == 0 || parser.content_length == facts.content_length);
  }

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
  const Scan scan = find_head_end(window, std::min(first, window.size()), scanned);
  if (scan.end > first && target_too_long(window.substr(first, scan.end - first), limits.max_target_bytes)) {
    return refuse({414, "the request target is too long"});
  }
  if (scan.status == ParseStatus::Bad) return refuse({400, scan.reason});
  if (scan.status == ParseStatus::NeedMore) {
    if (bytes.size() >= limits.max_head_bytes) return refuse({431, "the request head is too large"});
    return {};
  }
  const std::string_view head = window.substr(first, scan.end - first);
  std::uint8_t minor = 1;
  FieldFacts facts;
  if (const Fault fault = read_request(head, minor, facts, out)) return refuse(fault);
  if (!impl_->run(HTTP_REQUEST, head, minor) || !impl_->agrees(facts, out.fields, minor) ||
      out.method_text != llhttp_method_name(static_cast<llhttp_method_t>(impl_->parser.method)) ||
      ((impl_->parser.flags & F_CHUNKED) != 0) != (out.framing == BodyFraming::Chunked)) {
    return refuse({400, "the request head is malformed"});
  }
  return {ParseStatus::Complete, scan.end, 0, {}};
}

ParseResult HeadParser::parse_response(std::string_view bytes, std::size_t& scanned, const HeadLimits& limits,
                                       HttpMethod request_method, ResponseHead& out) {
  const std::string_view window = bytes.substr(0, limits.max_head_bytes);
  const Scan scan = find_head_end(window, 0, scanned);
  if (scan.status == ParseStatus::Bad) return refuse({502, scan.reason});
  if (scan.status == ParseStatus::NeedMore) {
    if (bytes.size() >= limits.max_head_bytes) return refuse({502, "the response head is too large"});
    return {};
  }
  const std::string_view head = window.substr(0, scan.end);
  std::uint8_t minor = 1;
  FieldFacts facts;
  if (const Fault fault = read_response(head, request_method, minor, facts, out)) {
    return refuse({502, fault.reason});
  }
  if (!impl_->run(HTTP_RESPONSE, head, minor) || !impl_->agrees(facts, out.fields, minor) ||
      impl_->parser.status_code != out.status) {
    return refuse({502, "the response head is malformed"});
  }
  return {ParseStatus::Complete, scan.end, 0, {}};
}

}  // namespace dlb
