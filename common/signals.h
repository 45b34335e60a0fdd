// Signals as loop events: blocked for every thread, read from a signalfd on one loop.
#pragma once

#include <initializer_list>

#include "common/event_loop.h"
#include "common/fd.h"

namespace dlb {

class SignalHandler {
 public:
  virtual void on_signal(int signal_number) = 0;

 protected:
  ~SignalHandler() = default;
};

// Blocks `signals` in the calling thread (and the threads it will start) and ignores SIGPIPE. Call it first
// in main().
void block_signals(std::initializer_list<int> signals);

class SignalSource final : public EventHandler {
 public:
  // The signals must have been blocked in every thread.
  SignalSource(EventLoop& loop, std::initializer_list<int> signals, SignalHandler& handler);
  SignalSource(const SignalSource&) = delete;
  SignalSource& operator=(const SignalSource&) = delete;
  ~SignalSource();

  void on_events(std::uint32_t events) override;

 private:
  EventLoop& loop_;
  SignalHandler& handler_;
  Fd fd_;
  SourceId source_;
};

}  // namespace dlb
