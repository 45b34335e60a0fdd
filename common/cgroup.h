// Cgroup: memory and CPU of the cgroup that this process runs in, v2, v1 or hybrid (each controller is looked
// for on its own), and the tightest limits among it and its ancestors. Reads only; judges nothing (guards are
// pure classes).
//
// Files are opened once and read again with pread. A file that is missing gives an absent value (-1), never
// an error.
//   unreclaimable = anonymous + shared + kernel + socket memory; reclaimable slab, where it is told apart, is
//   left out working set   = total - inactive_file
// Memory percentages are of the tightest limit. Without one (or with one above the machine's memory) they are
// of MemTotal, and unreclaimable_percent is the whole machine's (MemTotal - MemAvailable) / MemTotal: nothing
// bounds us but what is left of the machine.
// Limits, and what is left of the machine where it isn't the limit, are read again when they are older than
// kLimitsAge. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/fd.h"

namespace dlb {

// Where to look; tests point these at fixture folders.
struct CgroupPaths {
  std::string cgroup_root = "/sys/fs/cgroup";
  std::string self_cgroup = "/proc/self/cgroup";
  std::string meminfo = "/proc/meminfo";
  int machine_cpus = 0;  // 0: those this process may run on (sched_getaffinity)
};

// Bytes; -1: not known here. Percentages 0-100 and above; -1: not known.
struct CgroupMemory {
  std::int64_t total = -1;
  std::int64_t anon = -1;
  std::int64_t shmem = -1;
  std::int64_t kernel = -1;
  // -1 where the cgroup doesn't count it: take the kernel's own figure (process_stats.h).
  std::int64_t sock = -1;
  std::int64_t slab_reclaimable = -1;
  std::int64_t inactive_file = -1;
  std::int64_t unreclaimable = -1;
  std::int64_t working_set = -1;
  std::int64_t limit = -1;  // what percentages are of: the tightest cgroup limit, else the machine's memory
  bool limit_is_machine = false;
  std::int64_t machine_total = -1;
  std::int64_t machine_available = -1;
  double total_percent = -1;
  double working_set_percent = -1;
  double unreclaimable_percent = -1;
};

// A reading of the CPU clock; two make a percentage.
struct CgroupCpu {
  std::int64_t used_ns = -1;  // CPU time of the cgroup; of this process when the cgroup doesn't tell
  double quota_cpus = -1;     // tightest quota in CPUs; -1: none
  bool of_process = false;
  TimePoint at{};
};

// Bytes, -1: not known.
struct MemoryLimits {
  TimePoint at{};               // when they were read
  std::int64_t tightest = -1;   // of the cgroup and its ancestors; -1: none
  bool tcp_is_counted = false;  // v1: memory.kmem.tcp.usage_in_bytes tells only when a limit is set
  std::int64_t machine_total = -1;
  std::int64_t machine_available = -1;

  bool machine_is_tightest() const { return tightest < 0 || (machine_total > 0 && tightest > machine_total); }
};

class Cgroup {
 public:
  enum class Version : std::uint8_t { None, V1, V2 };

  static constexpr Duration kLimitsAge = std::chrono::seconds(1);

  explicit Cgroup(const CgroupPaths& paths = {});

  Version memory_version() const { return memory_version_; }
  Version cpu_version() const { return cpu_version_; }

  CgroupMemory read_memory(TimePoint now);
  CgroupCpu read_cpu(TimePoint now) const;

  // CPU used between two readings, percent of the quota (of the machine's CPUs without one). -1 when either
  // is unknown or no time has passed.
  double cpu_percent(const CgroupCpu& before, const CgroupCpu& after) const;

  // CPUs that the quota and affinity leave, rounded up, at least 1: what `workers = 0` means.
  int cpu_count() const;
  int machine_cpus() const { return machine_cpus_; }

 private:
  struct CpuLimitFiles {
    Fd quota;   // v2: cpu.max, v1: cpu.cfs_quota_us
    Fd period;  // v1: cpu.cfs_period_us
  };

  void read_limits(TimePoint now);
  void read_machine();
  double read_quota() const;

  Version memory_version_ = Version::None;
  Version cpu_version_ = Version::None;
  int machine_cpus_ = 1;
  Fd memory_total_;                // memory.current | memory.usage_in_bytes
  Fd memory_stat_;                 // memory.stat
  Fd memory_kernel_;               // v1: memory.kmem.usage_in_bytes
  Fd memory_tcp_;                  // v1: memory.kmem.tcp.usage_in_bytes
  Fd memory_tcp_limit_;            // v1: memory.kmem.tcp.limit_in_bytes
  std::vector<Fd> memory_limits_;  // own first, then ancestors
  Fd cpu_usage_;                   // cpu.stat | cpuacct.usage
  std::vector<CpuLimitFiles> cpu_limits_;
  Fd meminfo_;
  std::optional<MemoryLimits> limits_;
};

}  // namespace dlb
