#include "common/line_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "common/fd.h"
#include "test/support/catch.h"

using namespace dlb;
using namespace std::chrono_literals;

namespace {

// Writes to whichever descriptor it was given last.
class TestSink final : public LineSink {
 public:
  explicit TestSink(int fd) : target(fd) {}
  int prepare(std::string&, bool) override {
    ++batches;
    return target;
  }
  void write_failed(int err, std::uint64_t) override { last_err = err; }

  std::atomic<int> target;
  std::atomic<int> last_err{0};
  std::atomic<int> batches{0};
};

struct TemporaryFile {
  char path[32] = "/tmp/dlb-lines-XXXXXX";
  Fd fd{::mkstemp(path)};
  ~TemporaryFile() { ::unlink(path); }
  std::string text() const {
    std::string out(65536, '\0');
    const ssize_t got = ::pread(fd.get(), out.data(), out.size(), 0);
    out.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
    return out;
  }
};

}  // namespace

TEST_CASE("lines that gather are written together, at once when they are waited for", "[line_writer]") {
  TemporaryFile file;
  auto sink = std::make_shared<TestSink>(file.fd.get());
  LineWriter writer({.gather = 1h}, sink);
  for (int i = 0; i < 3; ++i) writer.append("line\n");
  REQUIRE(writer.flush(10s));
  CHECK(file.text() == "line\nline\nline\n");
  CHECK(writer.accepted() == 3);
  writer.append("last\n");
  CHECK(file.text().find("last") == std::string::npos);
}

TEST_CASE("lines that gather don't wait for ever", "[line_writer]") {
  TemporaryFile file;
  {
    LineWriter writer({.gather = 1ms}, std::make_shared<TestSink>(file.fd.get()));
    writer.append("one\n");
    while (file.text() != "one\n") std::this_thread::yield();
  }
  {  // half a ring is enough
    LineWriter writer({.max_bytes = 64, .gather = 1h}, std::make_shared<TestSink>(file.fd.get()));
    writer.append("two two two\n");
    writer.append("three three three three three\n");
    while (file.text().find("three") == std::string::npos) std::this_thread::yield();
    writer.append("four\n");  // written by the end
  }
  CHECK(file.text().ends_with("three\nfour\n"));
}

TEST_CASE("a full disk is counted and told, and the next line is a line", "[line_writer]") {
  TemporaryFile file;
  Fd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  auto sink = std::make_shared<TestSink>(full.get());
  LineWriter writer({}, sink);
  writer.append("one\n");
  writer.append("two\n");
  REQUIRE(writer.flush(10s));
  CHECK(writer.failed() == 2);
  CHECK(sink->last_err == ENOSPC);
  sink->target = file.fd.get();
  writer.append("three\n");
  REQUIRE(writer.flush(10s));
  CHECK(file.text() == "three\n");
  CHECK(writer.failed() == 2);
  CHECK(writer.dropped() == 0);
}

TEST_CASE("wake() asks the sink where to write", "[line_writer]") {
  TemporaryFile file;
  auto sink = std::make_shared<TestSink>(file.fd.get());
  LineWriter writer({}, sink);
  writer.wake();
  while (sink->batches == 0) std::this_thread::yield();
  CHECK(file.text().empty());
}
