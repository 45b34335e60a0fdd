// SupervisorLink: the balancer's end of the talk with its supervisor (supervisor.h). Sends requests and takes
// in states; knows nothing of what they are for. One thread at a time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/fd.h"
#include "common/result.h"
#include "lb/supervisor_protocol.h"

namespace dlb::lb {

class SupervisorLink {
 public:
  SupervisorLink() = default;  // to nobody

  // Starts a supervisor. `environment`: of those that it starts.
  static Result<SupervisorLink> start(const char* const* environment);
  // The one whose socket an upgrade has handed over, and what it runs. Waits for its answer, `longest` at
  // most; nothing when it doesn't answer.
  static std::optional<SupervisorLink> take_over(Fd socket, Duration longest,
                                                 std::vector<SupervisedChild>& children);

  explicit operator bool() const { return static_cast<bool>(socket_); }
  int fd() const { return socket_.get(); }
  int pid() const { return pid_; }  // 0: another process has started it

  // False when it can't be told: it is gone, or hasn't read for long.
  bool send(const SupervisorRequest& request) const;

  // The newest state that has come; nothing when none has. When the supervisor is gone, `gone` is set and the
  // link is to be dropped.
  std::optional<std::vector<SupervisedChild>> receive(bool& gone) const;

  // It ends its children and itself; waits for that, `longest` at most. False: it still runs.
  bool end(Duration longest);
  // Closes this end; the supervisor goes on as long as somebody has another.
  void drop();
  // The same when it is gone: leaves no zombie. Waits a second for its process at most; false: that is stuck
  // in the kernel, and left.
  bool bury();

 private:
  Fd socket_;
  int pid_ = 0;
};

}  // namespace dlb::lb
