#include "common/log.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>

#include "common/json_writer.h"
#include "common/log_repeats.h"

namespace dlb {
namespace {

constexpr std::size_t kMaxValueBytes = 2048;  // of one message or field; longer ones are cut
// A pipe that polls writable takes this much without blocking (PIPE_BUF).
constexpr std::size_t kWriteBytes = 4096;

std::string_view level_name(LogLevel level) { return kLogLevels[static_cast<std::size_t>(level)]; }

template <std::size_t N>
std::optional<std::size_t> index_in(const std::string_view (&names)[N], std::string_view text) {
  const auto found = std::find(std::begin(names), std::end(names), text);
  if (found == std::end(names)) return std::nullopt;
  return static_cast<std::size_t>(found - std::begin(names));
}

// `text` without quotes, with everything escaped that could end the line or steer a terminal: C0 by the JSON
// writer, and here DEL and C1.
void append_escaped(std::string& out, std::string_view text) {
  std::string_view tail;
  if (text.size() > kMaxValueBytes) {
    std::size_t cut = kMaxValueBytes;
    while (cut > kMaxValueBytes - 4 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;
    text = text.substr(0, cut);
    tail = "...";
  }
  const std::size_t start = out.size();
  append_json_escaped(out, text);
  for (std::size_t i = start; i < out.size(); ++i) {
    const auto byte = static_cast<unsigned char>(out[i]);
    const bool is_c1 = byte == 0xC2 && static_cast<unsigned char>(out[i + 1]) < 0xA0;
    if (byte != 0x7F && !is_c1) continue;
    static constexpr char kHex[] = "0123456789abcdef";
    const unsigned code = is_c1 ? static_cast<unsigned char>(out[i + 1]) : byte;
    const char escape[] = {'\\', 'u', '0', '0', kHex[code >> 4], kHex[code & 0xF]};
    out.replace(i, is_c1 ? 2 : 1, escape, sizeof escape);
    i += sizeof escape - 1;
  }
  out += tail;
}

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  append_escaped(out, text);
  out += '"';
}

bool needs_quotes(std::string_view text) {
  static constexpr std::string_view kBare = "_-./:@%+,[]()#*~";
  return text.empty() || text.size() > kMaxValueBytes || !std::ranges::all_of(text, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  kBare.find(c) != std::string_view::npos;
         });
}

void append_value(std::string& out, const LogField& field, LogFormat format) {
  switch (field.kind) {
    case LogField::Kind::Text:
      if (format == LogFormat::Json || needs_quotes(field.text_value))
        append_quoted(out, field.text_value);
      else
        out += field.text_value;
      break;
    case LogField::Kind::Signed:
      append_json_integer(out, field.signed_value);
      break;
    case LogField::Kind::Unsigned:
      append_json_unsigned(out, field.unsigned_value);
      break;
    case LogField::Kind::Real:
      append_json_double(out, field.real_value);
      break;
    case LogField::Kind::Bool:
      out += field.unsigned_value != 0 ? "true" : "false";
      break;
  }
}

void append_pair(std::string& out, const LogField& field, LogFormat format) {
  if (format == LogFormat::Json) {
    out += ',';
    append_quoted(out, field.key);
    out += ':';
  } else {
    out += ' ';
    out += field.key;
    out += '=';
  }
  append_value(out, field, format);
}

// One line with its newline.
void format_line(std::string& out, LogFormat format, std::int64_t wall_us, LogLevel level,
                 std::string_view message, Log::Fields fields, std::uint64_t suppressed) {
  const std::string time = iso8601_utc(wall_us);
  if (format == LogFormat::Json) {
    ((out += "{\"ts\":\"") += time) += "\",\"level\":\"";
    (out += level_name(level)) += "\",\"msg\":";
  } else {
    ((out += "ts=") += time) += " level=";
    (out += level_name(level)) += " msg=";
  }
  append_quoted(out, message);
  for (const LogField& field : fields) append_pair(out, field, format);
  if (suppressed > 0) append_pair(out, {"suppressed", suppressed}, format);
  if (format == LogFormat::Json) out += '}';
  out += '\n';
}

std::uint64_t repeat_key(LogLevel level, std::string_view message, Log::Fields fields) {
  std::uint64_t hash = std::hash<std::string_view>{}(message) + static_cast<std::uint64_t>(level);
  for (const LogField& field : fields) {
    if (!field.identity) continue;
    hash = hash * 0x9e3779b97f4a7c15U + std::hash<std::string_view>{}(field.text_value);
  }
  return hash;
}

}  // namespace

std::optional<LogLevel> parse_log_level(std::string_view text) {
  const auto index = index_in(kLogLevels, text);
  if (!index) return std::nullopt;
  return static_cast<LogLevel>(*index);
}

std::optional<LogFormat> parse_log_format(std::string_view text) {
  const auto index = index_in(kLogFormats, text);
  if (!index) return std::nullopt;
  return static_cast<LogFormat>(*index);
}

struct Log::Impl {
  explicit Impl(const LogConfig& log_config)
      : config(log_config),
        level(log_config.level),
        repeats(log_config.repeat_limit, log_config.repeat_interval) {}

  void append(std::string_view line);
  void run();
  bool write_all(std::string_view bytes);
  void report_suppressed(const LogRepeats::Held& held);

  const LogConfig config;
  std::atomic<LogLevel> level;
  std::atomic<std::uint64_t> dropped{0};
  std::atomic<std::uint64_t> suppressed{0};
  std::thread writer;

  std::mutex repeats_mutex;
  LogRepeats repeats;  // under repeats_mutex

  std::mutex mutex;  // held for a copy of one line at most
  std::condition_variable work;
  std::condition_variable progress;
  // Under mutex:
  std::string ring;
  std::size_t ring_lines = 0;
  std::uint64_t accepted = 0;  // lines ever put into the ring
  std::uint64_t finished = 0;  // of those, written or given up
  std::uint64_t unreported_drops = 0;
  bool stopping = false;
  bool stopped = false;  // the writer touches nothing any more
  std::atomic<std::int64_t> give_up_at_ns{INT64_MAX};
};

void Log::Impl::append(std::string_view line) {
  bool was_empty = false;
  {
    const std::lock_guard lock(mutex);
    if (stopped || ring_lines >= config.max_lines || line.size() > config.max_bytes - ring.size()) {
      dropped.fetch_add(1, std::memory_order_relaxed);
      ++unreported_drops;
      return;
    }
    was_empty = ring.empty();
    ring += line;
    ++ring_lines;
    ++accepted;
  }
  if (was_empty) work.notify_one();
}

// False: the lines could not all be written (broken descriptor, or the last deadline passed).
bool Log::Impl::write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    pollfd ready{config.fd, POLLOUT, 0};
    const int polled = ::poll(&ready, 1, 50);
    if (monotonic_now().time_since_epoch().count() >= give_up_at_ns.load(std::memory_order_relaxed))
      return false;
    if (polled < 0 && errno != EINTR) return false;
    if (polled <= 0) continue;
    const ssize_t written = ::write(config.fd, bytes.data(), std::min(bytes.size(), kWriteBytes));
    const int err = errno;
    if (written > 0)
      bytes.remove_prefix(static_cast<std::size_t>(written));
    else if (written < 0 && err != EINTR && err != EAGAIN)
      return false;
  }
  return true;
}

void Log::Impl::report_suppressed(const LogRepeats::Held& held) {
  std::string line;
  format_line(line, config.format, config.wall_us(), held.level, "repeated lines suppressed",
              {{"of", held.message}}, held.suppressed);
  append(line);
}

void Log::Impl::run() {
  std::string writing;
  std::unique_lock lock(mutex);
  while (true) {
    // Woken now and then to tell of suppressed lines that had no successor.
    work.wait_for(lock, std::chrono::seconds(1), [&] { return stopping || !ring.empty(); });
    const bool last = stopping;
    lock.unlock();
    {
      const std::lock_guard repeats_lock(repeats_mutex);
      repeats.sweep(config.now(), last, [&](const LogRepeats::Held& held) { report_suppressed(held); });
    }
    lock.lock();
    writing.clear();
    writing.swap(ring);
    const std::uint64_t lines = std::exchange(ring_lines, 0);
    if (const std::uint64_t drops = std::exchange(unreported_drops, 0); drops > 0) {
      format_line(writing, config.format, config.wall_us(), LogLevel::Warn, "log lines dropped",
                  {{"count", drops}}, 0);
    }
    lock.unlock();
    if (!write_all(writing)) dropped.fetch_add(lines, std::memory_order_relaxed);
    lock.lock();
    finished += lines;
    progress.notify_all();
    if (last && ring.empty()) break;
  }
  stopped = true;
  progress.notify_all();
}

Log::Log(const LogConfig& config) : impl_(std::make_shared<Impl>(config)) {
  // The thread inherits a full mask, so that signals go to those who wait for them, and SIGPIPE to nobody.
  sigset_t all{};
  sigset_t before{};
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    impl_->writer = std::thread([impl = impl_] { impl->run(); });
  } catch (
      const std::system_error&) {  // no thread to be had: the program goes on, its lines count as dropped
    static constexpr std::string_view kLine = "level=error msg=\"no thread for the log\"\n";
    [[maybe_unused]] const auto written = ::write(config.fd, kLine.data(), kLine.size());
    impl_->stopped = true;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Log::~Log() {
  Impl& impl = *impl_;
  const Duration limit = impl.config.flush_limit;
  impl.give_up_at_ns.store((monotonic_now() + limit).time_since_epoch().count(), std::memory_order_relaxed);
  std::unique_lock lock(impl.mutex);
  impl.stopping = true;
  impl.work.notify_one();
  const bool done =
      impl.progress.wait_for(lock, limit + std::chrono::milliseconds(500), [&] { return impl.stopped; });
  lock.unlock();
  // A writer that is stuck in write(2) after all keeps its own share of Impl.
  if (done)
    impl.writer.join();
  else
    impl.writer.detach();
}

void Log::write(LogLevel level, std::string_view message, Fields fields) {
  if (!enabled(level)) return;
  Impl& impl = *impl_;
  std::uint64_t suppressed_before = 0;
  if (level >= LogLevel::Warn && impl.config.repeat_limit > 0) {
    std::optional<LogRepeats::Held> evicted;
    const std::lock_guard lock(impl.repeats_mutex);
    const auto verdict =
        impl.repeats.judge(repeat_key(level, message, fields), level, message, impl.config.now(), evicted);
    if (evicted) impl.report_suppressed(*evicted);
    if (!verdict) {
      impl.suppressed.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    suppressed_before = *verdict;
  }
  static thread_local std::string line;  // keeps its capacity between calls
  line.clear();
  format_line(line, impl.config.format, impl.config.wall_us(), level, message, fields, suppressed_before);
  impl.append(line);
}

bool Log::enabled(LogLevel level) const { return level >= impl_->level.load(std::memory_order_relaxed); }
void Log::set_level(LogLevel level) { impl_->level.store(level, std::memory_order_relaxed); }

bool Log::flush(Duration limit) {
  std::unique_lock lock(impl_->mutex);
  const std::uint64_t target = impl_->accepted;
  return impl_->progress.wait_for(lock, limit, [&] { return impl_->finished >= target; });
}

std::uint64_t Log::dropped() const { return impl_->dropped.load(std::memory_order_relaxed); }
std::uint64_t Log::suppressed() const { return impl_->suppressed.load(std::memory_order_relaxed); }

}  // namespace dlb
