#include "common/http_message.h"

#include <bit>
#include <cstring>

#include "common/http_syntax.h"

namespace dlb {
namespace {

// Compares `name`, known to be N - 1 long, with a lower-case literal of letters and `-`. The length is a
// constant, so this becomes a few wide compares: a letter's case bit is masked out of the difference, a `-`
// must match exactly.
template <std::size_t N>
bool same(const char* name, const char (&literal)[N]) {
  constexpr std::size_t kLength = N - 1;
  const auto differs = [&]<class Word>(std::size_t at, Word) {
    Word got = 0;
    Word wanted = 0;
    std::memcpy(&got, name + at, sizeof got);
    std::memcpy(&wanted, literal + at, sizeof wanted);
    // Letters have 0x40 set, `-` (0x2d) has not: move that bit down to the case bit.
    const Word case_bits = static_cast<Word>((wanted >> 1) & static_cast<Word>(0x2020202020202020ULL));
    return static_cast<Word>((got ^ wanted) & static_cast<Word>(~case_bits)) != 0;
  };
  if constexpr (kLength >= 8) {
    for (std::size_t at = 0; at + 8 <= kLength; at += 8) {
      if (differs(at, std::uint64_t{})) return false;
    }
    return kLength % 8 == 0 || !differs(kLength - 8, std::uint64_t{});
  } else if constexpr (kLength >= 4) {
    return !differs(0, std::uint32_t{}) && !differs(kLength - 4, std::uint32_t{});
  } else {
    static_assert(kLength == 2);
    return !differs(0, std::uint16_t{});
  }
}

}  // namespace

HeaderId header_id(std::string_view name) {
  const char* p = name.data();
  switch (name.size()) {
    case 2:
      if (same(p, "te")) return HeaderId::Te;
      break;
    case 4:
      if (same(p, "host")) return HeaderId::Host;
      if (same(p, "date")) return HeaderId::Date;
      break;
    case 6:
      if (same(p, "accept")) return HeaderId::Accept;
      if (same(p, "cookie")) return HeaderId::Cookie;
      if (same(p, "expect")) return HeaderId::Expect;
      if (same(p, "origin")) return HeaderId::Origin;
      if (same(p, "server")) return HeaderId::Server;
      break;
    case 7:
      if (same(p, "upgrade")) return HeaderId::Upgrade;
      if (same(p, "trailer")) return HeaderId::Trailer;
      break;
    case 9:
      if (same(p, "forwarded")) return HeaderId::Forwarded;
      break;
    case 10:
      if (same(p, "connection")) return HeaderId::Connection;
      if (same(p, "keep-alive")) return HeaderId::KeepAlive;
      break;
    case 11:
      if (same(p, "retry-after")) return HeaderId::RetryAfter;
      break;
    case 12:
      if (same(p, "content-type")) return HeaderId::ContentType;
      if (same(p, "x-request-id")) return HeaderId::XRequestId;
      break;
    case 13:
      if (same(p, "authorization")) return HeaderId::Authorization;
      if (same(p, "if-none-match")) return HeaderId::IfNoneMatch;
      break;
    case 14:
      if (same(p, "content-length")) return HeaderId::ContentLength;
      break;
    case 15:
      if (same(p, "accept-encoding")) return HeaderId::AcceptEncoding;
      if (same(p, "idempotency-key")) return HeaderId::IdempotencyKey;
      if (same(p, "x-forwarded-for")) return HeaderId::XForwardedFor;
      break;
    case 16:
      if (same(p, "proxy-connection")) return HeaderId::ProxyConnection;
      if (same(p, "x-forwarded-host")) return HeaderId::XForwardedHost;
      break;
    case 17:
      if (same(p, "transfer-encoding")) return HeaderId::TransferEncoding;
      if (same(p, "x-forwarded-proto")) return HeaderId::XForwardedProto;
      if (same(p, "sec-websocket-key")) return HeaderId::SecWebSocketKey;
      break;
    case 21:
      if (same(p, "x-load-balancer-score")) return HeaderId::LoadBalancerScore;
      if (same(p, "sec-websocket-version")) return HeaderId::SecWebSocketVersion;
      break;
    case 23:
      if (same(p, "x-load-balancer-backend")) return HeaderId::LoadBalancerBackend;
      break;
    case 24:
      if (same(p, "x-load-balancer-fallback")) return HeaderId::LoadBalancerFallback;
      break;
    default:
      break;
  }
  return HeaderId::Other;
}

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (http::lower(a[i]) != http::lower(b[i])) return false;
  }
  return true;
}

const HeaderField* HeaderFields::find(HeaderId id) const {
  for (const HeaderField& field : all()) {
    if (field.id == id) return &field;
  }
  return nullptr;
}

const HeaderField* HeaderFields::find(std::string_view name) const {
  for (const HeaderField& field : all()) {
    if (equals_ignoring_case(field.name, name)) return &field;
  }
  return nullptr;
}

std::string_view HeaderFields::value(HeaderId id) const {
  const HeaderField* field = find(id);
  return field == nullptr ? std::string_view() : field->value;
}

std::string_view reason_phrase(int status) {
  switch (status) {
    case 100:
      return "Continue";
    case 101:
      return "Switching Protocols";
    case 102:
      return "Processing";
    case 103:
      return "Early Hints";
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 203:
      return "Non-Authoritative Information";
    case 204:
      return "No Content";
    case 205:
      return "Reset Content";
    case 206:
      return "Partial Content";
    case 300:
      return "Multiple Choices";
    case 301:
      return "Moved Permanently";
    case 302:
      return "Found";
    case 303:
      return "See Other";
    case 304:
      return "Not Modified";
    case 307:
      return "Temporary Redirect";
    case 308:
      return "Permanent Redirect";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 402:
      return "Payment Required";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 406:
      return "Not Acceptable";
    case 407:
      return "Proxy Authentication Required";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 410:
      return "Gone";
    case 411:
      return "Length Required";
    case 412:
      return "Precondition Failed";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 416:
      return "Range Not Satisfiable";
    case 417:
      return "Expectation Failed";
    case 421:
      return "Misdirected Request";
    case 422:
      return "Unprocessable Content";
    case 425:
      return "Too Early";
    case 426:
      return "Upgrade Required";
    case 428:
      return "Precondition Required";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 499:
      return "Client Closed Request";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    case 507:
      return "Insufficient Storage";
    default:
      return "Unknown";
  }
}

}  // namespace dlb
