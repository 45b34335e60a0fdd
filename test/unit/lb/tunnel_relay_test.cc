// TunnelRelay over socket pairs and loopback connections: every byte in order, ends passed on as they were,
// blocks given back.
#include "lb/tunnel_relay.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "common/rng.h"
#include "common/socket.h"
#include "test/support/catch.h"

namespace dlb::lb {
namespace {

// far end of the source ── source ══ relay ══ sink ── far end of the sink. TCP, since that knows RST.
struct Line {
  BufferPool blocks{16 * 1024, 8, 8};
  BufferPool small{4096, 8, 8};
  EventLoop loop;
  Fd from_far, to_far;
  Transport source, sink;
  TunnelRelay relay;

  struct Feed final : EventHandler {
    explicit Feed(Transport& fed) : transport(fed) {}
    void on_events(std::uint32_t events) override {
      transport.note_events(events);
      seen |= events;
    }
    Transport& transport;
    std::uint32_t seen = 0;
  };
  Feed source_feed{source}, sink_feed{sink};

  explicit Line(SocketBuffers buffers = {}) {
    connect(from_far, source, source_feed, buffers);
    connect(to_far, sink, sink_feed, buffers);
  }
  ~Line() {
    source.close(loop);
    sink.close(loop);
  }

  void connect(Fd& far, Transport& near, Feed& feed, SocketBuffers buffers) {
    const auto listener = listen_on(*Address::parse("127.0.0.1:0"), 8, buffers);
    REQUIRE(listener);
    bool in_progress = false;
    auto fd = connect_start(local_address(listener->get()), &in_progress, buffers);
    REQUIRE(fd);
    far = Fd(::accept4(listener->get(), nullptr, nullptr, SOCK_NONBLOCK));
    REQUIRE(far);
    near = Transport(std::move(*fd));
    REQUIRE(near.attach(loop, feed));
  }

  std::size_t pump() {
    loop.run_once(std::chrono::milliseconds(1));
    return relay.pump(source, sink, blocks).written;
  }
  // Until there is nothing more to do for the moment.
  void settle() {
    for (int quiet = 0; quiet < 3; ++quiet) {
      if (pump() > 0) quiet = 0;
    }
  }
  void send(std::string_view bytes) {
    REQUIRE(::send(from_far.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
  }
  // What has arrived; `end` says how the stream stands behind it: 0 open, 1 FIN, or an errno.
  std::string received(int* end = nullptr) {
    std::string out;
    char buffer[65536];
    for (;;) {
      const ssize_t got = ::recv(to_far.get(), buffer, sizeof buffer, MSG_DONTWAIT);
      if (got > 0) {
        out.append(buffer, static_cast<std::size_t>(got));
        continue;
      }
      if (end != nullptr) *end = got == 0 ? 1 : errno == EAGAIN ? 0 : errno;
      return out;
    }
  }
};

std::string noise(std::size_t bytes, std::uint64_t seed) {
  Rng rng(seed);
  std::string out;
  out.reserve(bytes + 8);
  while (out.size() < bytes) {
    const std::uint64_t word = rng.next();
    out.append(reinterpret_cast<const char*>(&word), sizeof word);
  }
  out.resize(bytes);
  return out;
}

Buffer block_with(BufferPool& pool, std::string_view text) {
  Buffer block = pool.acquire();
  REQUIRE(block.append(text));
  return block;
}

TEST_CASE("a tunnel relay passes bytes on, and holds no block while it is idle") {
  Line line;
  line.settle();
  CHECK(line.blocks.in_use() == 0);
  line.send("hello");
  line.settle();
  CHECK(line.received() == "hello");
  CHECK(line.blocks.in_use() == 0);
  CHECK(line.relay.state() == TunnelRelay::State::Open);
}

TEST_CASE("what was read before the tunnel began goes first, in its order") {
  Line line;
  line.relay.prepend(block_with(line.small, "head;"));
  line.relay.prepend(block_with(line.small, "early;"));
  line.relay.prepend({});  // nothing is nothing
  line.send("late");
  line.settle();
  CHECK(line.received() == "head;early;late");
  CHECK(line.small.in_use() == 0);
}

TEST_CASE("a slow reader stops the reading, one block is held, and no byte is lost") {
  Line line({8 * 1024, 8 * 1024});
  const std::string bytes = noise(3 << 20, 7);
  std::size_t sent = 0;
  std::string got;
  Rng rng(3);
  while (got.size() < bytes.size()) {
    const ssize_t more =
        ::send(line.from_far.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (more > 0) sent += static_cast<std::size_t>(more);
    line.pump();
    CHECK(line.blocks.in_use() <= 1);
    if (rng.below(3) == 0 || sent == bytes.size()) got += line.received();
  }
  CHECK(got == bytes);
}

TEST_CASE("a FIN is passed on behind the last byte, and only then") {
  Line line;
  line.relay.prepend(block_with(line.small, "first "));
  line.send("last");
  ::shutdown(line.from_far.get(), SHUT_WR);
  line.settle();
  int end = 0;
  CHECK(line.received(&end) == "first last");
  CHECK(end == 1);
  CHECK(line.relay.finished());
  CHECK_FALSE(line.relay.broken());
}

TEST_CASE("a source's reset breaks the relay, behind what it had sent, without a FIN") {
  Line line;
  line.send("bytes");
  line.settle();
  set_reset_on_close(line.from_far.get());
  line.from_far.reset();
  line.settle();
  int end = 0;
  CHECK(line.received(&end) == "bytes");
  CHECK(end == 0);
  CHECK(line.relay.finished());
  CHECK(line.relay.broken());
  CHECK_FALSE(line.relay.sink_gone());
}

TEST_CASE("a sink's reset breaks the relay and frees what it held") {
  Line line;
  set_reset_on_close(line.to_far.get());
  line.to_far.reset();
  line.loop.run_once(std::chrono::milliseconds(10));
  line.relay.prepend(block_with(line.small, "for nobody"));
  line.send("more");
  line.settle();
  CHECK(line.relay.sink_gone());
  CHECK(line.relay.finished());
  CHECK(line.blocks.in_use() == 0);
  CHECK(line.small.in_use() == 0);
}

TEST_CASE("without a block the relay breaks instead of spinning") {
  Line line;
  std::vector<Buffer> all;
  for (int i = 0; i < 8; ++i) all.push_back(line.blocks.acquire());
  line.send("x");
  line.settle();
  CHECK(line.relay.broken());
  CHECK(line.relay.finished());
}

TEST_CASE("an urgent mark inside the stream stops no byte behind it") {
  Line line;
  set_urgent_inline(line.source.fd());
  line.settle();
  line.send("before ");
  REQUIRE(::send(line.from_far.get(), "!", 1, MSG_OOB) == 1);
  line.send(" behind");
  line.settle();
  CHECK(line.received() == "before ! behind");
}

TEST_CASE("a relay stops at its budget and says that there is more") {
  Line line;
  const std::string bytes = noise(2 << 20, 9);
  std::size_t sent = 0;
  std::string got;
  bool stopped = false;
  while (got.size() < bytes.size()) {
    const ssize_t more =
        ::send(line.from_far.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (more > 0) sent += static_cast<std::size_t>(more);
    line.loop.run_once(std::chrono::milliseconds(1));
    const TunnelRelay::Pumped pumped = line.relay.pump(line.source, line.sink, line.blocks);
    CHECK(pumped.written <= TunnelRelay::kStepsPerTurn * line.blocks.block_bytes());
    stopped = stopped || pumped.more;
    got += line.received();
  }
  CHECK(stopped);
  CHECK(got == bytes);
}

}  // namespace
}  // namespace dlb::lb
