"""Real backends over one SQLite file that a shell command restarts, as an operator's would: for tests of
deploy/rolling.sh and of what clients see meanwhile. They are no children of the test."""

import os
import shlex
import signal

from programs import ROOT, ChatBackend, program, run
from waiting import wait_until

ROLLING = os.path.join(ROOT, "deploy", "rolling.sh")

# $BACKEND: which one. SIGTERM, its end (a zombie has ended), a new one, its health.
_RESTART = r"""
set -e
cd {folder}
. ./ports
alive() {{
  local stat
  [[ -s $BACKEND.pid ]] && stat=$(cat "/proc/$(cat $BACKEND.pid)/stat" 2>/dev/null) && [[ ${{stat##*) }} != Z* ]]
}}
if alive; then kill -TERM "$(cat $BACKEND.pid)"; fi
while alive; do sleep 0.02; done
env -u DATABASE_URL setsid {program} -c $BACKEND.toml </dev/null >>$BACKEND.log 2>&1 &
echo $! >$BACKEND.pid
port=port_$BACKEND
until curl -fs --noproxy '*' -o /dev/null "http://127.0.0.1:${{!port}}/health"; do alive; sleep 0.02; done
"""


class RestartableBackends:
    def __init__(self, case, count):
        self.folder = case.folder
        data = os.path.join(case.folder, "data")
        os.makedirs(data, 0o700)
        self.backends = [ChatBackend(case.folder, f"sys{index + 2}", data) for index in range(count)]
        with open(os.path.join(case.folder, "ports"), "w", encoding="ascii") as file:
            file.writelines(f"port_{backend.name}={backend.port}\n" for backend in self.backends)
        self.script = os.path.join(case.folder, "restart.sh")
        with open(self.script, "w", encoding="utf-8") as file:
            file.write(_RESTART.format(folder=shlex.quote(case.folder), program=shlex.quote(program("backend"))))
        self.command = "bash " + shlex.quote(self.script)
        case.addCleanup(self.end)
        for backend in self.backends:
            code, out, err = run(["bash", self.script], BACKEND=backend.name)
            assert code == 0, out + err + backend.log_tail()

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


