// RawClient: a scripted byte-level client for tests that run a server on a loop in the same thread: it sends
// exact bytes, and turns the loop until what it waits for has come (or a deadline ends the wait: a test fails
// then, it never hangs).
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <string_view>

#include "common/event_loop.h"
#include "common/socket.h"

namespace dlb::test {

// Turns `loop` until `done()`; false when that takes longer than `longest`.
template <class Done>
bool run_until(EventLoop& loop, Done&& done, Duration longest = std::chrono::seconds(5)) {
  const TimePoint deadline = monotonic_now() + longest;
  while (!done()) {
    if (monotonic_now() > deadline) return false;
    loop.run_once(std::chrono::milliseconds(2));
  }
  return true;
}

class RawClient {
 public:
  RawClient(EventLoop& loop, std::uint16_t port, SocketBuffers buffers = {}) : loop_(loop) {
    bool in_progress = false;
    auto address = Address::parse("127.0.0.1:" + std::to_string(port));
    auto fd = connect_start(*address, &in_progress, buffers);
    if (fd) fd_ = std::move(*fd);
    if (fd_ && in_progress) {
      pollfd waiting{fd_.get(), POLLOUT, 0};
      ::poll(&waiting, 1, 2000);
    }
  }

  int fd() const { return fd_.get(); }
  const std::string& received() const { return received_; }
  bool at_end() const { return eof_ || error_ != 0; }
  bool clean_end() const { return eof_ && error_ == 0; }  // FIN, no RST
  int error() const { return error_; }

  // Sends everything, turning the loop while the socket is full. False when the peer broke the connection.
  bool send(std::string_view bytes) {
    return run_until(loop_,
                     [&] {
                       while (!bytes.empty() && error_ == 0) {
                         const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
                         if (sent < 0) {
                           if (errno == EAGAIN) break;
                           error_ = errno;
                           return true;
                         }
                         bytes.remove_prefix(static_cast<std::size_t>(sent));
                       }
                       return bytes.empty() || error_ != 0;
                     }) &&
           error_ == 0;
  }

  void finish() { ::shutdown(fd_.get(), SHUT_WR); }
  void reset() {
    set_reset_on_close(fd_.get());
    fd_.reset();
  }
  void close() { fd_.reset(); }

  // Reads what is there, at most `most` bytes.
  void read_some(std::size_t most = SIZE_MAX) {
    char block[16384];
    while (!at_end() && fd_ && most > 0) {
      const ssize_t got = ::recv(fd_.get(), block, std::min(sizeof block, most), 0);
      if (got > 0) {
        received_.append(block, static_cast<std::size_t>(got));
        most -= static_cast<std::size_t>(got);
      } else if (got == 0) {
        eof_ = true;
      } else {
        if (errno != EAGAIN) error_ = errno;
        return;
      }
    }
  }

  template <class Done>
  bool wait(Done&& done, Duration longest = std::chrono::seconds(5)) {
    return run_until(
        loop_,
        [&] {
          read_some();
          return done();
        },
        longest);
  }
  bool wait_for(std::string_view text) {
    return wait([&] { return received_.find(text) != std::string::npos; });
  }
  bool wait_for_end(Duration longest = std::chrono::seconds(5)) {
    return wait([&] { return at_end(); }, longest);
  }
  // A number of whole answers with Content-Length, none of them to HEAD.
  bool wait_for_answers(int count) {
    return wait([&] { return count_answers() >= count; });
  }

  int count_answers() const {
    int answers = 0;
    std::size_t at = 0;
    while (true) {
      const std::size_t end = received_.find("\r\n\r\n", at);
      if (end == std::string::npos) return answers;
      const std::size_t field = received_.find("Content-Length: ", at);
      const std::size_t length =
          field < end ? std::strtoull(received_.c_str() + field + 16, nullptr, 10) : std::size_t{0};
      if (received_.size() < end + 4 + length) return answers;
      at = end + 4 + length;
      ++answers;
    }
  }
  std::string take() { return std::exchange(received_, {}); }

 private:
  EventLoop& loop_;
  Fd fd_;
  std::string received_;
  bool eof_ = false;
  int error_ = 0;
};

}  // namespace dlb::test
