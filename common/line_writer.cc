#include "common/line_writer.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace dlb {
namespace {

// A pipe that polls writable takes this much without blocking (PIPE_BUF).
constexpr std::size_t kPipeBytes = 4096;
constexpr int kPollMs = 50;

std::uint64_t lines_in(std::string_view bytes) {
  return static_cast<std::uint64_t>(std::count(bytes.begin(), bytes.end(), '\n'));
}

}  // namespace

struct LineWriter::Shared {
  Shared(const LineWriterConfig& writer_config, std::shared_ptr<LineSink> line_sink)
      : config(writer_config), sink(std::move(line_sink)) {}

  void run();
  bool ready() const { return stopping || woken || !ring.empty(); }
  int write_all(int fd, std::string_view& bytes);
  void write_batch(int fd, std::string& batch);

  const LineWriterConfig config;
  const std::shared_ptr<LineSink> sink;
  std::atomic<std::uint64_t> dropped{0};
  std::atomic<std::uint64_t> failed{0};
  std::atomic<std::int64_t> give_up_at_ns{INT64_MAX};
  std::thread thread;
  // The writer's own: the last line in this descriptor has no end, since writing it failed half-way.
  int torn_fd = -1;

  mutable std::mutex mutex;  // held for a copy of one line at most
  std::condition_variable work;
  std::condition_variable progress;
  // Under mutex:
  std::string ring;
  std::size_t ring_lines = 0;
  std::uint64_t accepted = 0;  // lines ever put into the ring
  std::uint64_t finished = 0;  // of those, written or given up
  std::uint64_t unreported_drops = 0;
  int flushing = 0;  // who waits in flush()
  bool woken = false;
  bool stopping = false;
  bool stopped = false;  // the thread touches nothing any more
};

// 0, or why the rest that is left in `bytes` could not be written.
int LineWriter::Shared::write_all(int fd, std::string_view& bytes) {
  struct stat info {};
  const bool regular = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  const std::size_t most = regular ? bytes.size() : kPipeBytes;
  while (!bytes.empty()) {
    pollfd writable{fd, POLLOUT, 0};
    const int polled = ::poll(&writable, 1, kPollMs);
    int err = polled < 0 ? errno : 0;
    if (monotonic_now().time_since_epoch().count() >= give_up_at_ns.load(std::memory_order_relaxed))
      return ETIMEDOUT;
    if (err != 0 && err != EINTR) return err;
    if (polled <= 0) continue;
    const ssize_t written = ::write(fd, bytes.data(), std::min(bytes.size(), most));
    err = errno;
    if (written > 0)
      bytes.remove_prefix(static_cast<std::size_t>(written));
    else if (written < 0 && err != EINTR && err != EAGAIN)
      return err;
  }
  return 0;
}

void LineWriter::Shared::write_batch(int fd, std::string& batch) {
  if (batch.empty()) return;
  if (torn_fd == fd) batch.insert(batch.begin(), '\n');
  torn_fd = -1;
  std::string_view left = batch;
  const int err = write_all(fd, left);
  if (err == 0) return;
  const std::size_t done = batch.size() - left.size();
  if (done > 0 && batch[done - 1] != '\n') torn_fd = fd;
  const std::uint64_t lost = lines_in(left);
  failed.fetch_add(lost, std::memory_order_relaxed);
  sink->write_failed(err, lost);
}

void LineWriter::Shared::run() {
  std::string batch;
  std::unique_lock lock(mutex);
  while (true) {
    if (config.look_every > Duration{0})
      work.wait_for(lock, config.look_every, [&] { return ready(); });
    else
      work.wait(lock, [&] { return ready(); });
    if (config.gather > Duration{0}) {
      work.wait_for(lock, config.gather,
                    [&] { return stopping || woken || flushing > 0 || ring.size() > config.max_bytes / 2; });
    }
    const bool last = stopping;
    woken = false;
    batch.clear();
    batch.swap(ring);
    const std::uint64_t lines = std::exchange(ring_lines, 0);
    const std::uint64_t drops = std::exchange(unreported_drops, 0);
    lock.unlock();
    if (drops > 0) sink->report_drops(drops, batch);
    const int fd = sink->prepare(batch, last);
    write_batch(fd, batch);
    lock.lock();
    finished += lines;
    progress.notify_all();
    if (last && ring.empty()) break;
  }
  stopped = true;
  progress.notify_all();
}

LineWriter::LineWriter(const LineWriterConfig& config, std::shared_ptr<LineSink> sink)
    : shared_(std::make_shared<Shared>(config, std::move(sink))) {
  // The thread inherits a full mask, so that signals go to those who wait for them, and SIGPIPE to nobody.
  sigset_t all{};
  sigset_t before{};
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    shared_->thread = std::thread([shared = shared_] { shared->run(); });
  } catch (const std::system_error&) {
    shared_->stopped = true;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

LineWriter::~LineWriter() {
  Shared& shared = *shared_;
  const Duration limit = shared.config.flush_limit;
  shared.give_up_at_ns.store((monotonic_now() + limit).time_since_epoch().count(), std::memory_order_relaxed);
  std::unique_lock lock(shared.mutex);
  shared.stopping = true;
  shared.work.notify_one();
  const bool done =
      shared.progress.wait_for(lock, limit + std::chrono::milliseconds(500), [&] { return shared.stopped; });
  lock.unlock();
  if (!shared.thread.joinable()) return;
  // A writer that is stuck in write(2) after all keeps its own share.
  if (done)
    shared.thread.join();
  else
    shared.thread.detach();
}

bool LineWriter::running() const {
  const std::lock_guard lock(shared_->mutex);
  return !shared_->stopped;
}

void LineWriter::append(std::string_view line) {
  Shared& shared = *shared_;
  const std::size_t half = shared.config.max_bytes / 2;
  bool notify = false;
  {
    const std::lock_guard lock(shared.mutex);
    const std::size_t before = shared.ring.size();
    if (shared.stopped || shared.ring_lines >= shared.config.max_lines ||
        line.size() > shared.config.max_bytes - before) {
      shared.dropped.fetch_add(1, std::memory_order_relaxed);
      ++shared.unreported_drops;
      return;
    }
    shared.ring += line;
    ++shared.ring_lines;
    ++shared.accepted;
    notify = before == 0 || (before <= half && shared.ring.size() > half);
  }
  if (notify) shared.work.notify_one();
}

void LineWriter::wake() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->woken = true;
  }
  shared_->work.notify_one();
}

bool LineWriter::flush(Duration limit) {
  Shared& shared = *shared_;
  std::unique_lock lock(shared.mutex);
  const std::uint64_t target = shared.accepted;
  ++shared.flushing;
  shared.work.notify_one();
  const bool done = shared.progress.wait_for(lock, limit, [&] { return shared.finished >= target; });
  --shared.flushing;
  return done;
}

std::uint64_t LineWriter::accepted() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->accepted;
}
std::uint64_t LineWriter::dropped() const { return shared_->dropped.load(std::memory_order_relaxed); }
std::uint64_t LineWriter::failed() const { return shared_->failed.load(std::memory_order_relaxed); }

}  // namespace dlb
