// Serialises the heads that leave the balancer: requests to backends, responses to clients, our own answers.
// Everything is written anew from what was parsed, so that no ambiguous byte gets through. Pure: values in,
// bytes into a buffer. Every writer answers false when the block is too small; callers size it with
// *_head_bound().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/buffer.h"
#include "common/http_message.h"

namespace dlb::lb {

// What the balancer knows of the client, for the X-Forwarded-* fields.
struct ForwardContext {
  std::string_view client_host;  // address without port
  std::string_view proto;        // "http" or "https"
  std::string_view request_id;   // used when the client sent none, or none that is sane
  bool trusted_peer = false;     // keep and extend what the peer says; else replace it
  bool forward_expect = false;   // the backend shall see Expect: 100-continue
  std::string_view upgrade{};    // protocols to offer; empty: none
};

std::size_t request_head_bound(const RequestHead& head);
bool write_request_head(const RequestHead& head, const ForwardContext& context, Buffer& out);

struct ResponseContext {
  std::string_view backend_id;
  float score = 0;
  bool fallback = false;
  bool keep_alive = true;  // what the client is told
  bool http10_client = false;
  bool head_request = false;
  BodyFraming sink = BodyFraming::None;  // how the body goes to the client; with Length: head.content_length
  bool upgraded = false;                 // a 101 that was asked for: its Upgrade goes to the client
};

std::size_t response_head_bound(const ResponseHead& head, std::string_view backend_id);
bool write_response_head(const ResponseHead& head, const ResponseContext& context, Buffer& out);

// An interim response (1xx other than 101) as it is passed on: status line and end-to-end fields.
bool write_interim_head(const ResponseHead& head, Buffer& out);

// A head of our own answer with a body of `content_length` bytes.
struct OwnHead {
  int status = 200;
  std::string_view content_type = "application/json";
  std::uint64_t content_length = 0;
  bool keep_alive = true;
  bool http10_client = false;
  std::string_view extra{};  // whole header lines with CRLF: `Retry-After: 1\r\n`
};
bool write_own_head(const OwnHead& head, Buffer& out);

// 1 to 128 visible ASCII characters without quotes, commas and backslashes: fit for logs and for backends.
bool sane_request_id(std::string_view id);

// A score with one decimal, `12.3`; returns its length in `out` (at most 16).
std::size_t format_score(float score, std::array<char, 16>& out);

}  // namespace dlb::lb
