// What must hold for every input of the WebSocket decoder, for the fuzz harness, the corpus replay and the
// unit tests: no crash on buffers of exact size, the same messages and the same verdict however the bytes are
// cut, no more left undecoded than promised, and messages that come out again after being written by the
// other side. A breach aborts.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/check.h"
#include "common/ws_frame.h"

namespace dlb::fuzz {

struct WsSetting {
  WsDecoder::Side side = WsDecoder::Side::Server;
  std::uint64_t max_message_bytes = 1 << 20;
  bool accept_binary = true;
};

// What a decoder said of a stream, as text: a line per whole message, control frame and failure.
struct WsStory {
  std::vector<std::string> lines;
  std::vector<std::string> texts;  // payloads of text messages
  bool failed = false;
};

// Feeds `input` in steps of `step` bytes, each time what is left and the new ones in a block of their own.
inline WsStory ws_story(std::string_view input, std::size_t step, const WsSetting& setting) {
  WsStory story;
  WsDecoder decoder(setting.side, setting.max_message_bytes, setting.accept_binary);
  std::string rest;
  std::string message;
  bool open = false;
  while (true) {
    const std::string_view fresh = input.substr(0, step);
    input.remove_prefix(fresh.size());
    const std::size_t size = rest.size() + fresh.size();
    const auto block = std::make_unique<char[]>(size);
    rest.copy(block.get(), rest.size());
    fresh.copy(block.get() + rest.size(), fresh.size());
    std::span<char> bytes(block.get(), size);
    while (true) {
      const WsPart part = decoder.next(bytes);
      DLB_CHECK(part.consumed <= bytes.size());
      bytes = bytes.subspan(part.consumed);
      const std::string payload(part.payload);
      if (part.kind == WsPart::Kind::NeedMore) {
        DLB_CHECK(part.consumed == 0 && bytes.size() < kWsMaxUndecoded);
        break;
      }
      switch (part.kind) {
        case WsPart::Kind::Data:
          DLB_CHECK(part.first == !open);
          DLB_CHECK(decoder.in_message() == !part.last);
          open = !part.last;
          message += payload;
          DLB_CHECK(message.size() <= setting.max_message_bytes);
          if (part.last) {
            if (!part.binary) story.texts.push_back(message);
            story.lines.push_back((part.binary ? "binary " : "text ") + message);
            message.clear();
          }
          break;
        case WsPart::Kind::Ping:
          story.lines.push_back("ping " + payload);
          break;
        case WsPart::Kind::Pong:
          story.lines.push_back("pong " + payload);
          break;
        case WsPart::Kind::Close:
          DLB_CHECK(part.code == ws_close::kNone || ws_close_code_valid(part.code));
          story.lines.push_back("close " + std::to_string(part.code) + " " + payload);
          return story;
        default:
          DLB_CHECK(ws_close_code_valid(part.code) && !part.reason.empty());
          story.lines.push_back("fail " + std::to_string(part.code) + " " + std::string(part.reason));
          story.failed = true;
          return story;
      }
    }
    rest.assign(bytes.data(), bytes.size());
    if (input.empty()) return story;
  }
}

// The setting is in the first byte, the stream behind it.
inline void check_ws_frames(std::string_view input) {
  if (input.empty()) return;
  const auto first = static_cast<unsigned char>(input[0]);
  WsSetting setting;
  setting.side = (first & 1) != 0 ? WsDecoder::Side::Client : WsDecoder::Side::Server;
  setting.accept_binary = (first & 2) != 0;
  setting.max_message_bytes = (first & 4) != 0 ? 130 : 1 << 20;
  input.remove_prefix(1);
  const WsStory whole = ws_story(input, input.size() + 1, setting);
  for (const std::size_t step : {std::size_t{1}, std::size_t{2}, std::size_t{7}}) {
    DLB_CHECK(ws_story(input, step, setting).lines == whole.lines);
  }
  for (const std::string& text : whole.texts) {
    DLB_CHECK(is_valid_utf8(text));
    WsSetting other = setting;
    std::string wire;
    if (setting.side == WsDecoder::Side::Client) {
      other.side = WsDecoder::Side::Server;
      append_masked_ws_frame(wire, WsOpcode::Text, text, 0x80FF0142U + first);
    } else {
      other.side = WsDecoder::Side::Client;
      append_ws_frame(wire, WsOpcode::Text, text);
    }
    const WsStory again = ws_story(wire, 3, other);
    DLB_CHECK(again.texts.size() == 1 && again.texts[0] == text);
  }
}

}  // namespace dlb::fuzz
