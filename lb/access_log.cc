#include "lb/access_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <iterator>
#include <mutex>
#include <utility>

#include "common/fd.h"
#include "common/json_writer.h"
#include "lb/options.h"
#include "lb/path_rules.h"

namespace dlb::lb {
namespace {

constexpr std::string_view kCut = "...";
// What waits for the writer: half a second of a fast balancer's lines. They are written together.
constexpr std::size_t kRingLines = 16 * 1024;
constexpr std::size_t kRingBytes = 2 * 1024 * 1024;
constexpr Duration kGather = std::chrono::milliseconds(50);
constexpr mode_t kFileMode = 0640;

// As nginx and Apache do: what could end the field or the line, or is no ASCII, as \xHH.
void append_quoted(std::string& out, std::string_view text) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  out += '"';
  if (text.empty()) out += '-';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f || c == '"' || c == '\\') {
      const char escape[] = {'\\', 'x', kHex[byte >> 4], kHex[byte & 0xf]};
      out.append(escape, sizeof escape);
    } else {
      out += c;
    }
  }
  out += '"';
}

// What a request is logged with whose client left before an answer began; nginx's number for it.
int status_of(const AccessRecord& record) {
  return record.status == 0 && record.end.who == 'C' ? 499 : record.status;
}

std::uint64_t body_of(const AccessRecord& record) {
  return record.bytes_out > record.head_out ? record.bytes_out - record.head_out : 0;
}

double in_ms(Duration d) { return static_cast<double>(d.count()) / 1e6; }

void append_ms(std::string& out, std::string_view name, Duration took) {
  if (took < Duration{0})
    fmt::format_to(std::back_inserter(out), " {}=-", name);
  else
    fmt::format_to(std::back_inserter(out), " {}={:.3f}", name, in_ms(took));
}

std::string_view value_of(const RequestHead& head, std::string_view name) {
  const HeaderField* const field = head.fields.find(name);
  return field == nullptr ? std::string_view{} : field->value;
}

// The path of an absolute URL in a Referer, up to its `?`.
std::string_view path_of_url(std::string_view url) {
  const std::size_t scheme = url.find("://");
  if (scheme != std::string_view::npos) url.remove_prefix(scheme + 3);
  url = url.substr(0, url.find('?'));
  const std::size_t slash = url.find('/');
  return slash == std::string_view::npos ? std::string_view("/") : url.substr(slash);
}

void append_combined(std::string& out, const AccessRecord& record, Duration total, std::int64_t wall_us) {
  const AccessNote& note = record.note;
  // A second's text serves all lines of that second.
  static thread_local std::int64_t second = -1;
  static thread_local std::string text;
  if (wall_us / 1'000'000 != second) {
    second = wall_us / 1'000'000;
    text = common_log_time(wall_us);
  }
  std::array<char, PeerAddress::kTextBytes> host;
  ((out += record.client.write_host(host)) += " - - [") += text;
  out += "] ";
  if (note.protocol().empty()) {
    append_quoted(out, note.target());
  } else {
    append_quoted(out, note.method());
    out.back() = ' ';
    const std::size_t open = out.size();
    append_quoted(out, note.target());
    out.erase(open, 1);
    out.back() = ' ';
    (out += note.protocol()) += '"';
  }
  if (status_of(record) == 0)
    out += " -";
  else
    fmt::format_to(std::back_inserter(out), " {}", status_of(record));
  fmt::format_to(std::back_inserter(out), " {} ", body_of(record));
  append_quoted(out, note.referer());
  out += ' ';
  append_quoted(out, note.user_agent());
  (out += " backend=") += record.backend.empty() ? std::string_view("-") : record.backend;
  append_ms(out, "queue_ms", record.queue);
  append_ms(out, "connect_ms", record.connect);
  append_ms(out, "response_ms", record.response);
  append_ms(out, "total_ms", total);
  fmt::format_to(std::back_inserter(out), " retries={} in={} out={} end={}{}\n", record.retries,
                 record.bytes_in, record.bytes_out, record.end.who, record.end.phase);
}

void append_text_field(std::string& out, std::string_view name, std::string_view text) {
  ((out += ",\"") += name) += "\":";
  if (text.empty()) {
    out += "null";
    return;
  }
  out += '"';
  append_log_escaped(out, text);
  out += '"';
}

void append_ms_field(std::string& out, std::string_view name, Duration took) {
  ((out += ",\"") += name) += "\":";
  if (took < Duration{0})
    out += "null";
  else
    append_json_double(out, in_ms(took), 3);
}

void append_json_line(std::string& out, const AccessRecord& record, Duration total, std::int64_t wall_us) {
  const AccessNote& note = record.note;
  ((out += "{\"time\":\"") += iso8601_utc(wall_us)) += '"';
  std::array<char, PeerAddress::kTextBytes> host;
  append_text_field(out, "client", record.client.write_host(host));
  fmt::format_to(std::back_inserter(out), ",\"client_port\":{}", record.client.port());
  append_text_field(out, "method", note.method());
  append_text_field(out, note.protocol().empty() ? "bad_request" : "target", note.target());
  append_text_field(out, "protocol", note.protocol());
  if (status_of(record) == 0)
    out += ",\"status\":null";
  else
    fmt::format_to(std::back_inserter(out), ",\"status\":{}", status_of(record));
  fmt::format_to(std::back_inserter(out), ",\"body_bytes\":{}", body_of(record));
  append_text_field(out, "referer", note.referer());
  append_text_field(out, "user_agent", note.user_agent());
  append_text_field(out, "request_id", note.request_id());
  append_text_field(out, "backend", record.backend);
  append_ms_field(out, "queue_ms", record.queue);
  append_ms_field(out, "connect_ms", record.connect);
  append_ms_field(out, "response_ms", record.response);
  append_ms_field(out, "total_ms", total);
  fmt::format_to(std::back_inserter(out),
                 ",\"retries\":{},\"bytes_in\":{},\"bytes_out\":{},\"end\":\"{}{}\"}}\n", record.retries,
                 record.bytes_in, record.bytes_out, record.end.who, record.end.phase);
}

}  // namespace

// --- the note

std::string_view AccessNote::part(std::size_t index) const {
  if (index >= parts_) return {};
  const std::size_t begin = index == 0 ? 0 : ends_[index - 1];
  return block_.data().substr(begin, ends_[index] - begin);
}

// The next part, cut to `most` bytes.
void AccessNote::append(std::string_view text, std::size_t most, bool hidden_rest) {
  if (!block_.valid() || parts_ == ends_.size()) return;
  if (text.size() + (hidden_rest ? kCut.size() : 0) > most) {
    text = text.substr(0, most - kCut.size());
    hidden_rest = true;
  }
  block_.append(text);
  if (hidden_rest) block_.append(kCut);
  ends_[parts_++] = static_cast<std::uint16_t>(block_.size());
}

void AccessNote::take(const RequestHead& head, const std::vector<std::string>& private_paths) {
  protocol_ = head.minor_version == 0 ? "HTTP/1.0" : "HTTP/1.1";
  append(head.method_text, kMethodBytes);
  const auto up_to_query = [](std::string_view url) {
    const std::size_t mark = url.find('?');
    return mark == std::string_view::npos ? url : url.substr(0, mark + 1);
  };
  const bool hidden = !head.query.empty() && path_reaches(head.path, private_paths);
  append(hidden ? up_to_query(head.target) : head.target, kTargetBytes, hidden);
  const std::string_view referer = value_of(head, "referer");
  const bool hidden_referer =
      referer.find('?') != std::string_view::npos && path_reaches(path_of_url(referer), private_paths);
  append(hidden_referer ? up_to_query(referer) : referer, kRefererBytes, hidden_referer);
  append(value_of(head, "user-agent"), kAgentBytes);
}

void AccessNote::take_bad(std::string_view bytes) {
  append({}, kMethodBytes);
  const std::size_t end = bytes.find_first_of("\r\n?");
  append(bytes.substr(0, end), kTargetBytes, end != std::string_view::npos && bytes[end] == '?');
}

void AccessNote::take_request_id(std::string_view id) {
  if (parts_ == 4) append(id, kIdBytes);
}

void append_access_line(std::string& out, AccessFormat format, const AccessRecord& record, Duration total,
                        std::int64_t wall_us) {
  if (format == AccessFormat::Json)
    append_json_line(out, record, total, wall_us);
  else
    append_combined(out, record, total, wall_us);
}

// --- the file

// The writer thread's side: the descriptor, and how it is opened anew.
class AccessLog::File final : public LineSink {
 public:
  File(std::string path, Fd fd, Log& log) : path_(std::move(path)), fd_(std::move(fd)), log_(&log) {}

  static Result<Fd> open_path(const std::string& path) {
    // Not blocking: a FIFO without a reader is an error, not a wait. A file does not care.
    const int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    const int fd = ::open(path.c_str(), flags, kFileMode);
    if (fd < 0) return errno_error("open " + path, errno);
    return Fd(fd);
  }

  void reopen() {
    if (!path_.empty()) reopen_.store(true, std::memory_order_release);
  }
  // Complaints go nowhere from now on.
  void forget_log() {
    const std::lock_guard lock(mutex_);
    log_ = nullptr;
  }

  int prepare(std::string&, bool) override {
    if (!reopen_.exchange(false, std::memory_order_acq_rel)) return fd_.get();
    auto fd = open_path(path_);
    if (fd)
      fd_ = std::move(*fd);
    else
      complain("access log not opened anew, the old file stays in use", fd.error().text);
    return fd_.get();
  }
  void write_failed(int err, std::uint64_t) override {
    complain("access log lines lost", errno_error("write", err).text);
  }

 private:
  void complain(std::string_view message, const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (log_ != nullptr) log_->error(message, {{"reason", reason}});
  }

  const std::string path_;  // empty: standard output
  Fd fd_;
  std::atomic<bool> reopen_{false};
  std::mutex mutex_;
  Log* log_;  // under mutex_; this thread may outlive it
};

Result<std::unique_ptr<AccessLog>> AccessLog::open(const Options& options, Log& log) {
  if (options.access_log == "off" || options.access_log.empty()) return std::unique_ptr<AccessLog>();
  const bool standard_output = options.access_log == "-";
  Fd fd(standard_output ? ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3) : -1);
  if (!standard_output) {
    auto opened = File::open_path(options.access_log);
    if (!opened) return opened.error();
    fd = std::move(*opened);
  }
  auto file =
      std::make_shared<File>(standard_output ? std::string() : options.access_log, std::move(fd), log);
  return std::unique_ptr<AccessLog>(new AccessLog(std::move(file), options));
}

AccessLog::AccessLog(std::shared_ptr<File> file, const Options& options)
    : format_(options.access_log_format == "json" ? AccessFormat::Json : AccessFormat::Combined),
      file_(std::move(file)),
      writer_(std::make_unique<LineWriter>(
          LineWriterConfig{.max_lines = kRingLines, .max_bytes = kRingBytes, .gather = kGather}, file_)) {}

AccessLog::~AccessLog() {
  writer_.reset();
  file_->forget_log();
}

void AccessLog::write(const AccessRecord& record, TimePoint now) {
  static thread_local std::string line;  // keeps its capacity between calls
  line.clear();
  append_access_line(line, format_, record, now - record.started, wall_now_us());
  writer_->append(line);
}

void AccessLog::reopen() {
  file_->reopen();
  writer_->wake();
}

}  // namespace dlb::lb
