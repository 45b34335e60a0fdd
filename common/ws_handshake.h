// The server's side of the opening handshake (RFC 6455 section 4.2) as a pure decision: a request head in, a
// status and its reason out, and the text of the 101. Which paths speak WebSocket, and whether there is room,
// is its caller's business.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/http_message.h"

namespace dlb {

struct WsHandshake {
  int status = 101;           // 101, or what to answer: 400, 403, 405, 426
  std::string_view code{};    // of an answer: its `error`
  std::string_view detail{};  // a sentence, with static lifetime
  std::string_view key{};     // 101: the client's key, in the head
  std::string_view origin{};  // 101: in the head; empty when there is none
};

// Whether the head asks to switch to WebSocket at all, well or badly.
bool asks_for_websocket(const RequestHead& head);

// Judges a request for a WebSocket path. `origins`: where browsers may come from, compared exactly; empty:
// from anywhere. A client that names no origin is none and always may. An answer of 426 wants `Upgrade:
// websocket` and `Sec-WebSocket-Version: 13` beside it, one of 405 its `Allow`.
WsHandshake judge_ws_handshake(const RequestHead& head, std::span<const std::string> origins);

// Sec-WebSocket-Accept for a key.
std::string ws_accept_value(std::string_view key);

// The whole 101. `fixed_lines`: further lines, each with its CRLF. No extension and no subprotocol is agreed
// to.
std::string ws_switching_response(std::string_view key, std::string_view fixed_lines);

// The items of `ws-origins`: at the commas, without blanks around them; empty ones are left out.
std::vector<std::string> split_origins(std::string_view list);

}  // namespace dlb
