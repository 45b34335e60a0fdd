#include "common/http_message.h"

#include "common/http_syntax.h"

namespace dlb {
using http::same_letters;

HeaderId header_id(std::string_view name) {
  const char* p = name.data();
  switch (name.size()) {
    case 2:
      if (same_letters(p, "te")) return HeaderId::Te;
      break;
    case 4:
      if (same_letters(p, "host")) return HeaderId::Host;
      if (same_letters(p, "date")) return HeaderId::Date;
      break;
    case 6:
      if (same_letters(p, "accept")) return HeaderId::Accept;
      if (same_letters(p, "cookie")) return HeaderId::Cookie;
      if (same_letters(p, "expect")) return HeaderId::Expect;
      if (same_letters(p, "origin")) return HeaderId::Origin;
      if (same_letters(p, "server")) return HeaderId::Server;
      break;
    case 7:
      if (same_letters(p, "upgrade")) return HeaderId::Upgrade;
      if (same_letters(p, "trailer")) return HeaderId::Trailer;
      break;
    case 9:
      if (same_letters(p, "forwarded")) return HeaderId::Forwarded;
      break;
    case 10:
      if (same_letters(p, "connection")) return HeaderId::Connection;
      if (same_letters(p, "keep-alive")) return HeaderId::KeepAlive;
      break;
    case 11:
      if (same_letters(p, "retry-after")) return HeaderId::RetryAfter;
      break;
    case 12:
      if (same_letters(p, "content-type")) return HeaderId::ContentType;
      if (same_letters(p, "x-request-id")) return HeaderId::XRequestId;
      break;
    case 13:
      if (same_letters(p, "authorization")) return HeaderId::Authorization;
      if (same_letters(p, "if-none-match")) return HeaderId::IfNoneMatch;
      break;
    case 14:
      if (same_letters(p, "content-length")) return HeaderId::ContentLength;
      break;
    case 15:
      if (same_letters(p, "accept-encoding")) return HeaderId::AcceptEncoding;
      if (same_letters(p, "idempotency-key")) return HeaderId::IdempotencyKey;
      if (same_letters(p, "x-forwarded-for")) return HeaderId::XForwardedFor;
      break;
    case 16:
      if (same_letters(p, "proxy-connection")) return HeaderId::ProxyConnection;
      if (same_letters(p, "x-forwarded-host")) return HeaderId::XForwardedHost;
      break;
    case 17:
      if (same_letters(p, "transfer-encoding")) return HeaderId::TransferEncoding;
      if (same_letters(p, "x-forwarded-proto")) return HeaderId::XForwardedProto;
      if (same_letters(p, "sec-websocket-key")) return HeaderId::SecWebSocketKey;
      break;
    case 21:
      if (same_letters(p, "x-load-balancer-score")) return HeaderId::LoadBalancerScore;
      if (same_letters(p, "sec-websocket-version")) return HeaderId::SecWebSocketVersion;
      break;
    case 23:
      if (same_letters(p, "x-load-balancer-backend")) return HeaderId::LoadBalancerBackend;
      break;
    case 24:
      if (same_letters(p, "x-load-balancer-fallback")) return HeaderId::LoadBalancerFallback;
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
