// What a service manager and a process talk about, as systemd does it: listening sockets that are handed over
// at start (LISTEN_FDS, LISTEN_PID), and words about the state (sd_notify's datagrams to NOTIFY_SOCKET). An
// upgrade of a running program hands its sockets over in the same way. No library: it is a few lines.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/address.h"
#include "common/fd.h"

namespace dlb {

// The first descriptor that is handed over.
inline constexpr int kFirstHandedOver = 3;

// Listening sockets that were handed over to this process. Start-up, one thread.
class InheritedSockets {
 public:
  InheritedSockets() = default;  // none

  // Those of the environment, which says so no longer afterwards: children are handed nothing by mistake.
  static InheritedSockets from_environment();

  // The one that listens at `address`, non-blocking and close-on-exec; !valid when there is none.
  Fd take(const Address& address);
  // Closes those that nobody has taken, lest clients wait in their backlogs for nobody: where they listen.
  std::vector<std::string> close_rest();

 private:
  std::vector<Fd> sockets_;
};

// Tells the service manager, such as `READY=1`, `STOPPING=1`, lines joined by \n. Nothing happens without one
// (NOTIFY_SOCKET), nor when it can't be told. Any thread; never blocks.
void notify_service_manager(std::string_view state);

// For `RELOADING=1`: the line that has to stand beside it, since when.
std::string_view monotonic_usec_line(char (&out)[64]);

}  // namespace dlb
