// How a client gets on: whether it still takes its response (client-write-timeout), and whether it is fast
// enough (client-min-rate). Both go by what the client has acknowledged, not by what our writes got rid of:
// those move in steps of the kernel's buffer, which a slow reader may need longer for than the timeout.
//
// Looking costs a syscall, so there is none while writes go on: each of them puts the first look off.
//
//   stuck writing ──kFirstLook──▶ look ──client-write-timeout / kLooks──▶ look ─ … nothing taken in all that
//   time: cut
#include "common/socket.h"
#include "lb/downstream.h"
#include "lb/exchange.h"
#include "lb/worker.h"

namespace dlb::lb {

// Below 0 while bytes of earlier answers are queued as well.
std::int64_t Exchange::acknowledged() const {
  return static_cast<std::int64_t>(client_bytes_) -
         static_cast<std::int64_t>(unacknowledged_bytes(downstream_.transport().fd()));
}

// --- client-write-timeout

void Exchange::arm_look() {
  reader_moved_at_ = worker_.loop().now();
  reader_acked_ = kNotLooked;
  worker_.timers().client_look.arm(timer_);
}

void Exchange::look_at_reader() {
  const TimePoint now = worker_.loop().now();
  const std::int64_t acked = acknowledged();
  if (reader_acked_ != kNotLooked && acked > reader_acked_) reader_moved_at_ = now;
  reader_acked_ = acked;
  if (now - reader_moved_at_ < worker_.options().client_write_timeout) {
    return worker_.timers().client_tick.arm(timer_);
  }
  worker_.metrics().client_write_timeouts.add();
  give_up_on_reader();
}

// --- client-min-rate

std::int64_t Exchange::moved(ClientPace::Owes what) const {
  return what == ClientPace::Owes::Reads ? acknowledged()
                                         : static_cast<std::int64_t>(request_.payload_bytes());
}

// What the exchange waits for changes to `wait`.
void Exchange::note_debt(Wait wait) {
  using Owes = ClientPace::Owes;
  const Owes owes = wait == Wait::ClientBody    ? Owes::Body
                    : wait == Wait::ClientWrite ? Owes::Reads
                                                : Owes::Nothing;
  if (owes == pace_.owes() || worker_.options().client_min_rate.bytes == 0) return;
  const TimePoint now = worker_.loop().now();
  if (owes != Owes::Nothing && owes != pace_.watched()) {
    pace_.set_owes(Owes::Nothing, now);
    pace_.watch(owes, moved(owes));
    worker_.timers().client_rate.arm(pace_timer_);
  }
  pace_.set_owes(owes, now);
}

void Exchange::judge_pace() {
  const Options& options = worker_.options();
  const ClientPace::Owes what = pace_.watched();
  switch (pace_.judge(worker_.loop().now(), moved(what), options.client_min_rate.bytes,
                      options.client_min_rate_window)) {
    case ClientPace::Verdict::Unripe:
    case ClientPace::Verdict::InTime:
      return worker_.timers().client_rate.arm(pace_timer_);
    case ClientPace::Verdict::TooSlow:
      break;
  }
  worker_.metrics().client_too_slow.add();
  if (what == ClientPace::Owes::Reads) return give_up_on_reader();
  give_up_on_uploader("the request body came more slowly than client-min-rate");
}

// --- the end

void Exchange::give_up_on_uploader(std::string_view detail) {
  client_keep_alive_ = false;
  note_end('c', state_ == State::Responding ? 'D' : 'R');
  if (state_ == State::Responding) return cut();
  release_upstream(false);
  answer(408, "timeout", detail);
}

// What it does not read shall not stay in the kernel either.
void Exchange::give_up_on_reader() {
  note_end('c', 'D');
  cut(Cut::Reset);
}

}  // namespace dlb::lb
