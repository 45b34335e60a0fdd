#include "loadgen/progress_screen.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "loadgen/panel.h"

namespace dlb::loadgen {
namespace {

constexpr std::size_t kUsualWidth = 80;

}  // namespace

ProgressScreen::ProgressScreen(int fd) : fd_(fd), terminal_(::isatty(fd) == 1) {
  if (!terminal_) return;
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  own_ = Fd(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

std::size_t ProgressScreen::width() const {
  winsize size{};
  // The last column stays free: some terminals begin a new line behind it.
  if (::ioctl(fd_, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsualWidth - 1;
  return size.ws_col - 1U;
}

void ProgressScreen::add_line(std::string_view line) {
  std::string text(line);
  text += '\n';
  write(text);
}

void ProgressScreen::show(const std::vector<std::string>& lines) {
  if (write(redraw(lines, shown_))) shown_ = lines.size();
}

void ProgressScreen::clear() {
  if (shown_ > 0) write(take_away(shown_));
  shown_ = 0;
}

// False when nothing was written.
bool ProgressScreen::write(std::string_view text) {
  const int fd = own_ ? own_.get() : fd_;
  pollfd writable{fd, POLLOUT, 0};
  if (::poll(&writable, 1, 0) != 1 || (writable.revents & POLLOUT) == 0) return false;
  return ::write(fd, text.data(), text.size()) > 0;
}

}  // namespace dlb::loadgen
