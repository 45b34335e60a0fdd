"""Real backends over one SQLite file that a command restarts (this file, run as a program), as an operator's would: for
tests of deploy/rolling.sh and of what clients see meanwhile."""

import json
import os
import shlex
import signal
import subprocess
import sys

from programs import ROOT, ChatBackend, clean_environment, program, run
from raw import Incomplete, fetch
from waiting import wait_until

ROLLING = os.path.join(ROOT, "deploy", "rolling.sh")


def restart(folder, name):
    """SIGTERM, its end, a new one in a session of its own, its health. Each has a deadline."""
    pid_file = os.path.join(folder, name + ".pid")
    if os.path.exists(pid_file):
        with open(pid_file, encoding="ascii") as file:
            pid = int(file.read())
        if _runs(pid):
            os.kill(pid, signal.SIGTERM)
            wait_until(lambda: not _runs(pid), 30, f"the end of {name}")
    with open(os.path.join(folder, name + ".log"), "ab") as log:
        backend = subprocess.Popen([program("backend"), "-c", os.path.join(folder, name + ".toml")], stdin=subprocess.DEVNULL,
                                   stdout=log, stderr=log, env=clean_environment(), start_new_session=True)
    with open(pid_file, "w", encoding="ascii") as file:
        file.write(f"{backend.pid}\n")
    with open(os.path.join(folder, "ports"), encoding="ascii") as file:
        port = json.load(file)[name]

    def healthy():
        if backend.poll() is not None:
            raise SystemExit(f"{name} ended with code {backend.returncode}")
        try:
            return fetch(port, "/health", timeout=3).status == 200
        except (OSError, Incomplete):
            return False

    wait_until(healthy, 30, f"the health of {name}")


class RestartableBackends:
    def __init__(self, case, count):
        self.folder = case.folder
        data = os.path.join(case.folder, "data")
        os.makedirs(data, 0o700)
        self.backends = [ChatBackend(case.folder, f"sys{index + 2}", data) for index in range(count)]
        with open(os.path.join(case.folder, "ports"), "w", encoding="ascii") as file:
            json.dump({backend.name: backend.port for backend in self.backends}, file)
        self.command = shlex.join([sys.executable, os.path.realpath(__file__), case.folder])  # for $BACKEND
        case.addCleanup(self.end)
        for backend in self.backends:
            restart(case.folder, backend.name)

    def pid(self, name):
        with open(os.path.join(self.folder, name + ".pid"), encoding="ascii") as file:
            return int(file.read())

    def pids(self):
        return {backend.name: self.pid(backend.name) for backend in self.backends}

    def end(self):
        """They may wait for the balancer to ask for their health, which has gone: they are killed."""
        for name, pid in self.pids().items():
            try:
                with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
                    if name + ".toml" in file.read():
                        os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
            wait_until(lambda pid=pid: not _runs(pid), 20, f"the end of {name}")


def _runs(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rsplit(") ", 1)[1][0] != "Z"
    except OSError:
        return False


def rolling(balancer, restart, *arguments, timeout=120):
    """deploy/rolling.sh on this balancer; (exit code, stdout, stderr)."""
    return run([ROLLING, "--config", balancer.config_path, "--lb", program("lb"), "--settle", "200ms", "--restart", restart,
                *arguments], timeout=timeout)


if __name__ == "__main__":
    restart(sys.argv[1], os.environ["BACKEND"])
