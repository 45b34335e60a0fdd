// HttpProbe: a one-shot HTTP client for health checks and statistics. One probe is one connection of its own:
// connect, send, read the answer, verdict, close; or connect only. ONE deadline covers all of it from start()
// on, and no byte puts it off. At most one at a time. What it reads is bounded: a head of 16 KiB,
// kMaxBodyBytes of the body (then it stops reading and the answer counts as whole), kMaxInterim interim
// heads. It judges no status: that is the caller's.
//
//   start ──▶ connecting ──▶ sending, reading ──▶ on_probe_done() ──▶ ready for the next start
//                └────────────────┴── deadline, refusal, garbage ──▲
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/address.h"
#include "common/chunked.h"
#include "common/event_loop.h"
#include "common/http_parser.h"
#include "common/timer_heap.h"
#include "common/transport.h"

namespace dlb {

enum class ProbeMethod : std::uint8_t { Get, Head, Tcp };

struct ProbeRequest {
  Address address;
  ProbeMethod method = ProbeMethod::Get;
  std::string_view path = "/";  // copied
  std::string_view host{};      // the Host field; copied; empty: the address as text
  std::string_view user_agent = "dlb-lb";
  Duration timeout = std::chrono::seconds(1);
};

enum class ProbeFailure : std::uint8_t {
  None,       // a whole answer (or, with Tcp, a connection)
  Connect,    // refused, unreachable
  OurFault,   // no descriptor or memory for a socket: says nothing of the peer
  Timeout,    // the deadline, in whatever state
  Broken,     // closed or reset before the answer was whole
  Malformed,  // not HTTP, or a head over its limit
};

struct ProbeResult {
  ProbeFailure failure = ProbeFailure::None;
  bool connected = false;   // it got that far
  int status = 0;           // 0 when there was no whole head
  std::string_view body{};  // valid during on_probe_done() only; cut at kMaxBodyBytes
  bool body_cut = false;
  std::string_view error{};  // with a failure: one sentence; valid during on_probe_done() only
  Duration duration{};       // from start() to the verdict

  bool ok() const { return failure == ProbeFailure::None; }
};

class HttpProbe;

class HttpProbeHandler {
 public:
  // Exactly once for each start() that answered true, never from inside start(), unless cancel() came first.
  // start() may be called again from inside; the probe may not be destroyed.
  virtual void on_probe_done(HttpProbe& probe, const ProbeResult& result) = 0;

 protected:
  ~HttpProbeHandler() = default;
};

class HttpProbe final : public EventHandler, public HeapTimerHandler {
 public:
  static constexpr std::size_t kMaxBodyBytes = 64 * 1024;
  static constexpr int kMaxInterim = 64;

  HttpProbe(EventLoop& loop, TimerHeap& timers, HttpProbeHandler& handler);
  HttpProbe(const HttpProbe&) = delete;
  HttpProbe& operator=(const HttpProbe&) = delete;
  ~HttpProbe() { cancel(); }

  // False, and nothing happens, while the last one still runs: the caller counts a skipped tick.
  bool start(const ProbeRequest& request);
  bool running() const { return running_; }
  void cancel();  // without a verdict

  void on_events(std::uint32_t events) override;
  void on_heap_timer(HeapTimer& timer) override;

 private:
  enum class Reading : std::uint8_t { Head, Body };

  void finish(ProbeFailure failure, std::string_view error);
  bool connect_completed();
  void send_rest();
  void read_answer();
  bool take_input();  // true when there is a verdict
  bool take_head();
  bool take_body();
  bool take_chunks();
  bool add_body(std::string_view bytes);  // true when the bound is reached

  EventLoop& loop_;
  HttpProbeHandler& handler_;
  HeapTimer deadline_;
  Transport transport_;
  HeadParser parser_;
  TimePoint started_{};
  ProbeMethod method_ = ProbeMethod::Get;
  Address address_;
  std::string request_;
  std::size_t sent_ = 0;
  std::string input_;  // what is not yet understood
  std::string body_;
  std::size_t scanned_ = 0;
  int interim_ = 0;
  std::string early_error_;  // of a connect that failed within start(): told by the timer
  ProbeFailure early_failure_ = ProbeFailure::Connect;
  ChunkDecoder decoder_;
  BodyFraming framing_ = BodyFraming::None;
  std::uint64_t remaining_ = 0;
  int status_ = 0;
  Reading reading_ = Reading::Head;
  bool running_ = false;
  bool connecting_ = false;
  bool connected_ = false;
  bool body_cut_ = false;
};

}  // namespace dlb
