// Log: one line an event to standard error, `ts=… level=info msg="backend up" backend=sys2 ms=12`, or the
// same as JSON. A caller formats its line and appends it to a bounded ring (lines and bytes); a writer thread
// drains it (line_writer.h). Nobody ever waits for the reader of the log: what doesn't fit is dropped,
// counted and reported when there is room again.
//
//   caller threads -> repeat limiter (warn, error) -> ring -> writer thread -> fd
//
// Output is always valid UTF-8, one line an event: control characters and bad bytes are escaped or replaced.
// Log is passed by reference, safe from any thread. It must never be given a secret, a message text or a
// signature.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/clock.h"
#include "common/line_writer.h"

namespace dlb {

enum class LogLevel : std::uint8_t { Debug, Info, Warn, Error };
enum class LogFormat : std::uint8_t { Text, Json };

// For option rows (`.choices = kLogLevels`) and their values.
inline constexpr std::string_view kLogLevels[] = {"debug", "info", "warn", "error"};
inline constexpr std::string_view kLogFormats[] = {"text", "json"};
std::optional<LogLevel> parse_log_level(std::string_view text);
std::optional<LogFormat> parse_log_format(std::string_view text);

// Appends `text` without quotes, with everything escaped that could end the line or steer a terminal: C0 by
// the JSON writer, and DEL and C1; valid UTF-8 JSON whatever the input. Cut at 2 KiB.
void append_log_escaped(std::string& out, std::string_view text);

// A key and a value that live until the call returns. Keys are literals of our own: [a-z0-9_-].
class LogField {
 public:
  enum class Kind : std::uint8_t { Text, Signed, Unsigned, Real, Bool };

  LogField(std::string_view name, std::string_view text) : key(name), kind(Kind::Text), text_value(text) {}
  LogField(std::string_view name, const char* text) : LogField(name, std::string_view(text)) {}
  LogField(std::string_view name, const std::string& text) : LogField(name, std::string_view(text)) {}
  LogField(std::string_view name, bool flag) : key(name), kind(Kind::Bool), unsigned_value(flag ? 1 : 0) {}
  LogField(std::string_view name, double number) : key(name), kind(Kind::Real), real_value(number) {}
  template <std::signed_integral Number>
  LogField(std::string_view name, Number number) : key(name), kind(Kind::Signed), signed_value(number) {}
  template <std::unsigned_integral Number>
  requires(!std::same_as<Number, bool>) LogField(std::string_view name, Number number)
      : key(name), kind(Kind::Unsigned), unsigned_value(number) {}

  std::string_view key;
  Kind kind;
  bool identity = false;  // see log_key()
  std::string_view text_value{};
  std::int64_t signed_value = 0;
  std::uint64_t unsigned_value = 0;
  double real_value = 0;
};

// A field whose value is part of what makes two lines "the same" for the repeat limit, e.g.
// log_key("backend", id). Use it for subjects of our own (backends, listeners), not for what peers choose
// (addresses, paths).
inline LogField log_key(std::string_view name, std::string_view value) {
  LogField field(name, value);
  field.identity = true;
  return field;
}

struct LogConfig {
  LogLevel level = LogLevel::Info;
  LogFormat format = LogFormat::Text;
  int fd = 2;                            // borrowed
  std::size_t max_lines = 1024;          // waiting for the writer
  std::size_t max_bytes = 256U * 1024U;  // likewise
  // Warnings and errors with the same level, message and log_key() fields: at most `repeat_limit` each
  // `repeat_interval`.
  std::uint32_t repeat_limit = 5;  // 0: no limit
  Duration repeat_interval = std::chrono::seconds(5);
  Duration flush_limit = std::chrono::seconds(1);  // how long the destructor waits for a slow reader
  // Injected by tests.
  std::int64_t (*wall_us)() = &wall_now_us;
  TimePoint (*now)() = &monotonic_now;
};

class Log {
 public:
  using Fields = std::initializer_list<LogField>;

  // Starts the writer thread, with all signals blocked in it.
  explicit Log(const LogConfig& config = {});
  // Writes what is waiting, at most `flush_limit`.
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  void debug(std::string_view message, Fields fields = {}) { write(LogLevel::Debug, message, fields); }
  void info(std::string_view message, Fields fields = {}) { write(LogLevel::Info, message, fields); }
  void warn(std::string_view message, Fields fields = {}) { write(LogLevel::Warn, message, fields); }
  void error(std::string_view message, Fields fields = {}) { write(LogLevel::Error, message, fields); }
  void write(LogLevel level, std::string_view message, Fields fields = {});

  bool enabled(LogLevel level) const;
  void set_level(LogLevel level);

  // Waits until everything logged before has been written, at most `limit`. False: it has not.
  bool flush(Duration limit);

  std::uint64_t dropped() const;     // lines that found the ring full or the fd broken
  std::uint64_t suppressed() const;  // lines held back by the repeat limit, ever

 private:
  class Sink;

  std::shared_ptr<Sink> sink_;  // shared with the writer thread
  std::atomic<LogLevel> level_;
  std::atomic<std::uint64_t> suppressed_{0};
  LineWriter writer_;
};

}  // namespace dlb
