#include "common/cgroup.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <thread>

#include "common/small_file.h"

namespace dlb {
namespace {

constexpr int kMaxDepth = 32;                             // of ancestors looked at
constexpr std::int64_t kNoLimit = std::int64_t{1} << 62;  // v1 writes 2^63 rounded down to a page
constexpr std::int64_t kMicro = 1000;                     // ns in a microsecond

int allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

bool exists(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0;
}

Fd open_file(const std::string& directory, const char* name) {
  return Fd(::open((directory + "/" + name).c_str(), O_RDONLY | O_CLOEXEC));
}

std::string_view parent(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

// A cgroup folder inside a controller's mount: `mount + path`, path empty or `/a/b`.
struct Place {
  std::string mount;
  std::string path;
  std::string folder() const { return mount + path; }
};

// The folder below `mount` for the `path` of /proc/self/cgroup that has the file `probe`, or its nearest
// ancestor that has it (a v2 controller may be switched on only further up). In a container the mount may
// show only an inner part of the tree, so leading components are dropped until a folder is there.
std::optional<Place> find_place(const std::string& mount, std::string_view path, const char* probe) {
  if (path == "/") path = "";
  while (true) {
    if (exists(mount + std::string(path))) {
      for (std::string_view up = path;; up = parent(up)) {
        if (exists(mount + std::string(up) + "/" + probe)) return Place{mount, std::string(up)};
        if (up.empty()) break;
      }
    }
    if (path.empty()) return std::nullopt;
    const std::size_t next = path.find('/', 1);
    path = next == std::string_view::npos ? std::string_view() : path.substr(next);
  }
}

// Lines `ID:CONTROLLERS:PATH` of /proc/self/cgroup.
struct SelfCgroup {
  std::string controllers;
  std::string path;
  bool has(std::string_view controller) const {
    return ("," + controllers + ",").find("," + std::string(controller) + ",") != std::string::npos;
  }
};

std::vector<SelfCgroup> parse_self(std::string_view text) {
  std::vector<SelfCgroup> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    lines.push_back(
        {std::string(line.substr(first + 1, second - first - 1)), std::string(line.substr(second + 1))});
  }
  return lines;
}

// Where v1 mounts `controller`: by its own name, or by the names of all that share the hierarchy.
std::optional<Place> find_v1(const std::vector<SelfCgroup>& lines, const std::string& root,
                             const std::string& controller, const char* probe) {
  for (const SelfCgroup& line : lines) {
    if (line.controllers.empty() || !line.has(controller)) continue;
    for (const std::string& name : {line.controllers, controller}) {
      if (auto place = find_place(root + "/" + name, line.path, probe)) return place;
    }
  }
  return std::nullopt;
}

// v2 is at the root itself, or beside v1 hierarchies in `unified`.
std::optional<Place> find_v2(const std::vector<SelfCgroup>& lines, const std::string& root,
                             const char* probe) {
  for (const SelfCgroup& line : lines) {
    if (!line.controllers.empty()) continue;
    for (const std::string& mount : {root + "/unified", root}) {
      if (!exists(mount)) continue;
      if (auto place = find_place(mount, line.path, probe)) return place;
    }
  }
  return std::nullopt;
}

// Calls `visit` with the folder of `place` and of each ancestor up to the mount.
template <class Visit>
void for_each_ancestor(const Place& place, Visit&& visit) {
  std::string_view path = place.path;
  for (int depth = 0; depth < kMaxDepth; ++depth, path = parent(path)) {
    visit(place.mount + std::string(path));
    if (path.empty()) return;
  }
}

std::int64_t or_zero(std::int64_t value) { return std::max<std::int64_t>(value, 0); }

double percent_of(std::int64_t part, std::int64_t whole) {
  return part < 0 || whole <= 0 ? -1 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

void read_v2_parts(std::string_view stat, CgroupMemory& memory) {
  memory.anon = keyed_integer(stat, "anon");
  memory.shmem = keyed_integer(stat, "shmem");
  memory.sock = keyed_integer(stat, "sock");
  memory.slab_reclaimable = keyed_integer(stat, "slab_reclaimable");
  memory.inactive_file = keyed_integer(stat, "inactive_file");
  memory.kernel = keyed_integer(stat, "kernel");
  if (memory.kernel < 0 && memory.anon >= 0) {  // before Linux 5.18
    memory.kernel = or_zero(keyed_integer(stat, "kernel_stack")) +
                    or_zero(keyed_integer(stat, "pagetables")) + or_zero(keyed_integer(stat, "percpu")) +
                    or_zero(keyed_integer(stat, "slab"));
  }
}

void read_v1_parts(std::string_view stat, CgroupMemory& memory) {
  // total_*: with descendants, as memory.usage_in_bytes counts.
  const auto either = [&](std::string_view hierarchical, std::string_view own) {
    const std::int64_t value = keyed_integer(stat, hierarchical);
    return value >= 0 ? value : keyed_integer(stat, own);
  };
  memory.anon = either("total_rss", "rss");
  memory.shmem = either("total_shmem", "shmem");
  memory.inactive_file = either("total_inactive_file", "inactive_file");
}

std::int64_t process_cpu_ns() {
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) != 0) return -1;
  const auto to_us = [](const timeval& t) { return std::int64_t{t.tv_sec} * 1'000'000 + t.tv_usec; };
  return (to_us(usage.ru_utime) + to_us(usage.ru_stime)) * kMicro;
}

}  // namespace

Cgroup::Cgroup(const CgroupPaths& paths)
    : machine_cpus_(paths.machine_cpus > 0 ? paths.machine_cpus : allowed_cpus()),
      meminfo_(::open(paths.meminfo.c_str(), O_RDONLY | O_CLOEXEC)) {
  SmallFileText text;
  const std::vector<SelfCgroup> lines = parse_self(text.read(paths.self_cgroup));
  const std::string& root = paths.cgroup_root;

  if (const auto place = find_v1(lines, root, "memory", "memory.stat")) {
    memory_version_ = Version::V1;
    memory_total_ = open_file(place->folder(), "memory.usage_in_bytes");
    memory_stat_ = open_file(place->folder(), "memory.stat");
    memory_kernel_ = open_file(place->folder(), "memory.kmem.usage_in_bytes");
    memory_tcp_ = open_file(place->folder(), "memory.kmem.tcp.usage_in_bytes");
    memory_tcp_limit_ = open_file(place->folder(), "memory.kmem.tcp.limit_in_bytes");
    for_each_ancestor(*place, [&](const std::string& folder) {
      if (Fd file = open_file(folder, "memory.limit_in_bytes")) memory_limits_.push_back(std::move(file));
    });
  } else if (const auto unified = find_v2(lines, root, "memory.stat")) {
    memory_version_ = Version::V2;
    memory_total_ = open_file(unified->folder(), "memory.current");
    memory_stat_ = open_file(unified->folder(), "memory.stat");
    for_each_ancestor(*unified, [&](const std::string& folder) {
      if (Fd file = open_file(folder, "memory.max")) memory_limits_.push_back(std::move(file));
    });
  }

  const auto v1_usage = find_v1(lines, root, "cpuacct", "cpuacct.usage");
  const auto v1_quota = find_v1(lines, root, "cpu", "cpu.cfs_quota_us");
  if (v1_usage || v1_quota) {
    cpu_version_ = Version::V1;
    if (v1_usage) cpu_usage_ = open_file(v1_usage->folder(), "cpuacct.usage");
    if (v1_quota) {
      for_each_ancestor(*v1_quota, [&](const std::string& folder) {
        CpuLimitFiles files{open_file(folder, "cpu.cfs_quota_us"), open_file(folder, "cpu.cfs_period_us")};
        if (files.quota && files.period) cpu_limits_.push_back(std::move(files));
      });
    }
  } else if (const auto unified = find_v2(lines, root, "cpu.stat")) {
    cpu_version_ = Version::V2;
    cpu_usage_ = open_file(unified->folder(), "cpu.stat");
    for_each_ancestor(*unified, [&](const std::string& folder) {
      if (Fd file = open_file(folder, "cpu.max")) cpu_limits_.push_back({std::move(file), Fd()});
    });
  }
}

void Cgroup::read_machine() {
  SmallFileText text;
  const std::string_view meminfo = text.read(meminfo_.get());
  const auto bytes = [&](std::string_view key) {
    const std::int64_t kilobytes = keyed_integer(meminfo, key);
    return kilobytes < 0 ? -1 : kilobytes * 1024;
  };
  limits_->machine_total = bytes("MemTotal:");
  limits_->machine_available = bytes("MemAvailable:");
}

void Cgroup::read_limits(TimePoint now) {
  limits_.emplace();
  limits_->at = now;
  SmallFileText text;
  for (const Fd& file : memory_limits_) {
    const std::int64_t limit = integer_field(text.read(file.get()), 0);  // `max` reads as -1
    if (limit < 0 || limit >= kNoLimit) continue;
    if (limits_->tightest < 0 || limit < limits_->tightest) limits_->tightest = limit;
  }
  const std::int64_t tcp_limit = integer_field(text.read(memory_tcp_limit_.get()), 0);
  limits_->tcp_is_counted = tcp_limit >= 0 && tcp_limit < kNoLimit;
  read_machine();
}

CgroupMemory Cgroup::read_memory(TimePoint now) {
  if (!limits_ || now - limits_->at >= kLimitsAge) {
    read_limits(now);
  } else if (limits_->machine_is_tightest()) {
    read_machine();
  }
  CgroupMemory memory;
  SmallFileText text;
  memory.total = integer_field(text.read(memory_total_.get()), 0);
  if (memory_version_ == Version::V2) {
    read_v2_parts(text.read(memory_stat_.get()), memory);
  } else if (memory_version_ == Version::V1) {
    read_v1_parts(text.read(memory_stat_.get()), memory);
    memory.kernel = integer_field(text.read(memory_kernel_.get()), 0);
    if (limits_->tcp_is_counted) memory.sock = integer_field(text.read(memory_tcp_.get()), 0);
  }
  if (memory.anon >= 0) {
    memory.unreclaimable = memory.anon + or_zero(memory.shmem) + or_zero(memory.sock) +
                           or_zero(or_zero(memory.kernel) - or_zero(memory.slab_reclaimable));
  }
  if (memory.total >= 0) memory.working_set = or_zero(memory.total - or_zero(memory.inactive_file));

  memory.machine_total = limits_->machine_total;
  memory.machine_available = limits_->machine_available;
  memory.limit_is_machine = limits_->machine_is_tightest();
  memory.limit = memory.limit_is_machine ? limits_->machine_total : limits_->tightest;
  memory.total_percent = percent_of(memory.total, memory.limit);
  memory.working_set_percent = percent_of(memory.working_set, memory.limit);
  memory.unreclaimable_percent = percent_of(memory.unreclaimable, memory.limit);
  if (memory.limit_is_machine && memory.machine_available >= 0) {
    memory.unreclaimable_percent =
        percent_of(memory.machine_total - memory.machine_available, memory.machine_total);
  }
  return memory;
}

double Cgroup::read_quota() const {
  double tightest = -1;
  SmallFileText text;
  for (const CpuLimitFiles& files : cpu_limits_) {
    const std::string_view quota_text = text.read(files.quota.get());
    const std::int64_t quota = integer_field(quota_text, 0);  // `max` and -1 both read as -1
    const std::int64_t period =
        files.period ? integer_field(text.read(files.period.get()), 0) : integer_field(quota_text, 1);
    if (quota <= 0 || period <= 0) continue;
    const double cpus = static_cast<double>(quota) / static_cast<double>(period);
    if (tightest < 0 || cpus < tightest) tightest = cpus;
  }
  return tightest;
}

CgroupCpu Cgroup::read_cpu(TimePoint now) const {
  CgroupCpu cpu;
  cpu.at = now;
  cpu.quota_cpus = read_quota();
  SmallFileText text;
  if (cpu_version_ == Version::V1) {
    cpu.used_ns = integer_field(text.read(cpu_usage_.get()), 0);
  } else if (cpu_version_ == Version::V2) {
    const std::int64_t used_us = keyed_integer(text.read(cpu_usage_.get()), "usage_usec");
    if (used_us >= 0) cpu.used_ns = used_us * kMicro;
  }
  if (cpu.used_ns < 0) {
    cpu.used_ns = process_cpu_ns();
    cpu.of_process = true;
  }
  return cpu;
}

double Cgroup::cpu_percent(const CgroupCpu& before, const CgroupCpu& after) const {
  const std::int64_t elapsed_ns = (after.at - before.at).count();
  if (before.used_ns < 0 || after.used_ns < before.used_ns || elapsed_ns <= 0) return -1;
  if (before.of_process != after.of_process) return -1;
  const double cpus =
      after.quota_cpus > 0 ? std::min(after.quota_cpus, static_cast<double>(machine_cpus_)) : machine_cpus_;
  return 100.0 * static_cast<double>(after.used_ns - before.used_ns) /
         (static_cast<double>(elapsed_ns) * cpus);
}

int Cgroup::cpu_count() const {
  const double quota = read_quota();
  if (quota <= 0) return machine_cpus_;
  return std::clamp(static_cast<int>(std::ceil(quota - 1e-9)), 1, machine_cpus_);
}

}  // namespace dlb
