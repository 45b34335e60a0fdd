#include "common/process_stats.h"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <string_view>

#include "common/small_file.h"

namespace dlb {
namespace {

std::int64_t page_bytes() { return static_cast<std::int64_t>(::sysconf(_SC_PAGESIZE)); }

std::int64_t count_open_fds(const std::string& proc) {
  const std::string path = proc + "/self/fd";
  // Since Linux 6.2 the size of the folder is the count.
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && info.st_size > 0 && proc == "/proc") return info.st_size;
  DIR* folder = ::opendir(path.c_str());
  if (folder == nullptr) return -1;
  std::int64_t count = 0;
  while (const dirent* entry = ::readdir(folder)) {
    if (entry->d_name[0] != '.') ++count;
  }
  ::closedir(folder);
  return proc == "/proc" ? count - 1 : count;  // without the one that reads the folder
}

std::int64_t read_threads(const std::string& proc) {
  SmallFileText text;
  const std::string_view stat = text.read(proc + "/self/stat");
  // The name, in parentheses, may hold anything; fields are counted behind it: state is 3, num_threads 20.
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos) return -1;
  return integer_field(stat.substr(name_end + 1), 17);
}

void read_load(const std::string& proc, ProcessStats& stats) {
  SmallFileText text;
  std::string_view rest = text.read(proc + "/loadavg");
  for (double* load : {&stats.load_1m, &stats.load_5m, &stats.load_15m}) {
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), *load);
    if (error != std::errc()) return;
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    if (rest.starts_with(' ')) rest.remove_prefix(1);
  }
}

double cpu_seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

}  // namespace

std::int64_t read_rss_bytes(const std::string& proc) {
  SmallFileText text;
  const std::int64_t pages = integer_field(text.read(proc + "/self/statm"), 1);
  return pages < 0 ? -1 : pages * page_bytes();
}

std::int64_t read_tcp_memory_bytes(const std::string& proc) {
  SmallFileText text;
  std::string_view rest = text.read(proc + "/net/sockstat");
  const std::size_t line = rest.find("TCP: ");
  if (line == std::string_view::npos) return -1;
  rest.remove_prefix(line);
  rest = rest.substr(0, rest.find('\n'));
  const std::size_t mem = rest.find(" mem ");
  if (mem == std::string_view::npos) return -1;
  const std::int64_t pages = integer_field(rest.substr(mem + 5), 0);
  return pages < 0 ? -1 : pages * page_bytes();
}

ProcessStats read_process_stats(const std::string& proc) {
  ProcessStats stats;
  stats.rss_bytes = read_rss_bytes(proc);
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) == 0) {
    stats.user_cpu_seconds = cpu_seconds(usage.ru_utime);
    stats.system_cpu_seconds = cpu_seconds(usage.ru_stime);
  }
  stats.open_fds = count_open_fds(proc);
  stats.threads = read_threads(proc);
  read_load(proc, stats);
  stats.tcp_memory_bytes = read_tcp_memory_bytes(proc);
  return stats;
}

}  // namespace dlb
