#include "common/http_head.h"

#include <llhttp.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "common/http_syntax.h"

namespace dlb::http {
namespace {

// ---- the request line ----

struct KnownMethod {
  std::string_view name;
  HttpMethod method;
  llhttp_method_t llhttp;
};

// What both HTTP and every llhttp version know. Those with Other are passed on as they are.
constexpr std::array<KnownMethod, 34> kMethods = {{
    {"GET", HttpMethod::Get, HTTP_GET},
    {"POST", HttpMethod::Post, HTTP_POST},
    {"HEAD", HttpMethod::Head, HTTP_HEAD},
    {"PUT", HttpMethod::Put, HTTP_PUT},
    {"DELETE", HttpMethod::Delete, HTTP_DELETE},
    {"OPTIONS", HttpMethod::Options, HTTP_OPTIONS},
    {"PATCH", HttpMethod::Patch, HTTP_PATCH},
    {"CONNECT", HttpMethod::Connect, HTTP_CONNECT},
    {"TRACE", HttpMethod::Trace, HTTP_TRACE},
    {"COPY", HttpMethod::Other, HTTP_COPY},
    {"LOCK", HttpMethod::Other, HTTP_LOCK},
    {"MKCOL", HttpMethod::Other, HTTP_MKCOL},
    {"MOVE", HttpMethod::Other, HTTP_MOVE},
    {"PROPFIND", HttpMethod::Other, HTTP_PROPFIND},
    {"PROPPATCH", HttpMethod::Other, HTTP_PROPPATCH},
    {"SEARCH", HttpMethod::Other, HTTP_SEARCH},
    {"UNLOCK", HttpMethod::Other, HTTP_UNLOCK},
    {"BIND", HttpMethod::Other, HTTP_BIND},
    {"REBIND", HttpMethod::Other, HTTP_REBIND},
    {"UNBIND", HttpMethod::Other, HTTP_UNBIND},
    {"ACL", HttpMethod::Other, HTTP_ACL},
    {"REPORT", HttpMethod::Other, HTTP_REPORT},
    {"MKACTIVITY", HttpMethod::Other, HTTP_MKACTIVITY},
    {"CHECKOUT", HttpMethod::Other, HTTP_CHECKOUT},
    {"MERGE", HttpMethod::Other, HTTP_MERGE},
    {"M-SEARCH", HttpMethod::Other, HTTP_MSEARCH},
    {"NOTIFY", HttpMethod::Other, HTTP_NOTIFY},
    {"SUBSCRIBE", HttpMethod::Other, HTTP_SUBSCRIBE},
    {"UNSUBSCRIBE", HttpMethod::Other, HTTP_UNSUBSCRIBE},
    {"PURGE", HttpMethod::Other, HTTP_PURGE},
    {"MKCALENDAR", HttpMethod::Other, HTTP_MKCALENDAR},
    {"LINK", HttpMethod::Other, HTTP_LINK},
    {"UNLINK", HttpMethod::Other, HTTP_UNLINK},
    {"SOURCE", HttpMethod::Other, HTTP_SOURCE},
}};

const KnownMethod* find_method(std::string_view text) {
  for (const KnownMethod& known : kMethods) {
    if (known.name.size() == text.size() && std::memcmp(known.name.data(), text.data(), text.size()) == 0)
      return &known;
  }
  return nullptr;
}

// `HTTP/1.x`: x in `minor`. A major version other than 1 is 505, anything else that differs 400.
Fault read_version(std::string_view text, std::uint8_t& minor) {
  const auto digit = [&](std::size_t at) { return text[at] >= '0' && text[at] <= '9'; };
  if (text.size() != 8 || std::memcmp(text.data(), "HTTP/", 5) != 0 || !digit(5) || text[6] != '.' ||
      !digit(7)) {
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
  if (!is_authority(out.authority)) return {400, "the authority of the request target is malformed"};
  out.absolute_form = true;
  split_path(end == std::string_view::npos ? std::string_view() : rest.substr(end), out);
  if (out.path.empty()) {  // RFC 9112 section 3.2.4: OPTIONS on a whole server becomes `*`
    out.path = out.method == HttpMethod::Options && end == std::string_view::npos ? "*" : "/";
  }
  return {};
}

bool is_target(std::string_view text) {
  for (const char c : text) {
    if (!has_class(c, kTargetChar)) return false;
  }
  return true;
}

Fault read_target(RequestHead& out) {
  out.absolute_form = false;
  out.query = {};
  out.authority = {};
  if (out.method == HttpMethod::Connect) {
    if (!is_authority(out.target)) return {400, "the target of CONNECT is malformed"};
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

Fault read_request_line(std::string_view line, HeadFacts& facts, RequestHead& out) {
  constexpr std::size_t kVersionBytes = 8;
  const Fault malformed{400, "the request line is malformed"};
  std::size_t space = 0;
  while (space < line.size() && line[space] != ' ') ++space;
  if (line.size() < space + 3 + kVersionBytes) return malformed;  // a space and a target of one byte at least
  const std::size_t version = line.size() - kVersionBytes;
  if (line[version - 1] != ' ') return malformed;
  out.method_text = line.substr(0, space);
  out.target = line.substr(space + 1, version - space - 2);
  const KnownMethod* const known = find_method(out.method_text);
  if (known == nullptr && !is_token(out.method_text)) return {400, "the method is malformed"};
  if (const Fault fault = read_version(line.substr(version), facts.minor_version)) return fault;
  // A space in the target means a malformed line, whatever the method.
  if (!is_target(out.target)) return {400, "the request target holds a forbidden character"};
  if (known == nullptr) return {501, "the method is not known"};
  out.method = known->method;
  facts.llhttp_method = known->llhttp;
  return read_target(out);
}

Fault read_request_framing(const HeadFacts& facts, RequestHead& out) {
  out.framing = BodyFraming::None;
  out.content_length = 0;
  if (facts.transfer_encodings > 0) {
    if (facts.content_lengths > 0) return {400, "both Content-Length and Transfer-Encoding"};
    if (out.minor_version == 0) return {400, "Transfer-Encoding in an HTTP/1.0 request"};
    switch (read_transfer_encoding(out.fields)) {
      case TransferCoding::Chunked:  // spelt plainly: no empty list elements beside it
        if (facts.transfer_encodings == 1 && out.fields.value(HeaderId::TransferEncoding).size() == 7) break;
        return {400, "Transfer-Encoding is malformed"};
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

Fault read_host(const HeadFacts& facts, RequestHead& out) {
  if (facts.hosts > 1) return {400, "more than one Host"};
  if (facts.hosts == 0) {
    if (out.minor_version >= 1) return {400, "Host is missing"};
    return {};
  }
  if (!is_authority(facts.host)) return {400, "Host is malformed"};
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

// ---- the status line and response framing ----

bool read_status_line(std::string_view line, HeadFacts& facts, ResponseHead& out) {
  if (line.size() < 12 || line[8] != ' ' || read_version(line.substr(0, 8), facts.minor_version))
    return false;
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

Fault read_response_framing(const HeadFacts& facts, HttpMethod request_method, ResponseHead& out) {
  out.has_content_length = facts.content_lengths > 0;
  out.content_length = facts.content_length;
  out.ambiguous = false;
  const bool interim = out.status < 200;
  const bool bodiless =
      interim || out.status == 204 || out.status == 304 || request_method == HttpMethod::Head;
  auto coding = TransferCoding::Identity;
  if (facts.transfer_encodings > 0) {
    coding = read_transfer_encoding(out.fields);
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

}  // namespace

Fault read_request(std::string_view bytes, std::size_t first, const LineEnds& lines, HeadFacts& facts,
                   RequestHead& out) {
  const std::string_view line = bytes.substr(first, lines.at[0] - first);
  if (const Fault fault = read_request_line(line, facts, out)) return fault;
  out.minor_version = std::min<std::uint8_t>(facts.minor_version, 1);
  out.fields.clear();
  if (const Fault fault = read_fields(bytes, lines, out.fields, facts)) return fault;

  ConnectionOptions connection{facts.connection_close, facts.connection_keep_alive, false};
  if (facts.connections > 0) {
    if (const Fault fault = read_connection(out.fields, connection)) return fault;
  }
  out.keep_alive = !connection.close && (out.minor_version >= 1 || connection.keep_alive);
  out.upgrade = connection.upgrade && facts.has_upgrade && out.minor_version >= 1;
  out.expect_continue = out.expect_unknown = false;
  if (facts.expects > 0) read_expect(out);
  if (const Fault fault = read_host(facts, out)) return fault;
  return read_request_framing(facts, out);
}

Fault read_response(std::string_view bytes, const LineEnds& lines, HttpMethod request_method,
                    HeadFacts& facts, ResponseHead& out) {
  if (lines.count == 0 || !read_status_line(bytes.substr(0, lines.at[0]), facts, out)) {
    return {502, "the status line is malformed"};
  }
  out.minor_version = std::min<std::uint8_t>(facts.minor_version, 1);
  out.fields.clear();
  if (const Fault fault = read_fields(bytes, lines, out.fields, facts)) return fault;
  ConnectionOptions connection{facts.connection_close, facts.connection_keep_alive, false};
  if (facts.connections > 0) {
    if (const Fault fault = read_connection(out.fields, connection)) return fault;
  }
  out.keep_alive = !connection.close && (out.minor_version >= 1 || connection.keep_alive);
  return read_response_framing(facts, request_method, out);
}

}  // namespace dlb::http
