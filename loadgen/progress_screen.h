// ProgressScreen: where progress is shown: a panel that is rewritten in place on a terminal, lines elsewhere.
// A reader that doesn't keep up makes text be left out, never the loop wait: on a terminal by a descriptor of
// its own that does not block (that of the caller stays as it is, others use it too). Nothing of the
// terminal's state is changed, so there is nothing to give back but the lines: clear(), which the destructor
// does too.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/fd.h"

namespace dlb::loadgen {

class ProgressScreen {
 public:
  // Borrows `fd`.
  explicit ProgressScreen(int fd);
  ProgressScreen(const ProgressScreen&) = delete;
  ProgressScreen& operator=(const ProgressScreen&) = delete;
  ~ProgressScreen() { clear(); }

  bool terminal() const { return terminal_; }
  std::size_t width() const;  // columns that may be used
  void add_line(std::string_view line);
  // In the place of what was shown last. Terminals only.
  void show(const std::vector<std::string>& lines);
  void clear();

 private:
  bool write(std::string_view text);

  int fd_;
  bool terminal_;
  Fd own_;  // the same terminal, not blocking; empty where it can't be had
  std::size_t shown_ = 0;
};

}  // namespace dlb::loadgen
