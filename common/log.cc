#include "common/log.h"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <mutex>

#include "common/json_writer.h"
#include "common/log_repeats.h"

namespace dlb {
namespace {

constexpr std::size_t kMaxValueBytes = 2048;  // of one message or field; longer ones are cut

std::string_view level_name(LogLevel level) { return kLogLevels[static_cast<std::size_t>(level)]; }

template <std::size_t N>
std::optional<std::size_t> index_in(const std::string_view (&names)[N], std::string_view text) {
  const auto found = std::find(std::begin(names), std::end(names), text);
  if (found == std::end(names)) return std::nullopt;
  return static_cast<std::size_t>(found - std::begin(names));
}

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  append_log_escaped(out, text);
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

void append_log_escaped(std::string& out, std::string_view text) {
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

// The writer thread's side.
class Log::Sink final : public LineSink {
 public:
  explicit Sink(const LogConfig& log_config)
      : config(log_config), repeats(log_config.repeat_limit, log_config.repeat_interval) {}

  int prepare(std::string& batch, bool last) override {
    const std::lock_guard lock(repeats_mutex);
    repeats.sweep(config.now(), last, [&](const LogRepeats::Held& held) { append_suppressed(batch, held); });
    return config.fd;
  }
  void report_drops(std::uint64_t lines, std::string& batch) override {
    format_line(batch, config.format, config.wall_us(), LogLevel::Warn, "log lines dropped",
                {{"count", lines}}, 0);
  }
  void append_suppressed(std::string& out, const LogRepeats::Held& held) const {
    format_line(out, config.format, config.wall_us(), held.level, "repeated lines suppressed",
                {{"of", held.message}}, held.suppressed);
  }

  const LogConfig config;
  std::mutex repeats_mutex;
  LogRepeats repeats;  // under repeats_mutex
};

Log::Log(const LogConfig& config)
    : sink_(std::make_shared<Sink>(config)),
      level_(config.level),
      writer_({.max_lines = config.max_lines,
               .max_bytes = config.max_bytes,
               .look_every = std::chrono::seconds(1),  // to tell of suppressed lines that had no successor
               .flush_limit = config.flush_limit},
              sink_) {
  if (writer_.running()) return;
  // No thread to be had: the program goes on, its lines count as dropped.
  static constexpr std::string_view kLine = "level=error msg=\"no thread for the log\"\n";
  [[maybe_unused]] const auto written = ::write(config.fd, kLine.data(), kLine.size());
}

Log::~Log() = default;

void Log::write(LogLevel level, std::string_view message, Fields fields) {
  if (!enabled(level)) return;
  const LogConfig& config = sink_->config;
  static thread_local std::string line;  // keeps its capacity between calls
  std::uint64_t suppressed_before = 0;
  if (level >= LogLevel::Warn && config.repeat_limit > 0) {
    std::optional<LogRepeats::Held> evicted;
    const std::lock_guard lock(sink_->repeats_mutex);
    const auto verdict =
        sink_->repeats.judge(repeat_key(level, message, fields), level, message, config.now(), evicted);
    if (evicted) {
      line.clear();
      sink_->append_suppressed(line, *evicted);
      writer_.append(line);
    }
    if (!verdict) {
      suppressed_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    suppressed_before = *verdict;
  }
  line.clear();
  format_line(line, config.format, config.wall_us(), level, message, fields, suppressed_before);
  writer_.append(line);
}

bool Log::enabled(LogLevel level) const { return level >= level_.load(std::memory_order_relaxed); }
void Log::set_level(LogLevel level) { level_.store(level, std::memory_order_relaxed); }

bool Log::flush(Duration limit) { return writer_.flush(limit); }

std::uint64_t Log::dropped() const { return writer_.dropped() + writer_.failed(); }
std::uint64_t Log::suppressed() const { return suppressed_.load(std::memory_order_relaxed); }

}  // namespace dlb
