"""Memory cgroups for tests: a real one in which the balancer runs (v1, or v2 where it is delegated), and a folder of
files that says what a test wants (`cgroup-root`), which also stands in where no real one can be made."""

import os
import subprocess
import sys

from waiting import wait_until

MIB = 1 << 20


def _mounts():
    """(kind, mount point, options) of the cgroup file systems."""
    with open("/proc/mounts", encoding="utf-8") as file:
        for line in file:
            _, folder, kind, options = line.split()[:4]
            if kind in ("cgroup", "cgroup2"):
                yield kind, folder, options.split(",")


def _candidates():
    """Folders in which a memory cgroup may be made: this process's own, then the mount's root (a container may show
    only an inner part of the tree)."""
    with open("/proc/self/cgroup", encoding="utf-8") as file:
        own = [line.rstrip("\n").split(":", 2) for line in file]
    for kind, mount, options in sorted(_mounts()):  # v1 first: where it has the controller, v2 has not
        for _, controllers, path in own:
            v1 = kind == "cgroup" and "memory" in controllers.split(",") and "memory" in options
            if v1 or (kind == "cgroup2" and not controllers):
                yield mount + path
                yield mount


class MemoryCgroup:
    """A cgroup with a limit. make() answers None where none can be made."""

    def __init__(self, folder, v1):
        self.folder, self.v1 = folder, v1
        self.procs = os.path.join(folder, "cgroup.procs")

    @classmethod
    def make(cls, limit):
        for parent in _candidates():
            folder = os.path.join(parent, f"dlb-test-{os.getpid()}")
            try:
                os.mkdir(folder)
            except OSError:
                continue
            for name, v1 in (("memory.limit_in_bytes", True), ("memory.max", False)):
                try:
                    with open(os.path.join(folder, name), "r+", encoding="ascii") as file:
                        file.write(str(limit))
                    return cls(folder, v1)
                except OSError:
                    pass
            os.rmdir(folder)
        return None

    def _keyed(self, name, key):
        with open(os.path.join(self.folder, name), encoding="ascii") as file:
            return next((int(line.split()[1]) for line in file if line.startswith(key + " ")), 0)

    def oom_kills(self):
        return self._keyed("memory.oom_control" if self.v1 else "memory.events", "oom_kill")

    def peak(self):
        name = "memory.max_usage_in_bytes" if self.v1 else "memory.peak"
        try:
            with open(os.path.join(self.folder, name), encoding="ascii") as file:
                return int(file.read())
        except OSError:
            return -1  # v2 before Linux 5.19

    def remove(self):
        """When all its processes have ended."""
        wait_until(lambda: os.rmdir(self.folder) is None, 10, "the cgroup to be empty")


class Ballast:
    """A process in a cgroup that holds as much memory as it is told."""

    CODE = """if True:
        import sys
        held = []
        for line in sys.stdin:
            wanted = int(line)
            while len(held) < wanted:
                held.append(b"x" * 1048576)
            del held[wanted:]
            print(wanted, flush=True)
        """

    def __init__(self, cgroup):
        enter = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', cgroup.procs]
        self.process = subprocess.Popen(enter + [sys.executable, "-c", self.CODE], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def hold(self, mib):
        self.process.stdin.write(f"{mib}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline()) == mib

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()


class FixtureCgroup:
    """Files of a v2 memory cgroup. Written in place: the balancer keeps them open."""

    def __init__(self, folder, limit=100 * MIB):
        self.folder = folder
        os.mkdir(folder)
        self._write("memory.max", f"{limit}\n")
        self._write("memory.current", f"{limit // 2}\n")
        self.set_anon(10 * MIB)

    def _write(self, name, text):
        descriptor = os.open(os.path.join(self.folder, name), os.O_WRONLY | os.O_CREAT, 0o644)
        os.pwrite(descriptor, text.encode(), 0)
        os.close(descriptor)

    def set_anon(self, anon, sock=0):
        self._write("memory.stat", f"anon {anon:012d}\nkernel 000000000000\nsock {sock:012d}\nshmem 000000000000\n")
