"""What a sweep sees of the machine: how busy it is by /proc/stat, what the systems use by /proc/PID and their memory cgroups,
and waiting for a quiet moment. Numbers of the kernel in, plain values out."""

import os
import signal
import threading
import time
import urllib.request

TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGESIZE")
CORES = os.cpu_count() or 1


def cpu_line(text):
    """(busy, all) ticks of the first line of /proc/stat. Interrupts count as neither: they are charged to programs, too."""
    fields = [int(field) for field in text.split("\n", 1)[0].split()[1:9]]
    user, nice, system, idle, iowait, irq, softirq, steal = fields + [0] * (8 - len(fields))
    return user + nice + system + steal, user + nice + system + idle + iowait + irq + softirq + steal


def machine_ticks():
    with open("/proc/stat", encoding="ascii") as file:
        return cpu_line(file.read())


def share_percent(before, after, ours=0):
    """Of the whole machine: what it was busy with between two machine_ticks(), less `ours` ticks."""
    passed = after[1] - before[1]
    return max(0.0, 100 * (after[0] - before[0] - ours) / passed) if passed > 0 else 0.0


def pause(seconds):
    threading.Event().wait(seconds)


def wait_quiet(bound_percent, within):
    """Until the machine was under the bound for a whole window. (percent in the last window, seconds waited)."""
    started, window = time.monotonic(), min(0.5, max(0.05, within))
    while True:
        before = machine_ticks()
        pause(window)
        busy = share_percent(before, machine_ticks())
        waited = time.monotonic() - started
        if busy <= bound_percent or waited >= within:
            return busy, waited


def process_ticks(pid, with_children=False):
    """CPU ticks of a process so far, with its ended children's if asked for; None when it has gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        return sum(int(field) for field in fields[11:15 if with_children else 13])
    except (OSError, ValueError, IndexError):
        return None


def start_time(pid):
    """Ticks from boot to the start of a process, which tells it from a later one of the same number; None when it has gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def end_process(pid, started, number):
    """Sends a signal, but only to the process that started then."""
    if started is not None and start_time(pid) == started:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def resident_bytes(pids):
    """Of processes that share their memory, as PostgreSQL's do: what each has for itself, and the largest shared part."""
    own, shared = 0, [0]
    for pid in pids:
        try:
            with open(f"/proc/{pid}/statm", encoding="ascii") as file:
                _, resident, common = (int(word) for word in file.read().split()[:3])
        except (OSError, ValueError):
            continue
        own += resident - common
        shared.append(common)
    return (own + max(shared)) * PAGE


def children_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except (OSError, ValueError):
        return []


def cgroup_memory(folder):
    """(total, working set) in bytes, v1 or v2; None where it can't be read."""
    try:
        for usage, key in (("memory.usage_in_bytes", "total_inactive_file"), ("memory.current", "inactive_file")):
            path = os.path.join(folder, usage)
            if not os.path.exists(path):
                continue
            with open(path, encoding="ascii") as file:
                total = int(file.read())
            with open(os.path.join(folder, "memory.stat"), encoding="ascii") as file:
                inactive = next((int(line.split()[1]) for line in file if line.split()[0] == key), 0)
            return total, max(0, total - inactive)
    except (OSError, ValueError):
        pass
    return None


class System:
    """One of Sys1, Sys2, …: the processes that run on it, and its cgroup if it has one."""

    def __init__(self, name, pids, cgroup=None, postmaster=None):
        self.name, self.pids, self.cgroup, self.postmaster = name, pids, cgroup, postmaster
        self.started = {pid: start_time(pid) for pid in (*pids, postmaster) if pid}

    def kill(self):
        """Its processes at once; a number that another process has by now is left alone."""
        for pid, started in self.started.items():
            end_process(pid, started, signal.SIGQUIT if pid == self.postmaster else signal.SIGKILL)

    def ticks(self):
        total = sum(process_ticks(pid) or 0 for pid in self.pids)
        if self.postmaster:
            total += process_ticks(self.postmaster, with_children=True) or 0
            total += sum(process_ticks(pid) or 0 for pid in children_of(self.postmaster))
        return total

    def resident(self):
        database = [self.postmaster, *children_of(self.postmaster)] if self.postmaster else []
        return resident_bytes(self.pids) + resident_bytes(database)


class Sampler:
    """Looks at the systems each `interval`, on a thread of its own, from start() to stop()."""

    def __init__(self, systems, interval):
        self.systems, self.interval = systems, interval
        self.rows = []  # (wall clock, ticks of each, resident of each, (total, working set) or None of each)
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def start(self):
        self.thread.start()
        return self

    def stop(self):
        self.ended.set()
        self.thread.join()
        return self

    def _look(self):
        self.rows.append((time.time(), [system.ticks() for system in self.systems],
                          [system.resident() for system in self.systems],
                          [cgroup_memory(system.cgroup) if system.cgroup else None for system in self.systems]))

    def _run(self):
        self._look()
        while not self.ended.wait(self.interval):
            self._look()
        self._look()

    def ticks(self):
        """Of all systems, over all the time."""
        return sum(self.rows[-1][1]) - sum(self.rows[0][1])


def utilisation(names, rows, started, ended):
    """What a sampler's rows say of each system: lists over `at`, seconds since `started` (wall clock) in the middle of each
    interval, and the mean of those between it and `ended`, each weighed by its part in there. CPU in percent of a core."""
    at = [round((before[0] + after[0]) / 2 - started, 2) for before, after in zip(rows, rows[1:])]
    systems = {}
    for i, name in enumerate(names):
        cpu, weights = [], []
        for before, after in zip(rows, rows[1:]):
            passed = max(after[0] - before[0], 1e-6)
            ticks = max(0, after[1][i] - before[1][i])  # fewer: a child has ended between two looks
            cpu.append(round(100 * ticks / TICK / passed, 1))
            weights.append(max(0.0, min(after[0], ended) - max(before[0], started)))
        total = sum(weights)
        system = {"cpu_percent": cpu, "rss_bytes": [row[2][i] for row in rows[1:]],
                  "cpu_mean": round(sum(c * w for c, w in zip(cpu, weights)) / total, 2) if total else 0.0,
                  "rss_max": max((row[2][i] for row in rows), default=0)}
        memory = [row[3][i] for row in rows[1:]]
        if all(memory) and memory:
            system.update(cgroup_bytes=[both[0] for both in memory], working_set_bytes=[both[1] for both in memory],
                          cgroup_max=max(both[0] for both in memory), working_set_max=max(both[1] for both in memory))
        systems[name] = system
    return at, systems


def wait_traced(pid, seconds):
    """Until somebody traces the process (all its threads are taken by then, or about to be)."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            tasks = os.listdir(f"/proc/{pid}/task")
            texts = []
            for task in tasks:
                with open(f"/proc/{pid}/task/{task}/status", encoding="ascii", errors="replace") as file:
                    texts.append(file.read())
            if all("TracerPid:\t0\n" not in text for text in texts):
                return True
        except OSError:
            return False
        pause(0.02)
    return False


def wait_answer(url, seconds):
    """Until the url answers at all."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return True
        except OSError:
            pause(0.1)
    return False
