// What the users of the chat add to a comparison: deliveries a second and fan-out latency, to be judged with
// all other figures, and what subscribers got wrong, which is judged here: a run that is not right is wrong,
// not slow. Pure.
//
//   all runs of both sides have `chat`   figures and facts; one run a side: the figures are shown without a
//                                        verdict, as `series` has no seconds of the chat
//   some have                            a reason why nothing is compared, and the fact of a side that failed
//   none has                             nothing
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "loadgen/compare.h"

namespace dlb::loadgen {

struct ChatComparison {
  ChatSides sides = ChatSides::None;
  std::string reason;                  // with Some
  std::vector<FigureVerdict> figures;  // their estimates; verdicts are still to be given
  std::vector<FigureVerdict> faults;   // rows a run that subscribers got wrong, with verdicts
  std::optional<FigureVerdict> wrong;  // share of the runs that are not right, with a verdict; unless all are
  std::vector<std::string> warnings;
  bool open = false;  // what could not be judged is apart, so "the same" can't be said
};

// Both sides need at least one run.
ChatComparison compare_chats(std::span<const ComparedRun> a, std::span<const ComparedRun> b,
                             const CompareSettings& settings);

}  // namespace dlb::loadgen
