// WriterTurns: whose turn it is to write, among the processes of one machine that share an SQLite file.
// SQLite's own lock knows no queue: who polls it meets it free only by luck while another writes in a row. So
// each who wants to write says since when, in a page of shared memory (`<data-dir>/chat.turns`), and lets
// those go first who have waited for longer.
//
//   ask() ─▶ mine()? ─no─▶ poll ─▶ mine()? ... yes ─▶ BEGIN IMMEDIATE ─▶ leave() ─▶ (write) ─▶ COMMIT
//
// Only manners: SQLite's lock alone decides who writes. Whoever has not been seen for `kSilence` (dead,
// stopped) is passed over, so nobody can hold up the others by his place in line, and a torn or wrong page
// costs no more than fairness. Never blocks. One thread for each object.
#pragma once

#include <cstddef>
#include <string>

#include "common/clock.h"

namespace dlb::backend {

class WriterTurns {
 public:
  static constexpr Duration kSilence = std::chrono::milliseconds(200);

  WriterTurns() = default;
  WriterTurns(const WriterTurns&) = delete;
  WriterTurns& operator=(const WriterTurns&) = delete;
  ~WriterTurns();

  // Maps the page, which is made when missing. Without it (false) every turn is at once.
  bool open(const std::string& path);
  void close();

  // Takes a place at the end of the line. Requires not to be in line.
  void ask(TimePoint now);
  // Whether nobody has waited for longer. Says that this one still waits: to be called every few
  // milliseconds.
  bool mine(TimePoint now);
  // Out of the line: it writes, or has given up. May be called at any time.
  void leave();

 private:
  struct Place;

  Place* places_ = nullptr;
  std::size_t place_ = 0;  // of this one in the page; kept from turn to turn
  bool in_line_ = false;
  std::int64_t asked_ = 0;
};

}  // namespace dlb::backend
