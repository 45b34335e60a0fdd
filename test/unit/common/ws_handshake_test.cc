// The opening handshake as heads: who gets a 101, and what the others are told.
#include "common/ws_handshake.h"

#include "common/http_parser.h"
#include "test/support/catch.h"

namespace dlb {
namespace {

constexpr std::string_view kKey = "dGhlIHNhbXBsZSBub25jZQ==";

struct Case {
  std::string request_line = "GET /ws HTTP/1.1";
  std::string upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
  std::string version = "Sec-WebSocket-Version: 13\r\n";
  std::string key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
  std::string more{};
};

WsHandshake judge(const Case& c, const std::vector<std::string>& origins = {}) {
  static std::string bytes;  // the verdict's views stay valid until the next one
  bytes = c.request_line + "\r\nHost: chat.example\r\n" + c.upgrade + c.version + c.key + c.more + "\r\n";
  HeadParser parser;
  static RequestHead head;
  std::size_t cursor = 0;
  const ParseResult parsed = parser.parse_request(bytes, cursor, HeadLimits{}, head);
  REQUIRE(parsed.status == ParseStatus::Complete);
  return judge_ws_handshake(head, origins);
}

TEST_CASE("the handshake of the RFC", "[ws]") {
  const WsHandshake result = judge({});
  CHECK(result.status == 101);
  CHECK(result.key == kKey);
  CHECK(ws_accept_value(kKey) == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
  CHECK(ws_switching_response(kKey, "X-Backend: sys2\r\n") ==
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nX-Backend: sys2\r\n\r\n");
}

TEST_CASE("tokens are read from lists, without case", "[ws]") {
  CHECK(judge({.upgrade = "Connection: keep-alive, upgrade\r\nUpgrade: WebSocket\r\n"}).status == 101);
  CHECK(judge({.upgrade = "Connection: upgrade\r\nUpgrade: h2c, websocket\r\n"}).status == 101);
  CHECK(judge({.more = "Sec-WebSocket-Extensions: permessage-deflate\r\nSec-WebSocket-Protocol: chat\r\n"})
            .status == 101);
}

TEST_CASE("what asks for no WebSocket, or another version, is told what would do", "[ws]") {
  CHECK(judge({.upgrade = ""}).status == 426);
  CHECK(judge({.upgrade = "Upgrade: websocket\r\n"}).status == 426);
  CHECK(judge({.upgrade = "Connection: Upgrade\r\nUpgrade: h2c\r\n"}).status == 426);
  CHECK(judge({.version = ""}).status == 426);
  CHECK(judge({.version = "Sec-WebSocket-Version: 8\r\n"}).status == 426);
  CHECK(judge({.version = "Sec-WebSocket-Version: 13, 8\r\n"}).status == 426);
  CHECK(judge({.version = "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Version: 13\r\n"}).status == 426);
  CHECK(judge({.request_line = "GET /ws HTTP/1.0"}).status == 426);
  CHECK(judge({.request_line = "HEAD /ws HTTP/1.1"}).status == 426);
  CHECK(judge({.request_line = "PUT /ws HTTP/1.1"}).status == 405);
}

TEST_CASE("keys are base64 of 16 bytes", "[ws]") {
  for (const char* key :
       {"", "Sec-WebSocket-Key: \r\n", "Sec-WebSocket-Key: dGhlIHNhbXBsZQ==\r\n",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=\r\n", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25j!Q==\r\n",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZWE=\r\n",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"}) {
    INFO(key);
    CHECK(judge({.key = key}).status == 400);
  }
  CHECK(judge({.more = "Content-Length: 3\r\n"}).status == 400);
  CHECK(judge({.more = "Transfer-Encoding: chunked\r\n"}).status == 400);
  CHECK(judge({.more = "Content-Length: 0\r\n"}).status == 101);
}

TEST_CASE("CH-10: origins are compared exactly when there is a list", "[ws]") {
  const std::vector<std::string> list = split_origins(" https://chat.example , ,http://localhost:6001");
  REQUIRE(list == std::vector<std::string>{"https://chat.example", "http://localhost:6001"});
  const auto status = [&](const std::string& origin) { return judge({.more = origin}, list).status; };
  CHECK(status("") == 101);
  CHECK(status("Origin: https://chat.example\r\n") == 101);
  CHECK(status("Origin: http://localhost:6001\r\n") == 101);
  for (const char* origin :
       {"https://evil.example", "null", "https://chat.example.evil.example", "https://chat.example:443",
        "http://chat.example", "https://chat.example/", "HTTPS://chat.example", ""}) {
    INFO(origin);
    CHECK(status(std::string("Origin: ") + origin + "\r\n") == 403);
  }
  CHECK(status("Origin: https://chat.example\r\nOrigin: https://evil.example\r\n") == 403);
  CHECK(judge({.more = "Origin: https://evil.example\r\n"}).status == 101);
  CHECK(judge({.more = "Origin: https://evil.example\r\n"}).origin == "https://evil.example");
}

}  // namespace
}  // namespace dlb
