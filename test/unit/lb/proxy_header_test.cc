#include "lb/proxy_header.h"

#include <string>

#include "test/support/catch.h"

namespace dlb::lb {
namespace {

std::string header(const char* source, const char* destination) {
  std::array<char, kProxyHeaderBytes> out;
  return std::string(write_proxy_header(*Address::parse(source), *Address::parse(destination), out));
}

const std::string kStart("\r\n\r\n\0\r\nQUIT\n\x21", 13);

TEST_CASE("the PROXY v2 header byte by byte") {
  CHECK(header("1.2.3.4:5", "6.7.8.9:258") ==
        kStart + std::string("\x11\0\x0c\x01\x02\x03\x04\x06\x07\x08\x09\0\x05\x01\x02", 15));
  CHECK(header("[::ffff:1.2.3.4]:5", "[::ffff:6.7.8.9]:258") == header("1.2.3.4:5", "6.7.8.9:258"));
  const std::string six = header("[2001:db8::1]:65535", "[::1]:80");
  REQUIRE(six.size() == 16 + 36);
  CHECK(six.substr(0, 16) == kStart + std::string("\x21\0\x24", 3));
  CHECK(six.substr(16, 2) == "\x20\x01");
  CHECK(six[31] == 1);
  CHECK(six.substr(48) == std::string("\xff\xff\0\x50", 4));
  // No addresses to tell.
  CHECK(header("unix:/a", "unix:/b") == kStart + std::string("\0\0\0", 3));
  CHECK(header("1.2.3.4:5", "[::1]:6") == kStart + std::string("\0\0\0", 3));
}

}  // namespace
}  // namespace dlb::lb
