// InstanceLife: what the supervisor's states (supervisor_protocol.h) say of one instance of [autoscale], from
// the request to start it until its port is free for another. Pure.
//
//   asked for ──listed──▶ running ──exited──▶ ended ──no longer listed──▶ over
//      └─ not listed: said before the request was read
//
// It is over only when the supervisor has forgotten it. Until then each state may tell of the same end again,
// and that must not be taken for the end of the next instance at its port.
#pragma once

#include <cstdint>

#include "lb/supervisor_protocol.h"

namespace dlb::lb {

struct InstanceLife {
  enum class News : std::uint8_t {
    None,
    Ended,  // `status` says how; it is still listed
    Over,   // no longer listed: also of one whose end has not been told
  };

  // Another state has come: its line about the instance, null when it has none.
  News hear(const SupervisedChild* told) {
    if (told == nullptr) return confirmed ? News::Over : News::None;
    confirmed = true;
    pid = told->pid;
    if (told->state != ChildState::Exited || ended) return News::None;
    ended = true;
    status = told->status;
    return News::Ended;
  }

  int pid = 0;             // 0: not known yet
  bool confirmed = false;  // the supervisor has told of it
  bool ended = false;
  int status = 0;  // with `ended`
};

}  // namespace dlb::lb
