// EventStream: who reads /lb/events on one loop: a data worker's, or the admin listener's. Each second one
// snapshot is made and given to all of them, by reference; while nobody reads none is made.
//
//   reserve() ── 32 in the process ──▶ the caller refuses
//      │ a place
//   begin() ──▶ head and the latest snapshot ──each second──▶ the next one ──▶ … ──▶ closed
//                 │ has not taken the one before: skipped      │ client gone, or nothing taken for
//                 └────────────────────────────────────────────┘ client-write-timeout: cut; end(): drained
//
// A reader holds its connection and, of what it has still to take, one snapshot, shared with the others;
// "taken" is what its system has acknowledged, so that the socket's buffer is no queue either. Bodies end
// with the connection, for HTTP/1.0 and 1.1 alike: nothing is framed for one reader only. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/event_loop.h"
#include "common/handle.h"
#include "common/slab.h"
#include "common/timer_list.h"
#include "common/transport.h"
#include "lb/configuration.h"
#include "lb/event_figures.h"
#include "lb/shared.h"

namespace dlb::lb {

class EventStream;

class EventReader final : public EventHandler {
 public:
  EventReader(EventStream& stream, Transport transport, Handle<EventReader> self);

  // `text` goes out, shared. Only when nothing is left of the one before. May close.
  void give(std::shared_ptr<const std::string> text);
  void on_events(std::uint32_t events) override;  // May close.
  // What is still to be taken, by us or by its system; notes when that got less.
  std::size_t debt(TimePoint now);
  TimePoint moved_at() const { return moved_at_; }  // when it last took something, or owed nothing
  std::uint64_t bytes() const { return bytes_; }    // written
  bool closed() const { return !transport_.open(); }
  // At once; what is not written yet is lost. `reset`: the kernel need not keep what nobody reads.
  void close(bool reset = false);
  Handle<EventReader> self() const { return self_; }

 private:
  bool drop_input();
  void pump();

  EventStream& stream_;
  Transport transport_;
  Handle<EventReader> self_;
  std::shared_ptr<const std::string> text_;  // null: nothing to write
  std::size_t written_ = 0;                  // of it
  std::size_t last_debt_ = 0;
  std::uint64_t bytes_ = 0;
  TimePoint moved_at_;
};

class EventStream final : public TimerHandler, public TurnEndHook {
 public:
  static constexpr Duration kInterval = std::chrono::seconds(1);

  // All must outlive it. `gone`: a reader's connection is closed; how many bytes it got.
  EventStream(EventLoop& loop, OwnPages& pages, const ConfigurationStore& configuration,
              EventFigures& figures, std::function<void(std::uint64_t bytes)> gone);
  EventStream(const EventStream&) = delete;
  EventStream& operator=(const EventStream&) = delete;
  ~EventStream();

  // A place for a reader, which begin() takes. False, and counted: there is none, or end() was called.
  [[nodiscard]] bool reserve();
  // What a request for /lb/events is answered with, from the status line on; the connection is the reader's.
  // `head_only`: HEAD gets the head, and the end.
  void begin(Transport transport, bool head_only);
  // A last snapshot for who has taken all before it, then the end of each. Nobody is let in any more.
  void end();
  bool ended() const { return ended_; }
  // Closes all at once.
  void close_all();

  void on_timer(Timer& timer) override;
  void on_turn_end() override;

 private:
  friend class EventReader;
  const std::shared_ptr<const std::string>& snapshot();

  EventLoop& loop_;
  OwnPages& pages_;
  const ConfigurationStore& configuration_;
  EventFigures& figures_;
  const std::function<void(std::uint64_t)> gone_;
  TimerList ticks_;
  Timer tick_;  // armed while somebody reads
  std::shared_ptr<const std::string> snapshot_;
  TimePoint made_at_{};
  Slab<EventReader> readers_;
  bool ended_ = false;
};

}  // namespace dlb::lb
