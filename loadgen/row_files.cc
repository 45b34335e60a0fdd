#include "loadgen/row_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

#include "common/fd.h"
#include "common/line_writer.h"

namespace dlb::loadgen {
namespace {

constexpr std::size_t kMaxLines = 16 * 1024;
constexpr std::size_t kMaxBytes = 4 * 1024 * 1024;
constexpr Duration kFlushLimit = std::chrono::seconds(10);
constexpr int kMaxOtherFiles = 99;

Error file_error(const std::string& path, int err) { return errno_error("write " + path, err); }

Result<void> write_all(int fd, const std::string& path, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0) {
      const int err = errno;
      if (err == EINTR) continue;
      return file_error(path, err);
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

// The first `most` bytes of the file.
Result<std::string> head_of(int fd, const std::string& path, std::size_t most) {
  std::string bytes(most, '\0');
  std::size_t have = 0;
  while (have < most) {
    const ssize_t got = ::pread(fd, bytes.data() + have, most - have, static_cast<off_t>(have));
    if (got < 0) {
      const int err = errno;
      if (err == EINTR) continue;
      return errno_error("read " + path, err);
    }
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

// What a file that other runs have written to says about ours.
enum class Fit : unsigned char { Empty, Same, Torn, Other };

// Torn: our header, and the last row has no end (a run was cut while it wrote).
Result<Fit> fit(int fd, const std::string& path, std::string_view header) {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) return file_error(path, errno);
  if (facts.st_size == 0) return Fit::Empty;
  auto head = head_of(fd, path, header.size());
  if (!head) return head.error();
  if (*head != header) return Fit::Other;
  char last = '\n';
  if (::pread(fd, &last, 1, facts.st_size - 1) < 0) return errno_error("read " + path, errno);
  return last == '\n' ? Fit::Same : Fit::Torn;
}

// A row whose end found no room goes.
void cut_to_whole_lines(int fd) {
  char bytes[4096];
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) return;
  off_t end = facts.st_size;
  while (end > 0) {
    const off_t from = std::max<off_t>(0, end - static_cast<off_t>(sizeof bytes));
    const ssize_t got = ::pread(fd, bytes, static_cast<std::size_t>(end - from), from);
    if (got != end - from) return;
    const std::size_t newline = std::string_view(bytes, static_cast<std::size_t>(got)).rfind('\n');
    end = newline == std::string_view::npos ? from : from + static_cast<off_t>(newline) + 1;
    if (newline != std::string_view::npos) break;
  }
  if (end < facts.st_size) static_cast<void>(::ftruncate(fd, end) == 0);
}

}  // namespace

class StreamFile::Sink final : public LineSink {
 public:
  explicit Sink(Fd file) : file_(std::move(file)) {}

  int fd() const { return file_.get(); }
  int err() const { return err_.load(std::memory_order_acquire); }
  int prepare(std::string&, bool) override { return file_.get(); }
  void write_failed(int err, std::uint64_t) override { err_.store(err, std::memory_order_release); }

 private:
  Fd file_;
  std::atomic<int> err_{0};
};

StreamFile::StreamFile(std::string path, std::shared_ptr<Sink> sink)
    : path_(std::move(path)), sink_(std::move(sink)) {
  LineWriterConfig config;
  config.max_lines = kMaxLines;
  config.max_bytes = kMaxBytes;
  config.gather = std::chrono::milliseconds(500);
  config.flush_limit = kFlushLimit;
  writer_ = std::make_unique<LineWriter>(config, sink_);
}

StreamFile::~StreamFile() = default;

Result<std::unique_ptr<StreamFile>> StreamFile::create(const std::string& path, std::string_view header) {
  Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file) return file_error(path, errno);
  if (auto written = write_all(file.get(), path, header); !written) {
    ::unlink(path.c_str());
    return written.error();
  }
  return std::unique_ptr<StreamFile>(new StreamFile(path, std::make_shared<Sink>(std::move(file))));
}

void StreamFile::append(std::string_view row) { writer_->append(row); }

Result<void> StreamFile::finish() {
  const bool done = writer_->flush(kFlushLimit);
  if (const int err = sink_->err(); err != 0) {
    cut_to_whole_lines(sink_->fd());
    return file_error(path_, err);
  }
  if (writer_->dropped() > 0 || !done) {
    return Error{"write " + path_ + ": the disk did not keep up, rows are missing"};
  }
  return {};
}

Result<std::string> append_rows(const std::string& folder, const std::string& name, std::string_view header,
                                std::string_view rows) {
  for (int number = 1; number <= kMaxOtherFiles; ++number) {
    const std::string path = folder + "/" + name + (number == 1 ? "" : "-" + std::to_string(number)) + ".csv";
    const Fd csv(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    if (!csv) return file_error(path, errno);
    // Runs side by side may append at once: the header comes from the one that finds the file empty.
    if (::flock(csv.get(), LOCK_EX) != 0) return file_error(path, errno);
    auto found = fit(csv.get(), path, header);
    if (!found) return found.error();
    if (*found == Fit::Other) continue;
    std::string text(*found == Fit::Empty ? header : std::string_view());
    if (*found == Fit::Torn) text = "\n";
    text += rows;
    struct stat before {};
    if (::fstat(csv.get(), &before) != 0) return file_error(path, errno);
    if (auto written = write_all(csv.get(), path, text); !written) {
      // All of them or none: what is there of others stays, a file of our own goes.
      if (::ftruncate(csv.get(), before.st_size) == 0 && before.st_size == 0) ::unlink(path.c_str());
      return written.error();
    }
    return path;
  }
  return Error{"write " + folder + "/" + name + ".csv: this file and all its successors have other columns"};
}

Result<void> write_new_file(const std::string& path, std::string_view bytes) {
  const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file) return file_error(path, errno);
  auto written = write_all(file.get(), path, bytes);
  if (!written) ::unlink(path.c_str());
  return written;
}

}  // namespace dlb::loadgen
