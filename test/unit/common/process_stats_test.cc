#include "common/process_stats.h"

#include <fcntl.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "common/fd.h"
#include "common/small_file.h"
#include "test/support/catch.h"
#include "test/support/temp_dir.h"

using namespace dlb;

TEST_CASE("a process sees itself", "[process_stats]") {
  const ProcessStats before = read_process_stats();
  CHECK(before.rss_bytes > 100'000);
  CHECK(before.user_cpu_seconds >= 0);
  CHECK(before.system_cpu_seconds >= 0);
  CHECK(before.threads >= 1);
  CHECK(before.load_1m >= 0);
  REQUIRE(before.open_fds > 0);

  std::vector<Fd> more;
  for (int i = 0; i < 7; ++i) more.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  CHECK(read_process_stats().open_fds == before.open_fds + 7);
}

TEST_CASE("figures come from the right columns", "[process_stats]") {
  const test::TempDir dir;
  dir.write("self/statm", "1000 25 3 4 5 6 7\n");
  dir.write("self/stat", "12 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 42 18\n");
  dir.write("loadavg", "0.50 1.25 2.00 1/100 4242\n");
  dir.write("net/sockstat",
            "sockets: used 16\nTCP: inuse 1 orphan 0 tw 0 alloc 1 mem 234\nUDP: inuse 0 mem 9\n");
  dir.write("self/fd/0", "");
  dir.write("self/fd/1", "");
  const ProcessStats stats = read_process_stats(dir.path());
  const auto page = static_cast<std::int64_t>(::sysconf(_SC_PAGESIZE));
  CHECK(stats.rss_bytes == 25 * page);
  CHECK(stats.threads == 42);
  CHECK(stats.load_1m == 0.5);
  CHECK(stats.load_5m == 1.25);
  CHECK(stats.load_15m == 2.0);
  CHECK(stats.tcp_memory_bytes == 234 * page);
  CHECK(stats.open_fds == 2);
}

TEST_CASE("what isn't there is absent", "[process_stats]") {
  const test::TempDir dir;
  const ProcessStats stats = read_process_stats(dir.path());
  CHECK(stats.rss_bytes == -1);
  CHECK(stats.open_fds == -1);
  CHECK(stats.threads == -1);
  CHECK(stats.load_1m == -1);
  CHECK(stats.tcp_memory_bytes == -1);
}

TEST_CASE("numbers in columns and behind keys", "[small_file]") {
  CHECK(integer_field("7 8\t9\n10", 0) == 7);
  CHECK(integer_field("7 8\t9\n10", 3) == 10);
  CHECK(integer_field("7 8", 2) == -1);
  CHECK(integer_field("max 100", 0) == -1);
  CHECK(integer_field("99999999999999999999", 0) == INT64_MAX);
  CHECK(integer_field("12x", 0) == -1);
  CHECK(keyed_integer("ab 1\na 2\n", "a") == 2);
  CHECK(keyed_integer("MemTotal:   12 kB\n", "MemTotal:") == 12);
  CHECK(keyed_integer("a", "a") == -1);
  CHECK(keyed_integer("a \n", "a") == -1);
  CHECK(keyed_integer("", "a") == -1);
}
