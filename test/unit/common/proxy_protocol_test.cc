#include "common/proxy_protocol.h"

#include <array>
#include <string>

#include "test/fuzz/proxy_checks.h"
#include "test/support/catch.h"

namespace dlb {
namespace {

using namespace std::string_literals;
using Status = ProxyHeader::Status;

const std::string kSignature = "\r\n\r\n\0\r\nQUIT\n"s;

std::string v2(int command, int family, const std::string& payload) {
  std::string out = kSignature;
  out += static_cast<char>(command);
  out += static_cast<char>(family);
  out += static_cast<char>(payload.size() >> 8);
  out += static_cast<char>(payload.size() & 255);
  return out + payload;
}

const std::string kInetPayload = "\xc0\x00\x02\x01\x7f\x00\x00\x01\x9c\x40\x00\x50"s;

// Parsed whole, with a request behind it, and byte by byte (check_proxy_header aborts when they differ).
ProxyHeader parse(const std::string& bytes) {
  fuzz::check_proxy_header(bytes);
  fuzz::check_proxy_header(bytes + "GET / HTTP/1.1\r\n\r\n");
  return parse_proxy_header(bytes + "GET / HTTP/1.1\r\n\r\n");
}

void check_ok(const std::string& bytes, const std::string& source, const std::string& destination) {
  CAPTURE(bytes);
  const ProxyHeader header = parse(bytes);
  REQUIRE(header.status == Status::Ok);
  CHECK_FALSE(header.local);
  CHECK(header.consumed == bytes.size());
  CHECK(header.source.to_string() == source);
  CHECK(header.destination.to_string() == destination);
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    CHECK(parse_proxy_header(bytes.substr(0, cut)).status == Status::NeedMore);
  }
}

void check_local(const std::string& bytes) {
  CAPTURE(bytes);
  const ProxyHeader header = parse(bytes);
  REQUIRE(header.status == Status::Ok);
  CHECK(header.local);
  CHECK(header.consumed == bytes.size());
  CHECK(header.source.empty());
}

void check_bad(const std::string& bytes) {
  CAPTURE(bytes);
  fuzz::check_proxy_header(bytes);
  const ProxyHeader header = parse_proxy_header(bytes);
  CHECK(header.status == Status::Bad);
  CHECK(header.consumed == 0);
}

TEST_CASE("PROXY v1 gives both addresses", "[proxy]") {
  check_ok("PROXY TCP4 192.0.2.1 127.0.0.1 40000 80\r\n", "192.0.2.1:40000", "127.0.0.1:80");
  check_ok("PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n", "255.255.255.255:65535",
           "255.255.255.255:65535");
  check_ok("PROXY TCP4 0.0.0.0 0.0.0.0 0 0\r\n", "0.0.0.0:0", "0.0.0.0:0");
  check_ok("PROXY TCP6 2001:db8::1 ::1 1 65535\r\n", "[2001:db8::1]:1", "[::1]:65535");
  check_ok(
      "PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 "
      "65535\r\n",
      "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535", "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535");
}

TEST_CASE("PROXY v1 UNKNOWN keeps the connection's own address", "[proxy]") {
  check_local("PROXY UNKNOWN\r\n");
  check_local("PROXY UNKNOWN ffff::1 what ever 1\r\n");
  check_local("PROXY UNKNOWN " + std::string(91, 'x') + "\r\n");  // 107 bytes
}

TEST_CASE("PROXY v1 is read strictly", "[proxy]") {
  check_bad("PROXY UNKNOWN " + std::string(92, 'x') + "\r\n");
  check_bad("PROXY TCP4 " + std::string(200, '1'));
  for (const char* line : {
           "PROXY  TCP4 192.0.2.1 127.0.0.1 40000 80\r\n",
           "PROXY TCP4 192.0.2.1  127.0.0.1 40000 80\r\n",
           "PROXY TCP4 192.0.2.1 127.0.0.1 40000 80 \r\n",
           "PROXY TCP4 192.0.2.1 127.0.0.1 40000\r\n",
           "PROXY TCP4 192.0.2.1 127.0.0.1 40000 80 1\r\n",
           "PROXY TCP4 192.0.2.1 127.0.0.1 40000 65536\r\n",
           "PROXY TCP4 192.0.2.1 127.0.0.1 040000 80\r\n",
           "PROXY TCP4 192.0.2.1 127.0.0.1 -1 80\r\n",
           "PROXY TCP4 192.0.2.1 127.0.0.1 00 80\r\n",
           "PROXY TCP4 192.0.2.256 127.0.0.1 1 80\r\n",
           "PROXY TCP4 192.0.2.01 127.0.0.1 1 80\r\n",
           "PROXY TCP4 192.0.2 127.0.0.1 1 80\r\n",
           "PROXY TCP4 ::1 127.0.0.1 1 80\r\n",
           "PROXY TCP6 127.0.0.1 ::1 1 80\r\n",
           "PROXY TCP6 fe80::1%lo ::1 1 80\r\n",
           "PROXY TCP5 192.0.2.1 127.0.0.1 40000 80\r\n",
           "PROXY tcp4 192.0.2.1 127.0.0.1 40000 80\r\n",
           "PROXY UDP4 192.0.2.1 127.0.0.1 40000 80\r\n",
           "PROXY TCP4 192.0.2.1 127.0.0.1 40000 80\n",
           "PROXY TCP4 192.0.2.1 127.0.0.1 40000 80\r\r\n",
           "PROXY UNKNOWN\n",
           "PROXY UNKNOWNS\r\n",
           "PROXY \r\n",
           "PROXY\r\n",
           "proxy TCP4",
           "PROXX",
           "GET / HTTP/1.1\r\n",
           "\r\nGET",
           "\n",
           "PROXY \n",
       }) {
    check_bad(line);
  }
  check_bad("PROXY TCP4 192.0.2.1\0 127.0.0.1 1 80\r\n"s);
  CHECK(parse_proxy_header("").status == Status::NeedMore);
  CHECK(parse_proxy_header("G").status == Status::Bad);  // at the first wrong byte
}

TEST_CASE("PROXY v2 gives both addresses, and TLVs are skipped", "[proxy]") {
  check_ok(v2(0x21, 0x11, kInetPayload), "192.0.2.1:40000", "127.0.0.1:80");
  check_ok(v2(0x21, 0x11, kInetPayload + "\x01\x00\x02h2"s), "192.0.2.1:40000", "127.0.0.1:80");
  check_ok(v2(0x21, 0x11, kInetPayload + std::string(kMaxProxyV2Payload - 12, '\n')), "192.0.2.1:40000",
           "127.0.0.1:80");
  const std::string v6 =
      "\x20\x01\x0d\xb8"s + std::string(11, '\0') + "\x07" + std::string(15, '\0') + "\x01";
  check_ok(v2(0x21, 0x21, v6 + "\x00\x01\xff\xff"s), "[2001:db8::7]:1", "[::1]:65535");
}

TEST_CASE("PROXY v2 without a usable address keeps the connection's own", "[proxy]") {
  check_local(v2(0x20, 0x00, ""));
  check_local(v2(0x20, 0x11, kInetPayload));
  check_local(v2(0x20, 0xff, "anything"));  // LOCAL: the family is ignored
  check_local(v2(0x21, 0x00, ""));
  check_local(v2(0x21, 0x00, "\x04\x00\x01x"s));
  check_local(v2(0x21, 0x12, kInetPayload));
  check_local(v2(0x21, 0x31, std::string(216, 'u')));
}

TEST_CASE("PROXY v2 is read strictly", "[proxy]") {
  check_bad(v2(0x21, 0x11, kInetPayload.substr(1)));
  check_bad(v2(0x21, 0x21, std::string(35, 'x')));
  check_bad(v2(0x21, 0x31, std::string(215, 'x')));
  check_bad(v2(0x22, 0x11, kInetPayload));
  check_bad(v2(0x11, 0x11, kInetPayload));
  check_bad(v2(0x31, 0x11, kInetPayload));
  check_bad(v2(0x21, 0x41, std::string(216, 'x')));
  check_bad(v2(0x21, 0x13, kInetPayload));
  check_bad(v2(0x21, 0x11, kInetPayload + std::string(kMaxProxyV2Payload - 11, 'x')));
  check_bad(v2(0x20, 0x00, std::string(65535, 'x')));
  std::string wrong = v2(0x21, 0x11, kInetPayload);
  for (std::size_t i = 0; i < kSignature.size(); ++i) {
    std::string one = wrong;
    one[i] = static_cast<char>(one[i] ^ 1);
    check_bad(one);
    CHECK(parse_proxy_header(one.substr(0, i + 1)).status == Status::Bad);
  }
}

std::string written(const std::string& source, const std::string& destination) {
  const auto from = Address::parse(source), to = Address::parse(destination);
  REQUIRE((from && to));
  std::array<char, kProxyV2WriteBytes> out;
  const std::size_t length = write_proxy_v2(*from, *to, out);
  REQUIRE(length >= 16);
  CHECK(write_proxy_v2(*from, *to, std::span(out).first(length)) == length);
  CHECK(write_proxy_v2(*from, *to, std::span(out).first(length - 1)) == 0);
  return {out.data(), length};
}

TEST_CASE("the PROXY v2 writer's headers are read back", "[proxy]") {
  CHECK(written("192.0.2.1:40000", "127.0.0.1:80") == v2(0x21, 0x11, kInetPayload));
  check_ok(written("[2001:db8::7]:1", "[::1]:65535"), "[2001:db8::7]:1", "[::1]:65535");
  // v4-mapped on both sides is IPv4; on one side, both are written as IPv6.
  check_ok(written("[::ffff:192.0.2.1]:40000", "127.0.0.1:80"), "192.0.2.1:40000", "127.0.0.1:80");
  check_ok(written("[2001:db8::7]:1", "127.0.0.1:80"), "[2001:db8::7]:1", "[127.0.0.1]:80");
  check_local(written("unix:/tmp/x", "127.0.0.1:80"));
  check_local(written("127.0.0.1:80", "unix:/tmp/x"));
}

}  // namespace
}  // namespace dlb
