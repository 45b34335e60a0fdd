// LineSource: lines of a descriptor (the standard input: a terminal, a pipe or a file) on the loop, asked for
// one at a time, so that what is not asked for stays where it is.
//
// The descriptor is never made non-blocking: a terminal is shared with the shell. It is read once when the
// loop says that there is something, and files, which epoll refuses, when a line is asked for. Loop thread.
#pragma once

#include <cstddef>
#include <string>

#include "common/event_loop.h"

namespace dlb::loadgen {

class LineUser {
 public:
  // What wait_line() asked for, without its newline.
  virtual void on_line(std::string line) = 0;
  // Longer than kMaxLineBytes: it is skipped. Ask again.
  virtual void on_long_line() = 0;
  virtual void on_lines_end() = 0;

 protected:
  ~LineUser() = default;
};

class LineSource final : public EventHandler, public TurnEndHook {
 public:
  static constexpr std::size_t kMaxLineBytes = 1024 * 1024;

  LineSource(EventLoop& loop, int fd, LineUser& user);
  LineSource(const LineSource&) = delete;
  LineSource& operator=(const LineSource&) = delete;
  ~LineSource();

  // One call of the user's follows, later and not from inside this.
  void wait_line();

  void on_events(std::uint32_t events) override;
  void on_turn_end() override;

 private:
  void read_more();
  void deliver();
  void watch(bool on);

  EventLoop& loop_;
  int fd_;
  LineUser& user_;
  SourceId source_;
  bool is_file_ = false;  // always readable, and not for epoll
  bool wanted_ = false;
  bool ended_ = false;
  bool skipping_ = false;  // inside a line that is too long
  std::string bytes_;
};

}  // namespace dlb::loadgen
