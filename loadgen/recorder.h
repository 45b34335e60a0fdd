// Recorder: what became of the operations of one stage. Every planned operation ends in exactly one bucket:
//
//   planned ─┬─ issued ─┬─ whole response: ok · other_2xx · 3xx · 4xx · 5xx
//            │          ├─ connect · time_out · reset · short_body · malformed
//            │          └─ interrupted (in flight when the run was stopped)
//            └─ not_issued (the run ended before it)
//
// close() checks that the buckets sum to the plan. Latencies are microseconds of ok operations, from just
// before the first byte of the request was written to the return of the read that brought the last byte of
// the response; header latency ends with the response's head. Pure: it is handed results. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/histogram.h"
#include "loadgen/connection.h"
#include "loadgen/payload.h"

namespace dlb::loadgen {

enum class Bucket : std::uint8_t {
  Ok,            // message: 200 or 201, feed: 200; with a whole body
  OtherSuccess,  // another 2xx
  Redirect,
  ClientError,
  ServerError,
  Connect,
  TimeOut,
  Reset,
  ShortBody,
  Malformed,
  Interrupted,
  NotIssued,
};
inline constexpr std::size_t kBuckets = 12;
std::string_view bucket_name(Bucket bucket);

// The bucket of an exchange that has ended; `status` counts only when it is complete.
Bucket bucket_of(OperationClass operation_class, ExchangeEnd end, int status);

inline constexpr std::uint32_t kNoBackend = UINT32_MAX;

struct OperationResult {
  OperationClass operation_class = OperationClass::Message;
  Bucket bucket = Bucket::Ok;
  std::uint16_t status = 0;            // of the head, if one came
  int err = 0;                         // errno of a failed connection
  bool idle_close_race = false;        // Reset, on a reused connection, before any byte of the response
  bool slow_reader = false;            // its latencies are kept apart
  std::uint32_t backend = kNoBackend;  // backend_index() of the head's
  Duration latency{};                  // with Ok
  bool head = false;                   // the final response's head came
  Duration header_latency{};           // with a head
  Duration intended_latency{};         // with Ok, in the open model: from the intended time
  std::uint64_t body_bytes = 0;
};

struct ClassTotals {
  std::uint64_t issued = 0;
  std::array<std::uint64_t, kBuckets> buckets{};
  std::array<std::uint64_t, 500> statuses{};  // of whole responses: 100 … 599
  std::uint64_t body_bytes = 0;
  std::uint64_t heads = 0;      // final responses whose head came, whatever became of the body
  std::uint64_t heads_2xx = 0;  // of these
  Histogram latency_us;
  Histogram header_us;
  Histogram header_2xx_us;  // of all heads_2xx, not only of ok operations
  Histogram intended_us;    // open model
  Histogram slow_us;        // latencies of slow readers, which are in none of the others

  std::uint64_t in(Bucket bucket) const { return buckets[static_cast<std::size_t>(bucket)]; }
  std::uint64_t done() const;    // all but not issued
  std::uint64_t failed() const;  // done and not ok; interrupted ones don't count
  void merge(const ClassTotals& other);
};

struct BackendShare {
  explicit BackendShare(std::string which) : name(std::move(which)) {}
  // Of ok ones, without those of slow readers.
  double latency_us_mean() const {
    return ok == slow ? 0 : static_cast<double>(latency_us_sum) / static_cast<double>(ok - slow);
  }

  std::string name;
  std::uint64_t responses = 0;  // whole ones
  std::uint64_t ok = 0;
  std::uint64_t slow = 0;            // of ok: of slow readers
  std::uint64_t latency_us_sum = 0;  // of ok, without slow
};

// Who else wants to know what is recorded, when it is: the series of a run.
class RecorderHook {
 public:
  virtual void on_planned() = 0;  // open model: an operation's time has come
  virtual void on_issued() = 0;
  // `backend` is the name that the answer bore, or empty.
  virtual void on_result(const OperationResult& result, std::string_view backend) = 0;

 protected:
  ~RecorderHook() = default;
};

// Since the latest reset_interval(): what the progress line shows.
struct IntervalTotals {
  std::uint64_t done = 0;
  std::uint64_t failed = 0;
  Histogram latency_us;                  // of ok operations, both classes
  std::vector<std::uint64_t> responses;  // per backend, as backends()
};

class Recorder {
 public:
  static constexpr std::size_t kMaxBackends = 1024;  // further ones are counted as "other"

  // The number of operations that the stage is to perform, when it is known beforehand (else what is issued).
  void set_planned(std::uint64_t planned) { planned_ = planned; }
  // Until close(); null: nobody.
  void set_hook(RecorderHook* hook) { hook_ = hook; }
  void issued(OperationClass operation_class);
  // Of the messages issued: one that an earlier operation has sent already.
  void issued_repeat() { ++repeats_; }
  // Open model: an operation's time has come; it was taken up this late.
  void taken_up(Duration lag);
  // … and it isn't issued, since too many are waiting.
  void found_queue_full() { ++queue_full_; }
  void record(const OperationResult& result);
  void record_connect(Duration took) { connect_us_.record(micros(took)); }
  void mismatched_answer() { ++mismatched_answers_; }
  // Adds what `other`, which is closed, has seen: of a run of several stages. This one is closed with it.
  void merge(const Recorder& other);
  // The stage has ended: what was planned and not issued goes to its bucket. Requires that each issued
  // operation has been recorded.
  void close();

  // `name` as the server wrote it; it is kept, and shown everywhere, with escapes (chat_text.h).
  std::uint32_t backend_index(std::string_view name);

  const ClassTotals& of(OperationClass c) const { return classes_[static_cast<std::size_t>(c)]; }
  std::uint64_t planned() const;
  std::uint64_t issued_count() const { return classes_[0].issued + classes_[1].issued; }
  std::uint64_t done() const { return classes_[0].done() + classes_[1].done(); }
  std::uint64_t failed() const { return classes_[0].failed() + classes_[1].failed(); }
  std::uint64_t in(Bucket bucket) const;  // both classes
  std::uint64_t not_issued() const { return not_issued_; }
  std::uint64_t queue_full() const { return queue_full_; }  // of not_issued()
  const Histogram& schedule_lag_us() const { return schedule_lag_us_; }
  std::uint64_t repeats() const { return repeats_; }
  std::uint64_t idle_close_races() const { return idle_close_races_; }
  std::uint64_t mismatched_answers() const { return mismatched_answers_; }
  const Histogram& connect_us() const { return connect_us_; }
  const std::vector<BackendShare>& backends() const { return backends_; }
  const std::vector<std::pair<int, std::uint64_t>>& errnos() const { return errnos_; }
  const IntervalTotals& interval() const { return interval_; }
  void reset_interval();

 private:
  static std::uint64_t micros(Duration d) {
    return d.count() <= 0 ? 0 : static_cast<std::uint64_t>(d.count()) / 1000;
  }
  void count_errno(int err, std::uint64_t times = 1);

  std::uint64_t planned_ = 0;
  std::array<ClassTotals, kOperationClasses> classes_;
  std::uint64_t not_issued_ = 0;
  std::uint64_t idle_close_races_ = 0;
  std::uint64_t repeats_ = 0;
  std::uint64_t mismatched_answers_ = 0;  // that named another message's id: answers were mixed up on the way
  Histogram connect_us_;
  std::uint64_t taken_up_ = 0;
  std::uint64_t queue_full_ = 0;
  Histogram schedule_lag_us_;
  std::vector<BackendShare> backends_;
  std::uint32_t last_backend_ = 0;
  std::vector<std::pair<int, std::uint64_t>> errnos_;
  IntervalTotals interval_;
  RecorderHook* hook_ = nullptr;
  bool closed_ = false;
};

}  // namespace dlb::loadgen
