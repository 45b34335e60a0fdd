// HTTP/1.x message heads as values: what a parser found, in views into the buffer that held the head. The views live
// as long as those bytes stay where they are. Framing follows RFC 9112 section 6.3; the caller never guesses it again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace dlb {

enum class HttpMethod : std::uint8_t { Get, Head, Post, Put, Delete, Options, Patch, Connect, Trace, Other };

// The fields that the programs treat in some way of their own.
enum class HeaderId : std::uint8_t {
  Other,
  Accept,
  AcceptEncoding,
  Authorization,
  Connection,
  ContentLength,
  ContentType,
  Cookie,
  Date,
  Expect,
  Forwarded,
  Host,
  IdempotencyKey,
  IfNoneMatch,
  KeepAlive,
  LoadBalancerBackend,   // X-Load-Balancer-Backend
  LoadBalancerFallback,  // X-Load-Balancer-Fallback
  LoadBalancerScore,     // X-Load-Balancer-Score
  Origin,
  ProxyConnection,
  RetryAfter,
  SecWebSocketKey,
  SecWebSocketVersion,
  Server,
  Te,
  Trailer,
  TransferEncoding,
  Upgrade,
  XForwardedFor,
  XForwardedHost,
  XForwardedProto,
  XRequestId,
};

// Case-insensitive look-up of a field name; Other when it is none of the above.
HeaderId header_id(std::string_view name);

bool equals_ignoring_case(std::string_view a, std::string_view b);

struct HeaderField {
  std::string_view name;   // as received
  std::string_view value;  // without surrounding white space
  HeaderId id = HeaderId::Other;
  bool hop_by_hop = false;  // never to be forwarded: RFC 9110 section 7.6.1, names listed in Connection included.
                            // Connection may not name end-to-end fields that protect (Host, Content-Length,
                            // Authorization, Cookie, Forwarded, X-Forwarded-*): those stay.
};

// At most kMaxFields fields, in order of arrival; a reusable scratch object of 10 KiB, one per loop.
class HeaderFields {
 public:
  static constexpr std::size_t kMaxFields = 256;

  void clear() { count_ = 0; }
  bool add(const HeaderField& field) {
    if (count_ == kMaxFields) return false;
    fields_[count_++] = field;
    return true;
  }
  std::span<const HeaderField> all() const { return {fields_.data(), count_}; }
  std::span<HeaderField> all() { return {fields_.data(), count_}; }
  std::size_t size() const { return count_; }
  const HeaderField* find(HeaderId id) const;                // the first one, or null
  const HeaderField* find(std::string_view name) const;      // the first one, or null
  std::string_view value(HeaderId id) const;                 // empty when absent

 private:
  std::array<HeaderField, kMaxFields> fields_;
  std::size_t count_ = 0;
};

enum class BodyFraming : std::uint8_t {
  None,        // no body at all
  Length,      // exactly content_length bytes (0 allowed)
  Chunked,     // chunked transfer coding
  UntilClose,  // responses only: to the end of the connection
};

struct RequestHead {
  HttpMethod method = HttpMethod::Get;
  std::string_view method_text;
  std::string_view target;     // as received: origin-form, absolute-form, authority-form (CONNECT) or `*`
  std::string_view path;       // up to `?`; of an absolute-form target its path (`/` when it has none)
  std::string_view query;      // behind `?`, without it
  std::string_view authority;  // of an absolute-form target, else the Host field's value; may be empty in HTTP/1.0
  bool absolute_form = false;
  std::uint8_t minor_version = 1;
  BodyFraming framing = BodyFraming::None;
  std::uint64_t content_length = 0;  // with Length
  bool keep_alive = true;            // the client wants the connection kept (version and Connection field)
  bool expect_continue = false;
  bool expect_unknown = false;       // an Expect that isn't 100-continue: 417
  bool upgrade = false;              // Connection: upgrade with an Upgrade field (HTTP/1.1 only)
  HeaderFields fields;
};

struct ResponseHead {
  std::uint16_t status = 0;
  std::string_view reason;
  std::uint8_t minor_version = 1;
  BodyFraming framing = BodyFraming::None;
  std::uint64_t content_length = 0;  // with Length; for HEAD and 304 what the field says, with framing None
  bool has_content_length = false;
  bool keep_alive = true;     // the server will keep the connection
  bool ambiguous = false;     // both lengths were there: obeyed chunked, the connection must not be reused
  HeaderFields fields;
};

// The standard reason phrase, "Unknown" for codes without one.
std::string_view reason_phrase(int status);

}  // namespace dlb
