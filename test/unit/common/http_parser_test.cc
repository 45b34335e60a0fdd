// HeadParser: the framing matrix, limits at the byte, and that no way of cutting the input changes a verdict.
#include "common/http_parser.h"

#include <string>
#include <vector>

#include "common/rng.h"
#include "test/support/catch.h"

namespace dlb {
namespace {

std::string crlf(std::string_view text) {  // `|` stands for CRLF
  std::string out;
  for (const char c : text) {
    if (c == '|') {
      out += "\r\n";
    } else {
      out += c;
    }
  }
  return out;
}

struct Parsed {
  std::string bytes;  // what the head's views look into
  ParseResult result;
  RequestHead head;
};

std::unique_ptr<Parsed> parse(const std::string& bytes, HeadLimits limits = {}) {
  HeadParser parser;
  auto parsed = std::make_unique<Parsed>();
  parsed->bytes = bytes;
  std::size_t scanned = 0;
  parsed->result = parser.parse_request(parsed->bytes, scanned, limits, parsed->head);
  return parsed;
}

int request_status(const std::string& bytes, HeadLimits limits = {}) {
  const auto parsed = parse(bytes, limits);
  if (parsed->result.status == ParseStatus::Complete) return 200;
  return parsed->result.status == ParseStatus::Bad ? parsed->result.http_status : 0;
}

// The verdict when the bytes come in pieces that end at `cuts`.
ParseResult feed_request(const std::string& bytes, const std::vector<std::size_t>& cuts,
                         HeadLimits limits = {}) {
  static HeadParser parser;
  static RequestHead head;
  std::size_t scanned = 0;
  for (const std::size_t cut : cuts) {
    // A copy of exact size: a read beyond what has come would be seen by the sanitizers.
    const std::string so_far = bytes.substr(0, cut);
    const ParseResult result = parser.parse_request(so_far, scanned, limits, head);
    if (result.status != ParseStatus::NeedMore) return result;
    if (scanned > cut) FAIL("the cursor ran ahead");
  }
  return {};
}

ParseResult feed_byte_by_byte(const std::string& bytes, HeadLimits limits = {}) {
  std::vector<std::size_t> cuts;
  for (std::size_t i = 1; i <= bytes.size(); ++i) cuts.push_back(i);
  return feed_request(bytes, cuts, limits);
}

bool same(const ParseResult& a, const ParseResult& b) {
  return a.status == b.status && a.http_status == b.http_status && a.head_bytes == b.head_bytes;
}

const std::vector<std::string>& request_samples() {
  static const std::vector<std::string> samples = [] {
    std::vector<std::string> all;
    for (const char* text :
         {"GET / HTTP/1.1|Host: a||",
          "GET /a/b?c=d&e HTTP/1.1|Host: www.example.com:8080|Accept: */*|X:|Y: \t z \t||",
          "POST /p HTTP/1.1|Host: a|Content-Length: 5||hello",
          "POST /p HTTP/1.1|Host: a|Transfer-Encoding: chunked||5|hello|0||", "||GET / HTTP/1.0||",
          "|||||GET / HTTP/1.1|Host: a||", "|||||||||||", "GET http://b/x HTTP/1.1|Host: a||",
          "OPTIONS * HTTP/1.1|Host: a||", "M-SEARCH * HTTP/1.1|Host: a||", "FOO / HTTP/1.1|Host: a||",
          "GET / HTTP/1.7|Host: a||", "GET / HTTP/3.0|Host: a||", "GET /|Host: a||",
          "GET / HTTP/1.1|Host: a|X : b||", "GET / HTTP/1.1|Host: a|X: b| c||",
          "GET / HTTP/1.1|Host: a|: b||", "GET / HTTP/1.1|Host: a|nocolon||",
          "GET / HTTP/1.1|Connection: a, b, Host|Host: a||"}) {
      all.push_back(crlf(text));
    }
    for (const char* text :
         {"GET / HTTP/1.1\nHost: a\n\n", "GET / HTTP/1.1\r\nHost: a\r\r\n\r\n",
          "GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n",
          "GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nX: \x7f\r\n\r\n",
          "\r\n\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"}) {
      all.emplace_back(text);
    }
    all.push_back("GET / HTTP/1.1\r\nHost: a\r\nX: a" + std::string(1, '\0') + "b\r\n\r\n");
    return all;
  }();
  return samples;
}

TEST_CASE("the framing matrix of requests", "[http_parser]") {
  struct Row {
    const char* text;
    int status;
  };
  const std::vector<Row> rows = {
      {"Host: a|Content-Length: 3|Transfer-Encoding: chunked", 400},
      {"Host: a|Transfer-Encoding: chunked|Content-Length: 3", 400},
      {"Host: a|Content-Length: 3|Content-Length: 4", 400},
      {"Host: a|Content-Length: 3|Content-Length: 3", 400},
      {"Host: a|Content-Length: 3, 3", 400},
      {"Host: a|Content-Length:", 400},
      {"Host: a|Content-Length: +3", 400},
      {"Host: a|Content-Length: -1", 400},
      {"Host: a|Content-Length: 0x3", 400},
      {"Host: a|Content-Length: 3 3", 400},
      {"Host: a|Content-Length: 9223372036854775808", 400},
      {"Host: a|Content-Length: 18446744073709551619", 400},
      {"Host: a|Content-Length: 99999999999999999999999999", 400},
      {"Host: a|Content-Length: 9223372036854775807", 200},
      {"Host: a|Content-Length: 0003", 200},
      {"Host: a|Content-Length: 0", 200},
      {"Host: a|Transfer-Encoding: gzip", 501},
      {"Host: a|Transfer-Encoding: gzip, chunked", 501},
      {"Host: a|Transfer-Encoding: identity", 501},
      {"Host: a|Transfer-Encoding: xchunked", 501},
      {"Host: a|Transfer-Encoding: chunked, chunked", 400},
      {"Host: a|Transfer-Encoding: chunked|Transfer-Encoding: chunked", 400},
      {"Host: a|Transfer-Encoding: chunked, gzip", 400},
      {"Host: a|Transfer-Encoding: chunked;q=1", 400},
      {"Host: a|Transfer-Encoding: \"chunked\"", 400},
      {"Host: a|Transfer-Encoding: chunked identity", 400},
      {"Host: a|Transfer-Encoding:", 400},
      {"Host: a|Transfer-Encoding: ,", 400},
      {"Host: a|Transfer-Encoding: cHuNkEd", 200},
      {"Host: a|Transfer-Encoding: chunked,", 400},
      {"Host: a|Transfer-Encoding : chunked", 400},
      {"Host: a|Transfer-Encoding\t: chunked", 400},
      {"Host: a| Transfer-Encoding: chunked", 400},
      {"Host: a|X: b|\tfolded", 400},
      {"Host: a|X: b| folded", 400},
      {"X: b", 400},
      {"Host: a|Host: a", 400},
      {"Host: a|Host: b", 400},
      {"Host: a b", 400},
      {"Host: a,b", 400},
      {"Host: user@a", 400},
      {"Host: a/b", 400},
      {"Host: a:b", 400},
      {"Host: a:65536", 400},
      {"Host: a:1:2", 400},
      {"Host:", 400},
      {"Host: [::1", 400},
      {"Host: [::1]x", 400},
      {"Host: a%2", 400},
      {"Host: [::1]:80", 200},
      {"Host: a%20b", 200},
      {"Host: a:", 200},
      {"Host: a:65535", 200},
      {"Host: a|: b", 400},
      {"Host: a|nocolon", 400},
      {"Host: a|a(b: c", 400},
      {"Host: a|a\x80: c", 400},
      {"Host: a|a: \x80\xff", 200},
      {"Host: a|a: tab\tinside", 200},
  };
  for (const Row& row : rows) {
    const std::string bytes = crlf(std::string("POST / HTTP/1.1|") + row.text + "||");
    INFO(row.text);
    CHECK(request_status(bytes) == row.status);
  }
  CHECK(request_status(crlf("POST / HTTP/1.0|Transfer-Encoding: chunked||")) == 400);
  CHECK(request_status("POST / HTTP/1.1\r\nHost: a\r\nX: a" + std::string(1, '\0') + "b\r\n\r\n") == 400);
  CHECK(request_status("POST / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n") == 400);
  CHECK(request_status("POST / HTTP/1.1\nHost: a\n\n") == 400);
  CHECK(request_status("POST / HTTP/1.1\r\nHost: a\r\n\n") == 400);
}

TEST_CASE("request lines", "[http_parser]") {
  struct Row {
    const char* line;
    int status;
  };
  const std::vector<Row> rows = {
      {"GET / HTTP/1.1", 200},
      {"GET / HTTP/1.0", 200},
      {"GET / HTTP/1.2", 200},
      {"GET / HTTP/1.9", 200},
      {"GET / HTTP/2.0", 505},
      {"GET / HTTP/0.9", 505},
      {"GET / HTTP/9.9", 505},
      {"GET / HTTP/1.10", 400},
      {"GET / HTTP/1", 400},
      {"GET / http/1.1", 400},
      {"GET / HTTP/1.1 ", 400},
      {"GET / HTTPS/1.1", 400},
      {"GET  / HTTP/1.1", 400},
      {"GET /  HTTP/1.1", 400},
      {" GET / HTTP/1.1", 400},
      {"GET /\tHTTP/1.1", 400},
      {"GET /a b HTTP/1.1", 400},
      {"GET /", 400},
      {"GET", 400},
      {"GET HTTP/1.1", 400},
      {"G(T / HTTP/1.1", 400},
      {"get / HTTP/1.1", 501},
      {"FOO / HTTP/1.1", 501},
      {"GETT / HTTP/1.1", 501},
      {"PRI * HTTP/2.0", 505},
      {"PUT /x HTTP/1.1", 200},
      {"DELETE /x HTTP/1.1", 200},
      {"PATCH /x HTTP/1.1", 200},
      {"TRACE / HTTP/1.1", 200},
      {"PROPFIND /x HTTP/1.1", 200},
      {"GET * HTTP/1.1", 400},
      {"OPTIONS * HTTP/1.1", 200},
      {"GET a HTTP/1.1", 400},
      {"GET ?a HTTP/1.1", 400},
      {"GET /a#b HTTP/1.1", 400},
      {"GET /\xc3\xa4 HTTP/1.1", 200},
      {"GET http://a/ HTTP/1.1", 200},
      {"GET HTTP://a/ HTTP/1.1", 200},
      {"GET ftp://a/ HTTP/1.1", 400},
      {"GET http:///x HTTP/1.1", 400},
      {"GET http://u@a/ HTTP/1.1", 400},
      {"GET http://a:x/ HTTP/1.1", 400},
      {"CONNECT a:443 HTTP/1.1", 200},
      {"CONNECT /a HTTP/1.1", 400},
      {"GET //a/b HTTP/1.1", 200},
      {"GET /{x}|y^`\\<> HTTP/1.1", 200},
  };
  for (const Row& row : rows) {
    INFO(row.line);
    CHECK(request_status(std::string(row.line) + "\r\nHost: a\r\n\r\n") == row.status);
  }
}

TEST_CASE("what a request head says", "[http_parser]") {
  SECTION("origin form") {
    const std::string bytes = crlf("POST /a/b?c?d HTTP/1.1|Host: h:1|Content-Length: 12|X:  v \t||rest");
    const auto p = parse(bytes);
    REQUIRE(p->result.status == ParseStatus::Complete);
    CHECK(bytes.substr(p->result.head_bytes) == "rest");
    CHECK(p->head.method == HttpMethod::Post);
    CHECK(p->head.target == "/a/b?c?d");
    CHECK(p->head.path == "/a/b");
    CHECK(p->head.query == "c?d");
    CHECK(p->head.authority == "h:1");
    CHECK(p->head.framing == BodyFraming::Length);
    CHECK(p->head.content_length == 12);
    CHECK(p->head.keep_alive);
    CHECK(p->head.fields.size() == 3);
    CHECK(p->head.fields.find("x")->value == "v");
  }
  SECTION("absolute form") {
    const auto p = parse(crlf("GET http://Real:81/p?q HTTP/1.1|Host: other||"));
    REQUIRE(p->result.status == ParseStatus::Complete);
    CHECK(p->head.absolute_form);
    CHECK(p->head.authority == "Real:81");
    CHECK(p->head.path == "/p");
    CHECK(p->head.query == "q");
  }
  SECTION("absolute form without a path") {
    CHECK(parse(crlf("GET http://a?q HTTP/1.1|Host: a||"))->head.path == "/");
    CHECK(parse(crlf("GET http://a?q HTTP/1.1|Host: a||"))->head.query == "q");
    CHECK(parse(crlf("OPTIONS http://a HTTP/1.1|Host: a||"))->head.path == "*");
  }
  SECTION("persistence") {
    CHECK_FALSE(parse(crlf("GET / HTTP/1.1|Host: a|Connection: x, Close||"))->head.keep_alive);
    CHECK_FALSE(parse(crlf("GET / HTTP/1.1|Host: a|Connection: x|Connection: close||"))->head.keep_alive);
    CHECK_FALSE(parse(crlf("GET / HTTP/1.0||"))->head.keep_alive);
    CHECK(parse(crlf("GET / HTTP/1.0|Connection: Keep-Alive||"))->head.keep_alive);
    CHECK_FALSE(parse(crlf("GET / HTTP/1.0|Connection: Keep-Alive, close||"))->head.keep_alive);
    CHECK(parse(crlf("GET / HTTP/1.7|Host: a||"))->head.minor_version == 1);
  }
  SECTION("upgrade") {
    CHECK(parse(crlf("GET / HTTP/1.1|Host: a|Connection: keep-alive, Upgrade|Upgrade: websocket||"))
              ->head.upgrade);
    CHECK_FALSE(parse(crlf("GET / HTTP/1.1|Host: a|Connection: Upgrade||"))->head.upgrade);
    CHECK_FALSE(parse(crlf("GET / HTTP/1.1|Host: a|Upgrade: websocket||"))->head.upgrade);
    CHECK_FALSE(parse(crlf("GET / HTTP/1.0|Connection: Upgrade|Upgrade: websocket||"))->head.upgrade);
  }
  SECTION("expectations") {
    CHECK(parse(crlf("POST / HTTP/1.1|Host: a|Expect: 100-Continue||"))->head.expect_continue);
    CHECK(parse(crlf("POST / HTTP/1.1|Host: a|Expect: 100-continue, x||"))->head.expect_unknown);
    CHECK(parse(crlf("POST / HTTP/1.1|Host: a|Expect: ||"))->head.expect_unknown);
    CHECK_FALSE(parse(crlf("POST / HTTP/1.0|Expect: 100-continue||"))->head.expect_continue);
  }
  SECTION("hop-by-hop fields, protected ones excepted") {
    const auto p = parse(crlf(
        "GET / HTTP/1.1|Host: a|Connection: close, X-Secret, hOsT, X-Forwarded-For|Connection: "
        "X-Forwarded-Port, cookie, authorization, Content-Length, Forwarded, x-other|X-Secret: 1|Keep-Alive: "
        "5|Proxy-Connection: x|TE: trailers|Upgrade: h2c|X-Forwarded-For: 1|X-Forwarded-Port: 2|Cookie: "
        "c|Authorization: b|Content-Length: 0|Forwarded: f|X-Other: 3|X-Last: 4||"));
    REQUIRE(p->result.status == ParseStatus::Complete);
    for (const HeaderField& field : p->head.fields.all()) {
      INFO(field.name);
      const bool hop = field.name == "Connection" || field.name == "X-Secret" || field.name == "Keep-Alive" ||
                       field.name == "Proxy-Connection" || field.name == "TE" || field.name == "Upgrade" ||
                       field.name == "X-Other";
      CHECK(field.hop_by_hop == hop);
    }
  }
  SECTION("a reused head keeps nothing of the one before") {
    HeadParser parser;
    RequestHead head;
    std::size_t scanned = 0;
    const std::string rich = crlf(
        "POST http://h/p?q HTTP/1.1|Host: a|Expect: 100-continue|Expect: x|Content-Length: 9|Connection: "
        "close, "
        "upgrade|Upgrade: w||");
    REQUIRE(parser.parse_request(rich, scanned, {}, head).status == ParseStatus::Complete);
    scanned = 0;
    const std::string plain = crlf("GET / HTTP/1.1|Host: b||");
    REQUIRE(parser.parse_request(plain, scanned, {}, head).status == ParseStatus::Complete);
    CHECK(head.framing == BodyFraming::None);
    CHECK(head.content_length == 0);
    CHECK(head.keep_alive);
    CHECK_FALSE(head.expect_continue);
    CHECK_FALSE(head.expect_unknown);
    CHECK_FALSE(head.upgrade);
    CHECK_FALSE(head.absolute_form);
    CHECK(head.query.empty());
    CHECK(head.authority == "b");
    CHECK(head.fields.size() == 1);
  }
}

TEST_CASE("limits are exact, whole or byte by byte", "[http_parser]") {
  const HeadLimits limits{1000, 300};
  const auto verdict = [&](const std::string& bytes) {
    const int whole = request_status(bytes, limits);
    const ParseResult slow = feed_byte_by_byte(bytes, limits);
    CHECK((slow.status == ParseStatus::Complete ? 200 : slow.http_status) == whole);
    return whole;
  };
  const std::string start = "GET / HTTP/1.1\r\nHost: a\r\nX: ";
  for (const std::size_t total : {999U, 1000U, 1001U}) {
    const std::string head = start + std::string(total - start.size() - 4, 'x') + "\r\n\r\n";
    REQUIRE(head.size() == total);
    CHECK(verdict(head) == (total <= 1000 ? 200 : 431));
  }
  for (const std::size_t target : {299U, 300U, 301U}) {
    const std::string head = "GET /" + std::string(target - 1, 'x') + " HTTP/1.1\r\nHost: a\r\n\r\n";
    CHECK(verdict(head) == (target <= 300 ? 200 : 414));
  }
  CHECK(verdict("GET /" + std::string(2000, 'x') + " HTTP/1.1\r\nHost: a\r\n\r\n") == 414);
  CHECK(feed_byte_by_byte("GET /" + std::string(299, 'x'), limits).status == ParseStatus::NeedMore);
  CHECK(feed_byte_by_byte("GET /" + std::string(300, 'x'), limits).http_status == 414);  // not complete yet
  CHECK(verdict(std::string(2000, 'G')) == 431);
  std::string many = "GET / HTTP/1.1\r\nHost: a\r\n";
  for (int i = 0; i < 255; ++i) many += "a: b\r\n";
  CHECK(request_status(many + "\r\n") == 200);
  CHECK(request_status(many + "a: b\r\n\r\n") == 431);
}

TEST_CASE("no way of cutting a request changes its verdict", "[http_parser]") {
  for (const std::string& sample : request_samples()) {
    INFO(sample);
    const ParseResult whole = feed_request(sample, {sample.size()});
    CHECK(same(feed_byte_by_byte(sample), whole));
    for (std::size_t cut = 1; cut < sample.size(); ++cut) {
      if (!same(feed_request(sample, {cut, sample.size()}), whole)) FAIL("cut at " << cut);
    }
  }
}

TEST_CASE("mutated requests never crash, and cutting them changes nothing", "[http_parser]") {
  Rng rng(GENERATE(1U, 2U, 3U));
  static constexpr std::string_view kBytes =
      "\r\n\t :,;/?*#[]@\0\x7f\x80"
      "aAhH019+-";
  for (int round = 0; round < 4000; ++round) {
    std::string bytes = request_samples()[rng.below(request_samples().size())];
    for (std::uint64_t edits = 1 + rng.below(3); edits > 0 && !bytes.empty(); --edits) {
      const std::size_t at = rng.below(bytes.size());
      const char c = kBytes[rng.below(kBytes.size())];
      switch (rng.below(3)) {
        case 0:
          bytes[at] = c;
          break;
        case 1:
          bytes.insert(at, 1, c);
          break;
        default:
          bytes.erase(at, 1);
          break;
      }
    }
    if (bytes.empty()) continue;
    const HeadLimits limits{64 + rng.below(128), 8 + rng.below(64)};
    const ParseResult whole = feed_request(bytes, {bytes.size()}, limits);
    const std::size_t cut = 1 + rng.below(bytes.size());
    if (!same(feed_request(bytes, {cut, bytes.size()}, limits), whole))
      FAIL("cut at " << cut << " of " << bytes);
    if (!same(feed_byte_by_byte(bytes, limits), whole)) FAIL("byte by byte: " << bytes);
  }
}

// ---- responses ----

struct ParsedResponse {
  std::string bytes;
  ParseResult result;
  ResponseHead head;
};

std::unique_ptr<ParsedResponse> parse_response(const std::string& text, HttpMethod method = HttpMethod::Get) {
  HeadParser parser;
  auto parsed = std::make_unique<ParsedResponse>();
  std::size_t scanned = 0;
  parsed->bytes = crlf(text);
  parsed->result = parser.parse_response(parsed->bytes, scanned, {}, method, parsed->head);
  return parsed;
}

TEST_CASE("response framing", "[http_parser]") {
  struct Row {
    const char* text;
    HttpMethod method;
    BodyFraming framing;
    bool keep_alive;
    bool ambiguous;
  };
  constexpr auto kGet = HttpMethod::Get;
  constexpr auto kHead = HttpMethod::Head;
  const std::vector<Row> rows = {
      {"HTTP/1.1 200 OK|Content-Length: 5||", kGet, BodyFraming::Length, true, false},
      {"HTTP/1.1 200 OK|Content-Length: 0||", kGet, BodyFraming::Length, true, false},
      {"HTTP/1.1 200 OK|Transfer-Encoding: chunked||", kGet, BodyFraming::Chunked, true, false},
      {"HTTP/1.1 200 OK|Transfer-Encoding: chunked|Content-Length: 5||", kGet, BodyFraming::Chunked, false,
       true},
      {"HTTP/1.1 200 OK|Content-Length: 5|Transfer-Encoding: chunked||", kGet, BodyFraming::Chunked, false,
       true},
      {"HTTP/1.1 200 OK||", kGet, BodyFraming::UntilClose, false, false},
      {"HTTP/1.1 200 OK|Transfer-Encoding: identity||", kGet, BodyFraming::UntilClose, false, false},
      {"HTTP/1.0 200 OK|Content-Length: 5||", kGet, BodyFraming::Length, false, false},
      {"HTTP/1.0 200 OK|Content-Length: 5|Connection: keep-alive||", kGet, BodyFraming::Length, true, false},
      {"HTTP/1.0 200 OK|Transfer-Encoding: chunked|Connection: keep-alive||", kGet, BodyFraming::Chunked,
       false, true},
      {"HTTP/1.1 200 OK|Content-Length: 5|Connection: close||", kGet, BodyFraming::Length, false, false},
      {"HTTP/1.1 200 OK|Content-Length: 1234||", kHead, BodyFraming::None, true, false},
      {"HTTP/1.1 200 OK|Transfer-Encoding: chunked||", kHead, BodyFraming::None, true, false},
      {"HTTP/1.1 200 OK||", kHead, BodyFraming::None, true, false},
      {"HTTP/1.1 304 NM|Content-Length: 1234||", kGet, BodyFraming::None, true, false},
      {"HTTP/1.1 204 NC||", kGet, BodyFraming::None, true, false},
      {"HTTP/1.1 204 NC|Transfer-Encoding: chunked||", kGet, BodyFraming::None, false, true},
      {"HTTP/1.1 204 NC|Content-Length: 5||", kGet, BodyFraming::None, false, true},
      {"HTTP/1.1 100 Continue||", kGet, BodyFraming::None, true, false},
      {"HTTP/1.1 103 Early Hints|Link: x||", kGet, BodyFraming::None, true, false},
      {"HTTP/1.1 101 S|Connection: upgrade|Upgrade: websocket||", kGet, BodyFraming::None, true, false},
      {"HTTP/1.1 200||", kGet, BodyFraming::UntilClose, false, false},
      {"HTTP/1.1 200 ||", kGet, BodyFraming::UntilClose, false, false},
      {"HTTP/1.3 299 \xff odd  reason|Content-Length: 1||", kGet, BodyFraming::Length, true, false},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    const auto p = parse_response(row.text, row.method);
    REQUIRE(p->result.status == ParseStatus::Complete);
    CHECK(p->head.framing == row.framing);
    CHECK(p->head.keep_alive == row.keep_alive);
    CHECK(p->head.ambiguous == row.ambiguous);
  }
  CHECK(parse_response("HTTP/1.1 304 NM|Content-Length: 1234||")->head.content_length == 1234);
  CHECK(parse_response("HTTP/1.1 200 OK|Content-Length: 77||", HttpMethod::Head)->head.content_length == 77);
  CHECK(parse_response("HTTP/1.1 404 Not Found here||")->head.reason == "Not Found here");
}

TEST_CASE("broken responses are refused", "[http_parser]") {
  for (const char* text : {"HTTP/1.1 200 OK|Content-Length: 3|Content-Length: 4||",
                           "HTTP/1.1 200 OK|Content-Length: 3|Content-Length: 3||",
                           "HTTP/1.1 200 OK|Content-Length: 3, 3||",
                           "HTTP/1.1 200 OK|Content-Length: x||",
                           "HTTP/1.1 200 OK|Transfer-Encoding: chunked, chunked||",
                           "HTTP/1.1 200 OK|Transfer-Encoding: gzip||",
                           "HTTP/1.1 200 OK|Transfer-Encoding: gzip, chunked||",
                           "HTTP/1.1 20 OK||",
                           "HTTP/1.1 2000 OK||",
                           "HTTP/1.1 099 OK||",
                           "HTTP/1.1 000 OK||",
                           "HTTP/1.1  200 OK||",
                           "HTTP/2.0 200 OK||",
                           "HTTP/1.1200 OK||",
                           "garbage||",
                           "|",
                           "HTTP/1.1 200 OK|X : y||",
                           "HTTP/1.1 200 OK|X: y| folded||",
                           "ICY 200 OK||",
                           "HTTP/1.1 -20 OK||"}) {
    INFO(text);
    const auto p = parse_response(text);
    CHECK(p->result.status == ParseStatus::Bad);
    CHECK(p->result.http_status == 502);
    CHECK_FALSE(p->result.reason.empty());
  }
  std::string large = "HTTP/1.1 200 OK|X: " + std::string(20'000, 'x') + "||";
  CHECK(parse_response(large)->result.status == ParseStatus::Bad);
  std::string many = "HTTP/1.1 200 OK|";
  for (int i = 0; i < 257; ++i) many += "a: b|";
  CHECK(parse_response(many + "|")->result.status == ParseStatus::Bad);
}

TEST_CASE("interim responses come out one by one", "[http_parser]") {
  const std::string bytes =
      crlf("HTTP/1.1 100 Continue||HTTP/1.1 103 E|Link: a||HTTP/1.1 200 OK|Content-Length: 2||ok");
  HeadParser parser;
  ResponseHead head;
  std::string_view rest = bytes;
  for (const int status : {100, 103, 200}) {
    std::size_t scanned = 0;
    const ParseResult result = parser.parse_response(rest, scanned, {}, HttpMethod::Get, head);
    REQUIRE(result.status == ParseStatus::Complete);
    CHECK(head.status == status);
    rest.remove_prefix(result.head_bytes);
  }
  CHECK(rest == "ok");
}

TEST_CASE("field names are recognised in any case, and only whole", "[http_message]") {
  static constexpr std::pair<const char*, HeaderId> kNames[] = {
      {"accept", HeaderId::Accept},
      {"accept-encoding", HeaderId::AcceptEncoding},
      {"authorization", HeaderId::Authorization},
      {"connection", HeaderId::Connection},
      {"content-length", HeaderId::ContentLength},
      {"content-type", HeaderId::ContentType},
      {"cookie", HeaderId::Cookie},
      {"date", HeaderId::Date},
      {"expect", HeaderId::Expect},
      {"forwarded", HeaderId::Forwarded},
      {"host", HeaderId::Host},
      {"idempotency-key", HeaderId::IdempotencyKey},
      {"if-none-match", HeaderId::IfNoneMatch},
      {"keep-alive", HeaderId::KeepAlive},
      {"x-load-balancer-backend", HeaderId::LoadBalancerBackend},
      {"x-load-balancer-fallback", HeaderId::LoadBalancerFallback},
      {"x-load-balancer-score", HeaderId::LoadBalancerScore},
      {"origin", HeaderId::Origin},
      {"proxy-connection", HeaderId::ProxyConnection},
      {"retry-after", HeaderId::RetryAfter},
      {"sec-websocket-key", HeaderId::SecWebSocketKey},
      {"sec-websocket-version", HeaderId::SecWebSocketVersion},
      {"server", HeaderId::Server},
      {"te", HeaderId::Te},
      {"trailer", HeaderId::Trailer},
      {"transfer-encoding", HeaderId::TransferEncoding},
      {"upgrade", HeaderId::Upgrade},
      {"x-forwarded-for", HeaderId::XForwardedFor},
      {"x-forwarded-host", HeaderId::XForwardedHost},
      {"x-forwarded-proto", HeaderId::XForwardedProto},
      {"x-request-id", HeaderId::XRequestId}};
  for (const auto& [name, id] : kNames) {
    std::string text = name;
    CHECK(header_id(text) == id);
    for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
    CHECK(header_id(text) == id);
    for (std::size_t i = 0; i < text.size(); ++i) {  // one wrong byte anywhere is another name
      for (const char wrong : {'~', '_', '-', '\r', '\0', 'q', 'M'}) {
        std::string other = name;
        if (other[i] == (wrong == 'M' ? 'm' : wrong)) continue;
        other[i] = wrong;
        if (header_id(other) == id) FAIL(name << " at " << i << " by " << static_cast<int>(wrong));
      }
    }
    CHECK(header_id(text + "x") != id);
    CHECK(header_id(std::string_view(text).substr(1)) != id);
  }
}

}  // namespace
}  // namespace dlb
