// What the kernel says about this process and the machine under it: memory, CPU time, descriptors, threads,
// load, TCP memory. Reads /proc; a value that can't be read is -1. Control thread or sampler, a few times a
// second at most: counting descriptors walks /proc/self/fd on kernels before 6.2.
#pragma once

#include <cstdint>
#include <string>

namespace dlb {

struct ProcessStats {
  std::int64_t rss_bytes = -1;
  double user_cpu_seconds = -1;
  double system_cpu_seconds = -1;
  std::int64_t open_fds = -1;
  std::int64_t threads = -1;
  double load_1m = -1;
  double load_5m = -1;
  double load_15m = -1;
  std::int64_t tcp_memory_bytes = -1;  // all TCP sockets of the kernel, from /proc/net/sockstat
};

// `proc` is injected by tests. CPU seconds are getrusage()'s, whatever `proc` says.
ProcessStats read_process_stats(const std::string& proc = "/proc");

// The parts that are wanted more often.
std::int64_t read_rss_bytes(const std::string& proc = "/proc");
std::int64_t read_tcp_memory_bytes(const std::string& proc = "/proc");

}  // namespace dlb
