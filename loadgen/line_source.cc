#include "loadgen/line_source.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>

namespace dlb::loadgen {
namespace {

constexpr std::size_t kReadBytes = 64 * 1024;

}  // namespace

LineSource::LineSource(EventLoop& loop, int fd, LineUser& user) : loop_(loop), fd_(fd), user_(user) {
  loop_.add_turn_end_hook(*this);
}

LineSource::~LineSource() {
  watch(false);
  loop_.remove_turn_end_hook(*this);
}

// Level-triggered, and only while something is wanted: what is not read yet brings an event at once.
void LineSource::watch(bool on) {
  if (on == static_cast<bool>(source_) || is_file_) return;
  if (!on) {
    loop_.remove(source_, fd_, false);
    source_ = {};
    return;
  }
  auto added = loop_.add(fd_, *this, EPOLLIN);
  if (added) {
    source_ = *added;
  } else {
    is_file_ = true;
  }
}

void LineSource::wait_line() {
  if (wanted_) return;
  wanted_ = true;
  loop_.wake();  // the turn's end looks
}

void LineSource::on_turn_end() {
  if (!wanted_) return;
  deliver();
  if (!wanted_) return;
  watch(true);
  if (is_file_) {
    read_more();
    loop_.wake();
  }
}

void LineSource::on_events(std::uint32_t) { read_more(); }

void LineSource::read_more() {
  const std::size_t held = bytes_.size();
  bytes_.resize(held + kReadBytes);
  ssize_t got = 0;
  do {
    got = ::read(fd_, bytes_.data() + held, kReadBytes);
  } while (got < 0 && errno == EINTR);
  bytes_.resize(held + static_cast<std::size_t>(got > 0 ? got : 0));
  // An error of a terminal that is gone is its end.
  if (got == 0 || (got < 0 && errno != EAGAIN)) ended_ = true;
}

void LineSource::deliver() {
  const std::size_t newline = bytes_.find('\n');
  if (newline == std::string::npos && bytes_.size() > kMaxLineBytes) {
    skipping_ = true;
    bytes_.clear();
  }
  if (newline == std::string::npos && !ended_) return;
  wanted_ = false;
  watch(false);
  if (newline == std::string::npos && bytes_.empty() && !skipping_) return user_.on_lines_end();
  std::string line = bytes_.substr(0, newline);
  bytes_.erase(0, newline == std::string::npos ? newline : newline + 1);
  const bool too_long = skipping_ || line.size() > kMaxLineBytes;
  skipping_ = false;
  if (too_long) return user_.on_long_line();
  user_.on_line(std::move(line));
}

}  // namespace dlb::loadgen
