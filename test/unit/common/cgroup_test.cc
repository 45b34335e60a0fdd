#include "common/cgroup.h"

#include "test/support/catch.h"
#include "test/support/temp_dir.h"

using namespace dlb;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint kNow(1s);

constexpr std::string_view kV2Stat =
    "anon 1000\nfile 5000\nkernel 400\nkernel_stack 16\npagetables 20\nsock 70\nshmem 30\nfile_mapped 1\n"
    "inactive_anon 9\ninactive_file 2000\nslab_reclaimable 150\nslab_unreclaimable 50\nslab 200\n";
constexpr std::string_view kV1Stat =
    "cache 7\nrss 1\nshmem 2\ninactive_file 3\nhierarchical_memory_limit 9223372036854771712\ntotal_cache "
    "5000\n"
    "total_rss 1000\ntotal_shmem 30\ntotal_inactive_file 2000\n";

// A machine of files. Memory in the fixtures is tiny on purpose: MemTotal is 1,000 KiB, available 400 KiB.
struct Machine {
  test::TempDir dir;
  CgroupPaths paths;

  explicit Machine(std::string_view self) {
    paths.cgroup_root = dir.file("cgroup");
    paths.self_cgroup = dir.write("self", self);
    paths.meminfo =
        dir.write("meminfo", "MemTotal:           1000 kB\nMemFree:    10 kB\nMemAvailable:  400 kB\n");
    paths.machine_cpus = 4;
    std::filesystem::create_directories(paths.cgroup_root);
  }
  void file(std::string_view path, std::string_view content) const {
    dir.write("cgroup/" + std::string(path), content);
  }
  Cgroup open() const { return Cgroup(paths); }
};

CgroupCpu at(TimePoint now, std::int64_t used_ns, double quota) {
  CgroupCpu cpu;
  cpu.at = now;
  cpu.used_ns = used_ns;
  cpu.quota_cpus = quota;
  return cpu;
}

}  // namespace

TEST_CASE("v2: parts, percentages and the cgroup's own limit", "[cgroup]") {
  const Machine machine("0::/a\n");
  machine.file("a/memory.current", "6500\n");
  machine.file("a/memory.stat", kV2Stat);
  machine.file("a/memory.max", "10000\n");
  Cgroup cgroup = machine.open();
  CHECK(cgroup.memory_version() == Cgroup::Version::V2);
  const CgroupMemory m = cgroup.read_memory(kNow);
  CHECK(m.total == 6500);
  CHECK(m.anon == 1000);
  CHECK(m.shmem == 30);
  CHECK(m.kernel == 400);
  CHECK(m.sock == 70);
  CHECK(m.inactive_file == 2000);
  CHECK(m.slab_reclaimable == 150);
  CHECK(m.unreclaimable == 1000 + 30 + 70 + (400 - 150));
  CHECK(m.working_set == 4500);
  CHECK(m.limit == 10000);
  CHECK_FALSE(m.limit_is_machine);
  CHECK(m.total_percent == Approx(65));
  CHECK(m.working_set_percent == Approx(45));
  CHECK(m.unreclaimable_percent == Approx(13.5));
}

TEST_CASE("v2: kernels before 5.18 give the kernel part in pieces", "[cgroup]") {
  const Machine machine("0::/a\n");
  machine.file("a/memory.current", "6500\n");
  machine.file("a/memory.stat",
               "anon 1000\nkernel_stack 16\npagetables 20\npercpu 4\nslab_reclaimable 150\nslab 200\n");
  const CgroupMemory m = machine.open().read_memory(kNow);
  CHECK(m.kernel == 240);
  CHECK(m.unreclaimable == 1090);
}

TEST_CASE("v2: the tightest limit may be an ancestor's", "[cgroup]") {
  const Machine machine("0::/a/b/c\n");
  machine.file("a/memory.max", "4000\n");
  machine.file("a/b/memory.max", "max\n");
  machine.file("a/b/c/memory.max", "9000\n");
  machine.file("a/b/c/memory.current", "1000\n");
  machine.file("a/b/c/memory.stat", kV2Stat);
  Cgroup cgroup = machine.open();
  CHECK(cgroup.read_memory(kNow).limit == 4000);
  CHECK(cgroup.read_memory(kNow).total_percent == Approx(25));
  // Limits are read again when they have aged, through the open files.
  machine.file("a/b/memory.max", "2000\n");
  machine.file("a/b/c/memory.current", "1500\n");
  CHECK(cgroup.read_memory(kNow + Cgroup::kLimitsAge / 2).limit == 4000);
  const CgroupMemory later = cgroup.read_memory(kNow + Cgroup::kLimitsAge);
  CHECK(later.limit == 2000);
  CHECK(later.total_percent == Approx(75));
}

TEST_CASE("v2: a controller that is off in the leaf is read where it is on", "[cgroup]") {
  const Machine machine("0::/a/b\n");
  machine.file("a/b/cgroup.procs", "");
  machine.file("a/memory.stat", kV2Stat);
  machine.file("a/memory.current", "777\n");
  machine.file("a/memory.max", "5000\n");
  const CgroupMemory m = machine.open().read_memory(kNow);
  CHECK(m.total == 777);
  CHECK(m.limit == 5000);
}

TEST_CASE("no limit: the machine's memory decides", "[cgroup]") {
  const Machine machine("0::/a\n");
  machine.file("a/memory.current", "102400\n");
  machine.file("a/memory.stat", kV2Stat);
  machine.file("a/memory.max", "max\n");
  const CgroupMemory m = machine.open().read_memory(kNow);
  CHECK(m.limit_is_machine);
  CHECK(m.limit == 1000 * 1024);
  CHECK(m.total_percent == Approx(10));
  CHECK(m.unreclaimable_percent == Approx(60));
}

TEST_CASE("a limit above the machine's memory is none", "[cgroup]") {
  const Machine machine("0::/a\n");
  machine.file("a/memory.current", "1024\n");
  machine.file("a/memory.stat", kV2Stat);
  machine.file("a/memory.max", "1024001\n");
  CHECK(machine.open().read_memory(kNow).limit_is_machine);
}

TEST_CASE("v1: parts with descendants, kernel and limits from files of their own", "[cgroup]") {
  const Machine machine("4:memory:/a/b\n3:cpu,cpuacct:/a\n");
  machine.file("memory/memory.limit_in_bytes", "9223372036854771712\n");
  machine.file("memory/a/memory.limit_in_bytes", "8000\n");
  machine.file("memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
  machine.file("memory/a/b/memory.usage_in_bytes", "6400\n");
  machine.file("memory/a/b/memory.stat", kV1Stat);
  machine.file("memory/a/b/memory.kmem.usage_in_bytes", "250\n");
  machine.file("memory/a/b/memory.kmem.tcp.usage_in_bytes", "0\n");
  machine.file("memory/a/b/memory.kmem.tcp.limit_in_bytes", "9223372036854771712\n");
  Cgroup cgroup = machine.open();
  CHECK(cgroup.memory_version() == Cgroup::Version::V1);
  const CgroupMemory m = cgroup.read_memory(kNow);
  CHECK(m.total == 6400);
  CHECK(m.anon == 1000);
  CHECK(m.shmem == 30);
  CHECK(m.kernel == 250);
  CHECK(m.sock == -1);
  CHECK(m.unreclaimable == 1280);
  CHECK(m.working_set == 4400);
  CHECK(m.limit == 8000);
  CHECK(m.unreclaimable_percent == Approx(16));
}

TEST_CASE("v1: socket memory counts only where a limit makes the kernel count it", "[cgroup]") {
  const Machine machine("4:memory:/\n");
  machine.file("memory/memory.stat", kV1Stat);
  machine.file("memory/memory.kmem.tcp.usage_in_bytes", "90\n");
  machine.file("memory/memory.kmem.tcp.limit_in_bytes", "100000\n");
  const CgroupMemory m = machine.open().read_memory(kNow);
  CHECK(m.sock == 90);
  CHECK(m.unreclaimable == 1000 + 30 + 90);
}

TEST_CASE("v1: memory.stat without totals gives the cgroup's own", "[cgroup]") {
  const Machine machine("4:memory:/\n");
  machine.file("memory/memory.stat", "rss 11\nshmem 22\ninactive_file 33\n");
  machine.file("memory/memory.usage_in_bytes", "100\n");
  const CgroupMemory m = machine.open().read_memory(kNow);
  CHECK(m.anon == 11);
  CHECK(m.unreclaimable == 33);
  CHECK(m.working_set == 67);
}

TEST_CASE("hybrid: each controller is taken from where it is", "[cgroup]") {
  const Machine machine("5:cpu,cpuacct:/svc\n1:name=systemd:/svc\n0::/svc\n");
  machine.file("cpu,cpuacct/svc/cpuacct.usage", "5000000\n");
  machine.file("cpu,cpuacct/svc/cpu.cfs_quota_us", "50000\n");
  machine.file("cpu,cpuacct/svc/cpu.cfs_period_us", "100000\n");
  machine.file("unified/svc/memory.current", "10\n");
  machine.file("unified/svc/memory.stat", kV2Stat);
  machine.file("unified/svc/memory.max", "1000\n");
  Cgroup cgroup = machine.open();
  CHECK(cgroup.memory_version() == Cgroup::Version::V2);
  CHECK(cgroup.cpu_version() == Cgroup::Version::V1);
  CHECK(cgroup.read_memory(kNow).limit == 1000);
  const CgroupCpu cpu = cgroup.read_cpu(TimePoint(1s));
  CHECK(cpu.used_ns == 5'000'000);
  CHECK(cpu.quota_cpus == Approx(0.5));
}

TEST_CASE("v1: cpu and cpuacct may be two hierarchies with two paths", "[cgroup]") {
  const Machine machine("2:cpuacct:/x\n1:cpu:/y\n");
  machine.file("cpuacct/x/cpuacct.usage", "42\n");
  machine.file("cpu/y/cpu.cfs_quota_us", "-1\n");
  machine.file("cpu/y/cpu.cfs_period_us", "100000\n");
  machine.file("cpu/cpu.cfs_quota_us", "300000\n");
  machine.file("cpu/cpu.cfs_period_us", "100000\n");
  Cgroup cgroup = machine.open();
  const CgroupCpu cpu = cgroup.read_cpu(TimePoint(1s));
  CHECK(cpu.used_ns == 42);
  CHECK(cpu.quota_cpus == Approx(3));
}

TEST_CASE("v2: cpu usage, and the tightest quota among ancestors", "[cgroup]") {
  const Machine machine("0::/a/b\n");
  machine.file("a/cpu.max", "150000 100000\n");
  machine.file("a/b/cpu.max", "max 100000\n");
  machine.file("a/b/cpu.stat", "usage_usec 1500\nuser_usec 1000\nsystem_usec 500\n");
  Cgroup cgroup = machine.open();
  const CgroupCpu cpu = cgroup.read_cpu(TimePoint(1s));
  CHECK(cpu.used_ns == 1'500'000);
  CHECK_FALSE(cpu.of_process);
  CHECK(cpu.quota_cpus == Approx(1.5));
  CHECK(cgroup.cpu_count() == 2);
}

TEST_CASE("cpu percent is of the quota, without one of the machine", "[cgroup]") {
  const Machine machine("0::/a\n");
  Cgroup cgroup = machine.open();
  const TimePoint start(10s);
  CHECK(cgroup.cpu_percent(at(start, 0, 0.5), at(start + 1s, 250'000'000, 0.5)) == Approx(50));
  CHECK(cgroup.cpu_percent(at(start, 0, -1), at(start + 1s, 1'000'000'000, -1)) == Approx(25));
  CHECK(cgroup.cpu_percent(at(start, 0, 64), at(start + 1s, 1'000'000'000, 64)) == Approx(25));
  CHECK(cgroup.cpu_percent(at(start, 0, 1), at(start, 5, 1)) == -1);
  CHECK(cgroup.cpu_percent(at(start, 9, 1), at(start + 1s, 5, 1)) == -1);
  CHECK(cgroup.cpu_percent(at(start, -1, 1), at(start + 1s, 5, 1)) == -1);
}

TEST_CASE("the number of CPUs lies between one and the machine's", "[cgroup]") {
  for (const auto& [max, expected] : std::vector<std::pair<std::string, int>>{{"max 100000", 4},
                                                                              {"10000 100000", 1},
                                                                              {"100000 100000", 1},
                                                                              {"250000 100000", 3},
                                                                              {"900000 100000", 4}}) {
    const Machine machine("0::/a\n");
    machine.file("a/cpu.max", max);
    machine.file("a/cpu.stat", "usage_usec 1\n");
    INFO(max);
    CHECK(machine.open().cpu_count() == expected);
  }
}

TEST_CASE("a container that sees only its own part of the tree", "[cgroup]") {
  const Machine machine("4:memory:/docker/0123/app\n0::/docker/0123/app\n");
  machine.file("memory/app/memory.stat", kV1Stat);
  machine.file("memory/app/memory.usage_in_bytes", "3000\n");
  machine.file("cpu.stat", "usage_usec 7\n");
  Cgroup cgroup = machine.open();
  CHECK(cgroup.read_memory(kNow).total == 3000);
  CHECK(cgroup.read_cpu(TimePoint(1s)).used_ns == 7000);
}

TEST_CASE("missing and odd files give absent values", "[cgroup]") {
  SECTION("nothing at all") {
    CgroupPaths paths;
    paths.cgroup_root = paths.self_cgroup = paths.meminfo = "/nonexistent";
    Cgroup cgroup(paths);
    const CgroupMemory m = cgroup.read_memory(kNow);
    CHECK(cgroup.memory_version() == Cgroup::Version::None);
    CHECK(m.total == -1);
    CHECK(m.unreclaimable == -1);
    CHECK(m.limit == -1);
    CHECK(m.total_percent == -1);
    CHECK(m.unreclaimable_percent == -1);
    const CgroupCpu cpu = cgroup.read_cpu(TimePoint(1s));
    CHECK(cpu.of_process);
    CHECK(cpu.used_ns >= 0);
    CHECK(cgroup.cpu_count() >= 1);
  }
  SECTION("garbage") {
    const Machine machine("nonsense\n:::\n4:memory\n0::/a\n\n");
    machine.file("a/memory.stat", "anon\nanon x\nshmem -4\n\xff\xfe\nsock 12x\ninactive_file");
    machine.file("a/memory.current", "lots\n");
    machine.file("a/memory.max", "");
    machine.file("a/cpu.stat", "");
    machine.file("a/cpu.max", "100000\n");
    Cgroup cgroup = machine.open();
    const CgroupMemory m = cgroup.read_memory(kNow);
    CHECK(m.total == -1);
    CHECK(m.anon == -1);
    CHECK(m.sock == -1);
    CHECK(m.limit_is_machine);
    CHECK(cgroup.read_cpu(TimePoint(1s)).quota_cpus == -1);
  }
}

TEST_CASE("this machine's cgroup can be read", "[cgroup]") {
  Cgroup cgroup;
  const CgroupMemory m = cgroup.read_memory(kNow);
  CHECK(m.machine_total > 0);
  CHECK(m.limit > 0);
  const CgroupCpu before = cgroup.read_cpu(monotonic_now());
  CHECK(before.used_ns >= 0);
  CHECK(cgroup.cpu_count() >= 1);
}
