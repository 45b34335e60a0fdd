// LineWriter: a bounded ring of lines (lines and bytes), drained by a thread of its own into a descriptor.
// The shared half of Log and of the balancer's access log. Who appends never waits for a slow reader, a slow
// disk or a full one: a line that does not fit is dropped and counted.
//
//   any thread ── append() ──▶ ring ──▶ writer thread ── LineSink: where to, what else ──▶ fd
//
// A destroyed writer waits a bounded time for what is left. Its thread may outlive it when it is stuck in
// write(2), so that it owns, together with the LineWriter, all that it touches, the sink included.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/clock.h"

namespace dlb {

struct LineWriterConfig {
  std::size_t max_lines = 1024;          // waiting for the writer
  std::size_t max_bytes = 256U * 1024U;  // likewise
  Duration gather{0};                    // how long lines gather before they are written together; 0: at once
  Duration look_every{0};  // prepare() is called this often also when there is no line; 0: it is not
  Duration flush_limit = std::chrono::seconds(1);  // how long the destructor waits for a slow reader
};

// What the writer thread asks and tells; every call is on that thread.
class LineSink {
 public:
  virtual ~LineSink() = default;
  // Before each batch: the descriptor to write it to, which stays the sink's. May append lines of its own to
  // `batch`. `last`: the writer is being destroyed.
  virtual int prepare(std::string& batch, bool last) = 0;
  // `lines` found the ring full since the last report: may append a line that says so.
  virtual void report_drops(std::uint64_t /*lines*/, std::string& /*batch*/) {}
  // `lines` could not be written.
  virtual void write_failed(int /*err*/, std::uint64_t /*lines*/) {}
};

class LineWriter {
 public:
  // Starts the thread, with all signals blocked in it. When there is none to be had, every line counts as
  // dropped: see running().
  LineWriter(const LineWriterConfig& config, std::shared_ptr<LineSink> sink);
  // Writes what is waiting, at most `flush_limit`.
  ~LineWriter();
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  bool running() const;
  // `line` ends with its newline. Holds a lock for one copy.
  void append(std::string_view line);
  // Makes the thread call prepare() soon.
  void wake();
  // Waits until everything appended before has been written or given up, at most `limit`. False: it has not.
  bool flush(Duration limit);

  std::uint64_t accepted() const;  // lines that found room
  std::uint64_t dropped() const;   // lines that found the ring full
  std::uint64_t failed() const;    // lines that could not be written

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace dlb
