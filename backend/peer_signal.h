// PeerSignal: tells the other processes that share a data folder "there are new rows", by one empty datagram
// to each one's socket in `<data-dir>/notify`. Only a hint: lost ones are covered by the store's slow poll.
// Sockets that nobody reads any more are removed by whoever finds them. Never blocks. Loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "common/event_loop.h"
#include "common/fd.h"
#include "common/result.h"

namespace dlb::backend {

class PeerSignal final : public EventHandler {
 public:
  // `on_signal` is called on the loop, once for any number of datagrams that came together.
  PeerSignal(EventLoop& loop, std::string data_dir, std::function<void()> on_signal);
  PeerSignal(const PeerSignal&) = delete;
  PeerSignal& operator=(const PeerSignal&) = delete;
  ~PeerSignal();

  // Makes the folder and this process's socket, once. An error leaves the poll alone to find new rows.
  Result<void> open();

  // To all others.
  void send();

  void on_events(std::uint32_t events) override;

 private:
  EventLoop& loop_;
  std::string folder_;
  std::function<void()> on_signal_;
  std::string name_;  // of this process's socket in the folder
  Fd folder_fd_;
  Fd socket_;
  SourceId source_;
};

}  // namespace dlb::backend
