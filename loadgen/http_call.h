// http_call(): one HTTP exchange on a connection of its own, from request to whole answer, for checks that go
// step by step. Drives the loop itself until the answer is there or the time is over; nothing is retried.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "common/event_loop.h"
#include "common/http_message.h"
#include "common/result.h"
#include "common/tls_context.h"
#include "loadgen/target.h"

namespace dlb::loadgen {

struct HttpCall {
  HttpMethod method = HttpMethod::Get;
  std::string path;     // behind the target's base path: `/feed?limit=1`
  std::string headers;  // further ones, each with its CRLF
  std::string body;     // of a POST: JSON
  // When set it gets the body in pieces, of any length; else the answer holds it.
  std::function<void(std::string_view)> on_body{};
};

struct HttpAnswer {
  int status = 0;
  std::string body;
  std::string etag;
  std::string encoding;  // Content-Encoding
  std::string backend;   // X-Load-Balancer-Backend, else X-Backend
};

// A body over it is an error.
inline constexpr std::size_t kMaxHttpAnswerBytes = 4 * 1024 * 1024;

// The error says why there is no whole answer; its code is the errno of a connect that failed, else 0. The
// time is that without a byte when the body goes in pieces, else of the whole exchange.
// `tls` is for https targets, and may be null without.
Result<HttpAnswer> http_call(EventLoop& loop, const Target& target, const HttpCall& call, Duration timeout,
                             const bool& stop, const TlsContext* tls);

}  // namespace dlb::loadgen
