#include "common/pipe_pool.h"

#include <sys/socket.h>

#include <array>
#include <string>

#include "common/transport.h"
#include "test/support/catch.h"

namespace dlb {
namespace {

struct Pair {
  Pair() {
    std::array<int, 2> fds{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds.data()) == 0);
    near = Transport(Fd(fds[0]));
    far = Fd(fds[1]);
  }
  void say(std::string_view text) {
    REQUIRE(::send(far.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
  }
  std::string hear() {
    std::array<char, 256> text{};
    const ssize_t got = ::recv(far.get(), text.data(), text.size(), 0);
    return got > 0 ? std::string(text.data(), static_cast<std::size_t>(got)) : std::string();
  }
  Transport near;
  Fd far;
};

}  // namespace

TEST_CASE("pipe pool: a pipe with bytes in it is never lent again") {
  PipePool pool(64 * 1024, 2, 2);
  Pair from;
  Pair to;
  from.say("secret of the first");
  Pipe first = pool.acquire();
  REQUIRE(first.valid());
  REQUIRE(from.near.splice_to(first, 100).bytes == 19);
  pool.give_back(std::move(first));
  CHECK(pool.cached() == 0);

  Pipe second = pool.acquire();
  from.say("for the second");
  REQUIRE(from.near.splice_to(second, 100).ok());
  REQUIRE(to.near.splice_from(second, false).bytes == 14);
  CHECK(to.hear() == "for the second");
  pool.give_back(std::move(second));
  CHECK(pool.cached() == 1);
  CHECK(pool.in_use() == 0);
}

TEST_CASE("pipe pool: at the cap there is none, and nothing is kept over max_cached") {
  PipePool pool(64 * 1024, 2, 1);
  Pipe first = pool.acquire();
  Pipe second = pool.acquire();
  CHECK(first.valid());
  CHECK(second.valid());
  Pipe third = pool.acquire();
  CHECK_FALSE(third.valid());
  pool.give_back(std::move(third));
  CHECK(pool.in_use() == 2);
  pool.give_back(std::move(first));
  pool.give_back(std::move(second));
  CHECK(pool.in_use() == 0);
  CHECK(pool.cached() == 1);
  CHECK(pool.acquire().valid());
}

TEST_CASE("transport: an empty socket, an end and a limit are told apart when splicing") {
  PipePool pool(64 * 1024, 1, 1);
  Pair from;
  Pair to;
  Pipe pipe = pool.acquire();
  CHECK(from.near.splice_to(pipe, 10).status == IoStatus::WouldBlock);
  CHECK_FALSE(from.near.read_ready());
  from.say("abcdefgh");
  from.near.note_events(EPOLLIN);
  CHECK(from.near.splice_to(pipe, 3).bytes == 3);
  CHECK(from.near.read_ready());
  CHECK(to.near.splice_from(pipe, true).bytes == 3);
  CHECK(pipe.bytes() == 0);
  from.far.reset();
  CHECK(from.near.splice_to(pipe, 10).bytes == 5);
  CHECK(to.near.splice_from(pipe, false).bytes == 5);
  CHECK(to.hear() == "abcdefgh");
  CHECK(from.near.splice_to(pipe, 10).status == IoStatus::Eof);
  CHECK(from.near.peer_finished());
  pool.give_back(std::move(pipe));
}

}  // namespace dlb
