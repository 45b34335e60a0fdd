// The access log (L26): one line for each request, told when its exchange is over. AccessNote keeps what a
// line needs of the request head, in one block of bounded size; AccessLog formats a line on the worker's
// thread and hands it to a LineWriter, so that a slow or full disk costs lines (counted), never time.
//
//   Exchange ── start: AccessNote ── end: AccessRecord ──▶ AccessLog::write() ──▶ ring ──▶ thread ──▶ file
//
// Off costs nothing. What a request says to `access-log-private-paths` in its query is never kept: on
// /message it is the message. The termination code is explained in lb/README.md.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/buffer.h"
#include "common/clock.h"
#include "common/http_message.h"
#include "common/line_writer.h"
#include "common/log.h"
#include "common/result.h"
#include "lb/peer_address.h"

namespace dlb::lb {

struct Options;

// Who ended an exchange, and in which phase.
struct EndCode {
  // '-' nobody: it is complete · C, c the client, by leaving or by letting a time-out pass · S, s likewise
  // the backend · L the balancer: a limit, a rule, its own end
  char who = 0;  // 0: not known yet
  // R request · Q queue · C connect · H response head · D data · T tunnel · '-' after the last byte
  char phase = '-';
  bool known() const { return who != 0; }
};

// What is kept of a request head until its line is written.
class AccessNote {
 public:
  static constexpr std::size_t kMethodBytes = 32;
  static constexpr std::size_t kTargetBytes = 1024;
  static constexpr std::size_t kRefererBytes = 512;
  static constexpr std::size_t kAgentBytes = 256;
  static constexpr std::size_t kIdBytes = 128;
  static constexpr std::size_t kBlockBytes =
      kMethodBytes + kTargetBytes + kRefererBytes + kAgentBytes + kIdBytes + 64;

  AccessNote() = default;
  AccessNote(AccessNote&& other) noexcept
      : block_(std::move(other.block_)),
        ends_(other.ends_),
        protocol_(other.protocol_),
        parts_(std::exchange(other.parts_, std::uint8_t{0})),
        wanted_(std::exchange(other.wanted_, false)) {}
  AccessNote& operator=(AccessNote&& other) noexcept {
    block_ = std::move(other.block_);
    ends_ = other.ends_;
    protocol_ = other.protocol_;
    parts_ = std::exchange(other.parts_, std::uint8_t{0});
    wanted_ = std::exchange(other.wanted_, false);
    return *this;
  }

  // A line is to be written. Without a block (memory is out) it will be poor.
  void begin(Buffer block) {
    block_ = std::move(block);
    wanted_ = true;
  }
  bool wanted() const { return wanted_; }
  void take(const RequestHead& head, const std::vector<std::string>& private_paths);
  // What there is of a head that makes no sense; up to its first `?`, since nobody knows what comes behind.
  void take_bad(std::string_view bytes);
  // The one that the backend gets.
  void take_request_id(std::string_view id);

  std::string_view method() const { return part(0); }
  std::string_view target() const { return part(1); }  // cut with `...`; of a bad head its first line
  std::string_view referer() const { return part(2); }
  std::string_view user_agent() const { return part(3); }
  std::string_view request_id() const { return part(4); }
  std::string_view protocol() const { return protocol_; }  // empty: a bad head

 private:
  std::string_view part(std::size_t index) const;
  void append(std::string_view text, std::size_t most, bool hidden_rest = false);

  Buffer block_;
  std::array<std::uint16_t, 5> ends_{};
  std::string_view protocol_;  // a literal
  std::uint8_t parts_ = 0;
  bool wanted_ = false;
};

// The facts of one line. Whoever ends the request (its exchange, or the tunnel that it has become) fills in
// the end.
struct AccessRecord {
  static constexpr Duration kNotReached{-1};

  PeerAddress client;
  AccessNote note;
  TimePoint started;
  std::string_view backend{};  // of the set, which lives on; empty: none was picked
  int status = 0;              // 0: no answer began
  std::uint32_t retries = 0;
  std::uint64_t bytes_in = 0;  // head and body, without chunk lines
  std::uint64_t bytes_out = 0;
  std::uint64_t head_out = 0;  // of bytes_out
  Duration queue = kNotReached, connect = kNotReached, response = kNotReached;
  EndCode end{};
};

enum class AccessFormat : std::uint8_t { Combined, Json };
inline constexpr std::string_view kAccessFormats[] = {"combined", "json"};

// One line with its newline, appended to `out`. Pure.
void append_access_line(std::string& out, AccessFormat format, const AccessRecord& record, Duration total,
                        std::int64_t wall_us);

class AccessLog {
 public:
  // Null when the log is off. The error says what to do. `log` hears of lines that can't be written.
  static Result<std::unique_ptr<AccessLog>> open(const Options& options, Log& log);
  ~AccessLog();
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;

  // Any thread. The request is over since `now`.
  void write(const AccessRecord& record, TimePoint now);
  // Any thread: the file is opened anew by its name, for rotation; lines before and after land in either. A
  // file that can't be opened leaves the old one in use.
  void reopen();
  bool flush(Duration limit) { return writer_->flush(limit); }

  std::uint64_t lines() const { return writer_->accepted(); }
  std::uint64_t dropped() const { return writer_->dropped(); }
  std::uint64_t failed() const { return writer_->failed(); }

 private:
  class File;

  AccessLog(std::shared_ptr<File> file, const Options& options);

  const AccessFormat format_;
  std::shared_ptr<File> file_;
  std::unique_ptr<LineWriter> writer_;
};

}  // namespace dlb::lb
