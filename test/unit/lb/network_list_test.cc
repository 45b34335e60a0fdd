#include "lb/network_list.h"

#include "test/support/catch.h"

namespace dlb::lb {
namespace {

PeerAddress peer(const std::string& host) {
  const auto address = Address::parse(host.find(':') == std::string::npos ? host + ":1" : "[" + host + "]:1");
  REQUIRE(address);
  return PeerAddress(*address);
}

bool contains(const std::string& network, const std::string& host) {
  const auto parsed = Network::parse(network);
  CAPTURE(network);
  REQUIRE(parsed);
  return parsed->contains(peer(host));
}

TEST_CASE("a network contains what shares its prefix") {
  CHECK(contains("10.0.0.0/8", "10.255.1.2"));
  CHECK_FALSE(contains("10.0.0.0/8", "11.0.0.0"));
  CHECK(contains("192.168.4.0/22", "192.168.7.255"));
  CHECK_FALSE(contains("192.168.4.0/22", "192.168.8.0"));
  CHECK_FALSE(contains("192.168.4.0/22", "192.168.3.255"));
  CHECK(contains("10.0.0.5", "10.0.0.5"));
  CHECK_FALSE(contains("10.0.0.5", "10.0.0.4"));
  CHECK(contains("10.0.0.4/31", "10.0.0.5"));
  CHECK(contains("0.0.0.0/0", "203.0.113.9"));
  CHECK(contains("fd00::/8", "fdff::1"));
  CHECK_FALSE(contains("fd00::/8", "fe00::1"));
  CHECK(contains("2001:db8::/33", "2001:db8:7fff::1"));
  CHECK_FALSE(contains("2001:db8::/33", "2001:db8:8000::1"));
  CHECK(contains("::1", "::1"));
  CHECK(contains("::/0", "2001:db8::1"));
}

TEST_CASE("IPv4 and IPv6 are told apart, and IPv4 in IPv6's clothes is IPv4") {
  CHECK_FALSE(contains("0.0.0.0/0", "::1"));
  CHECK_FALSE(contains("::/0", "10.0.0.1"));
  CHECK(contains("10.0.0.0/8", "::ffff:10.1.2.3"));
  CHECK(contains("::ffff:10.0.0.0/104", "10.1.2.3"));
  CHECK(Network::parse("::ffff:10.0.0.0/104")->to_string() == "10.0.0.0/8");
  // A peer that has no address is in no network.
  const PeerAddress local(*Address::parse("unix:/x"));
  CHECK_FALSE(Network::parse("::/0")->contains(local));
  CHECK_FALSE(Network::parse("0.0.0.0/0")->contains(local));
}

TEST_CASE("networks are written as canonical text") {
  CHECK(Network::parse("0:0::1")->to_string() == "::1");
  CHECK(Network::parse("10.0.0.5/32")->to_string() == "10.0.0.5");
  CHECK(Network::parse("FD00::/8")->to_string() == "fd00::/8");
}

TEST_CASE("what is no network is refused, and a slip is explained") {
  for (const char* text : {"", "/8", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/8x", "10.0.0",
                           "::1/129", "10.0.0.0/8/8", "localhost", "fe80::1%lo", "10.0.0.0/ 8"}) {
    CAPTURE(text);
    CHECK_FALSE(Network::parse(text));
  }
  CHECK_FALSE(Network::parse(std::string_view("10.0.0.1\0/8", 11)));
  const auto slip = Network::parse("10.1.2.3/8");
  REQUIRE_FALSE(slip);
  CHECK(slip.error().text.find("the network is 10.0.0.0/8") != std::string::npos);
}

TEST_CASE("a list contains what one of its networks does") {
  NetworkList list;
  CHECK(list.empty());
  CHECK_FALSE(list.contains(peer("10.0.0.1")));
  list.add(*Network::parse("10.0.0.0/8"));
  list.add(*Network::parse("::1"));
  CHECK(list.contains(peer("10.0.0.1")));
  CHECK(list.contains(peer("::1")));
  CHECK_FALSE(list.contains(peer("127.0.0.1")));
}

}  // namespace
}  // namespace dlb::lb
