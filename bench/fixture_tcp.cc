#include "bench/fixture_tcp.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace dlb::bench {

struct TcpFixture::Echo final : EventHandler {
  explicit Echo(TcpFixture& fixture, Fd fd) : owner(fixture), transport(std::move(fd)) {
    end = std::min(owner.greeting_.size(), block.size());
    std::memcpy(block.data(), owner.greeting_.data(), end);
  }

  void on_events(std::uint32_t events) override {
    if (!transport.open()) return;
    transport.note_events(events);
    run();
  }

  // Writes what is held, reads more, until neither moves.
  void run() {
    for (;;) {
      if (begin < end) {
        const IoResult out = transport.write({block.data() + begin, end - begin});
        if (out.status == IoStatus::WouldBlock) return;
        if (!out.ok()) return finish();
        begin += out.bytes;
        continue;
      }
      if (finished) return finish();
      const IoResult in = transport.read(block);
      if (in.status == IoStatus::WouldBlock) return;
      if (in.status == IoStatus::Error) return finish();
      finished = in.status == IoStatus::Eof;
      begin = 0;
      end = in.bytes;
    }
  }

  void finish() {
    transport.close(owner.loop_);
    owner.ended_.push_back(this);
  }

  TcpFixture& owner;
  Transport transport;
  std::array<char, 16 * 1024> block{};
  std::size_t begin = 0, end = 0;
  bool finished = false;  // the client has sent its FIN
};

TcpFixture::TcpFixture(EventLoop& loop, Fd listener, std::string greeting)
    : loop_(loop),
      listener_(std::move(listener)),
      greeting_(std::move(greeting)),
      acceptor_(loop, listener_.get(), *this) {
  loop_.add_turn_end_hook(*this);
}

TcpFixture::~TcpFixture() {
  loop_.remove_turn_end_hook(*this);
  for (auto& [address, echo] : echoes_) echo->transport.close(loop_);
}

void TcpFixture::on_accept(Fd fd, const Address&) {
  auto echo = std::make_unique<Echo>(*this, std::move(fd));
  Echo& one = *echo;
  if (!one.transport.attach(loop_, one)) return;
  echoes_.emplace(&one, std::move(echo));
  one.run();
}

void TcpFixture::on_turn_end() {
  for (Echo* echo : std::exchange(ended_, {})) echoes_.erase(echo);
}

}  // namespace dlb::bench
