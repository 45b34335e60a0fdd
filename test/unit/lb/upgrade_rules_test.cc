#include "lb/upgrade_rules.h"

#include <string>

#include "common/http_parser.h"
#include "test/support/catch.h"

namespace dlb::lb {
namespace {

std::string crlf(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2)
    text.replace(at, 1, "\r\n");
  return text;
}

std::string offer_of(const std::string& text) {
  const std::string bytes = crlf(text);
  HeadParser parser;
  RequestHead head;
  std::size_t scanned = 0;
  REQUIRE(parser.parse_request(bytes, scanned, HeadLimits{}, head).status == ParseStatus::Complete);
  return offered_protocols(head);
}

bool switches(const std::string& text, std::string_view offer) {
  const std::string bytes = crlf(text);
  HeadParser parser;
  ResponseHead head;
  std::size_t scanned = 0;
  REQUIRE(parser.parse_response(bytes, scanned, HeadLimits{}, HttpMethod::Get, head).status ==
          ParseStatus::Complete);
  return switches_as_offered(head, offer);
}

TEST_CASE("which protocols a request may offer") {
  const std::string get = "GET / HTTP/1.1|Host: a|Connection: Upgrade|";
  CHECK(offer_of(get + "Upgrade: websocket||") == "websocket");
  CHECK(offer_of(get + "Upgrade: WebSocket||") == "WebSocket");
  CHECK(offer_of(get + "Upgrade: foo/2, bar||") == "foo/2, bar");
  CHECK(offer_of(get + "Upgrade: foo|Upgrade: bar||") == "foo, bar");
  CHECK(offer_of(get + "Content-Length: 0|Upgrade: websocket||") == "websocket");
  // What would carry HTTP past the rules for requests.
  for (const char* banned : {"h2c", "H2C", "h2", "HTTP/2.0", "http/1.1", "TLS/1.0", "https"}) {
    CHECK(offer_of(get + "Upgrade: " + banned + "||").empty());
    CHECK(offer_of(get + "Upgrade: " + banned + ", websocket||") == "websocket");
  }
  // Not an upgrade at all.
  CHECK(offer_of("GET / HTTP/1.1|Host: a|Upgrade: websocket||").empty());
  CHECK(offer_of("GET / HTTP/1.0|Host: a|Connection: upgrade|Upgrade: websocket||").empty());
  CHECK(offer_of(get + "Content-Length: 1|Upgrade: websocket||").empty());
  CHECK(offer_of(get + "Transfer-Encoding: chunked|Upgrade: websocket||").empty());
  CHECK(offer_of(get + "Expect: 100-continue|Upgrade: websocket||").empty());
  // Malformed: nothing of it is passed on.
  for (const char* bad : {"web socket", "a/b/c", "/2", "foo/", "websocket, b@d"}) {
    CHECK(offer_of(get + "Upgrade: " + bad + "||").empty());
  }
  CHECK(offer_of(get + "Upgrade: " + std::string(300, 'x') + "||").empty());
}

TEST_CASE("a 101 has to switch to what was offered") {
  const std::string head = "HTTP/1.1 101 Switching Protocols|Connection: upgrade|";
  CHECK(switches(head + "Upgrade: websocket||", "websocket"));
  CHECK(switches(head + "Upgrade: WebSocket||", "websocket"));
  CHECK(switches(head + "Upgrade: bar||", "foo/2, bar"));
  CHECK_FALSE(switches(head + "Upgrade: h2c||", "websocket"));
  CHECK_FALSE(switches(head + "Upgrade: websocket, h2c||", "websocket"));
  CHECK_FALSE(switches(head + "X: y||", "websocket"));
  CHECK_FALSE(switches(head + "Upgrade: websocket||", ""));
}

}  // namespace
}  // namespace dlb::lb
