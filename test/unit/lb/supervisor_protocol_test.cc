#include "lb/supervisor_protocol.h"

#include <string>

#include "common/rng.h"
#include "test/support/catch.h"

namespace dlb::lb {
namespace {

using Kind = SupervisorRequest::Kind;

TEST_CASE("requests come back as they were") {
  const SupervisorRequest requests[] = {{Kind::Start, 7001, {"server", "two words", "", "--at=7001"}},
                                        {Kind::Stop, 1, {}},
                                        {Kind::Kill, 65535, {}},
                                        {Kind::Forget, 7001, {}},
                                        {Kind::Grace, 600'000, {}},
                                        {Kind::List, 0, {}}};
  for (const SupervisorRequest& request : requests) CHECK(decode_request(encode(request)) == request);
}

TEST_CASE("requests that make no sense are nothing") {
  using namespace std::string_literals;
  for (const std::string& text :
       {""s, "list"s, "\0"s, "start\0"s, "start\0007001\0"s, "start\0007001\0\0"s, "stop\0x\0"s,
        "stop\0000\0"s, "stop\00065536\0"s, "stop\0-1\0"s, "later\0001\0"s}) {
    CAPTURE(text);
    CHECK_FALSE(decode_request(text));
  }
}

TEST_CASE("states come back as they were, and other lines are left out") {
  const std::vector<SupervisedChild> children = {{7001, 12, ChildState::Running, 0},
                                                 {7003, 14, ChildState::Stopping, 0},
                                                 {7002, 13, ChildState::Exited, 256}};
  CHECK(decode_children(encode(children)) == children);
  CHECK(decode_children(encode(std::vector<SupervisedChild>())).empty());
  CHECK_FALSE(encode(std::vector<SupervisedChild>()).empty());
  CHECK(
      decode_children("state\n7001 12 running 0 more\n7001 12 sleeping 0\n99999 1 running 0\n\nx\n").size() ==
      1);
}

TEST_CASE("any bytes are read without harm") {
  Rng rng(1);
  const std::string good = encode(SupervisorRequest{Kind::Start, 7001, {"server", "{port}"}});
  for (int i = 0; i < 2000; ++i) {
    std::string text = i % 2 == 0 ? good : "state\n7001 12 running 0\n";
    for (int changes = 0; changes < 3; ++changes)
      text[static_cast<std::size_t>(rng.below(text.size()))] = static_cast<char>(rng.below(256));
    text.resize(static_cast<std::size_t>(rng.below(text.size() + 1)));
    std::ignore = decode_request(text);
    std::ignore = decode_children(text);
  }
}

TEST_CASE("how a process has ended, in words") {
  CHECK(status_text(3 << 8) == "exit code 3");
  CHECK(status_text(9) == "signal 9");
}

}  // namespace
}  // namespace dlb::lb
