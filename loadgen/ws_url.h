// WsUrl: where a WebSocket is, as given on the command line, taken apart. Nothing is looked up here. Pure.
#pragma once

#include <string>
#include <string_view>

#include "common/result.h"

namespace dlb::loadgen {

struct WsUrl {
  std::string url;        // as given
  bool tls = true;        // wss://
  std::string host;       // the name or address alone: what the certificate must be for
  std::string place;      // host:port, for Address::parse
  std::string authority;  // the Host field's value
  std::string target;     // path and query: `/ws` when the url has none
};

// `wss://HOST[:PORT][/PATH]` or `ws://…`; without a port 443 or 80. No user info, no fragment.
Result<WsUrl> parse_ws_url(std::string_view url);

}  // namespace dlb::loadgen
