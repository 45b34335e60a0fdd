"""One run of a sweep: a quiet machine is waited for, the whole system is started anew by deploy/local.sh (new folder, new
database, new ports), loaded by loadgen while its processes are watched, and ended again with all that it left."""

import contextlib
import ctypes
import datetime
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile

import sweep_machine as machine
import sweep_plan

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LOCAL = os.path.join(ROOT, "deploy", "local.sh")
NO_CGROUPS = 4  # local.sh's exit code
GENERATOR_INVALID = 4
PORT_OFFSETS = (0, 1, 2, 3, *range(11, 31), *range(31, 51))
OURS = ("LB_", "LOADGEN_", "DB_", "HTTP_", "WS_", "DATABASE_URL", "DATA_DIR", "BACKEND_ID", "MESSAGE_ENCRYPTION", "DRAIN_")
UP_SECONDS, DOWN_SECONDS = 180, 120


class RunFailed(Exception):
    """Something besides the figures went wrong; the text is one sentence."""


class Stopped(BaseException):
    """By a signal."""


class Stops:
    """SIGINT, SIGTERM and SIGHUP are taken only where something is waited for, and once: what is started is then known, and
    ending it is not interrupted."""

    def __init__(self):
        self.pending, self.waiting = None, False

    def install(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._come)

    def _come(self, number, _):
        if self.pending is None:
            self.pending = number
            if self.waiting:
                raise Stopped(number)

    @contextlib.contextmanager
    def let_in(self):
        """Around a wait; raises Stopped when a signal has come, now or before."""
        self.waiting = True
        try:
            if self.pending is not None:
                raise Stopped(self.pending)
            yield
        finally:
            self.waiting = False


STOPS = Stops()


def environment(extra=None):
    """Without variables that the programs would read; systems that are thrown away need no notice before they end."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(OURS)}
    kept.update(LB_DRAIN_NOTICE="0s", LB_DRAIN_TIMEOUT="1s", DRAIN_NOTICE="0s", DRAIN_TIMEOUT="1s")
    kept.update(extra or {})
    return kept


def free_port_base():
    while True:
        base = random.SystemRandom().randrange(10000, 30000)
        try:
            for offset in PORT_OFFSETS:
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", base + offset))
            return base
        except OSError:
            continue


def last_line(text):
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no word"


def detached():
    """A session of its own, so that a terminal's Ctrl-C does not reach it, but never longer than we live."""
    os.setsid()
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def call(command, seconds, **keywords):
    """subprocess.run() in a session of its own; what outlives `seconds`, or an interruption, is ended."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", start_new_session=True, **keywords)
    try:
        with STOPS.let_in():
            return process.communicate(timeout=seconds)[0], process.returncode
    except BaseException:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        raise


class LocalSystem:
    """A balancer before backends, as deploy/local.sh runs them."""

    def __init__(self, store, backends, memory_limit=None, may_do_without=True):
        self.store, self.backends, self.memory_limit, self.may_do_without = store, backends, memory_limit, may_do_without
        self.folder = None
        self.watched = []  # once they run
        self.memory_word = None  # why there are no cgroups although they were asked for

    def up(self, settings_environment, note_folder):
        """`note_folder` gets the folder before anything stands in it, so that somebody can clean up."""
        self.folder = tempfile.mkdtemp(prefix="dlb-sweep-")
        os.chmod(self.folder, 0o711)  # the user postgres passes through
        note_folder(self.folder)
        self.base = free_port_base()
        command = [LOCAL, "up", "--dir", self.folder, "--port-base", str(self.base), "--backends", str(self.backends),
                   "--store", self.store, "--programs", os.environ.get("DLB_PROGRAMS", ROOT)]
        out, code = self._local(command + (["--memory-limit", self.memory_limit] if self.memory_limit else []),
                                settings_environment)
        if code == NO_CGROUPS and self.may_do_without:
            self.memory_word, self.memory_limit = last_line(out), None
            shutil.rmtree(self.folder)
            return self.up(settings_environment, note_folder)
        if code != 0:
            raise RunFailed(f"the systems did not start: {last_line(out)}")
        self.watched = self._systems()
        return self

    @staticmethod
    def _local(command, extra=None):
        try:
            return call(command, UP_SECONDS, env=environment(extra), cwd=ROOT)
        except subprocess.TimeoutExpired:
            return f"local.sh took over {UP_SECONDS} s", 1

    def url(self):
        return f"http://127.0.0.1:{self.base}"

    def backend_names(self):
        return [f"sys{i + 2}" for i in range(self.backends)]

    def _systems(self):
        """As sweep_machine watches them: Sys1 the balancer, Sys2 and so on the backends, PostgreSQL where local.sh puts it."""
        home = "sys3" if self.backends > 1 else "sys2"
        found = []
        for number, program in enumerate(["lb", *self.backend_names()]):
            name = f"sys{number + 1}"
            postmaster = self._pid("postgres") if self.store == "postgres" and name == home else None
            found.append(machine.System(name.capitalize(), [self._pid(program)], self._cgroup(name), postmaster))
        return found

    def _read(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8") as file:
            return file.read().strip()

    def _pid(self, name):
        return int(self._read(name + ".pid"))

    def _cgroup(self, name):
        return self._read(f".{name}.cgroup") if self.memory_limit else None

    def down(self):
        """Nothing of it is kept, so nothing needs to be waited for: `down` finds them ended."""
        for system in self.watched:
            system.kill()
        end_system(self.folder)


def end_system(folder):
    """Ends what local.sh runs in a folder, and removes the folder."""
    if not folder or not os.path.isdir(folder):
        return
    process = subprocess.Popen([LOCAL, "down", "--dir", folder], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, start_new_session=True, env=environment())
    out = process.communicate(timeout=DOWN_SECONDS)[0]
    if process.returncode != 0:
        raise RunFailed(f"the systems in {folder} did not end: {last_line(out)}")
    shutil.rmtree(folder, ignore_errors=True)


class Generator:
    """One run of loadgen against the system, watched."""

    def __init__(self, url, load, seed, folder, name):
        self.folder = folder
        program = os.path.join(os.environ.get("DLB_PROGRAMS", ROOT), "loadgen", "loadgen")
        self.command = [program, "-url", url, "-seed", str(seed), "-out-dir", folder, "-experiment", name, *load]

    def run(self, seconds):
        """(report, exit code, CPU ticks of its own)."""
        process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, errors="replace", preexec_fn=detached, env=environment())
        before = os.times()
        try:
            with STOPS.let_in():
                out = process.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            raise RunFailed(f"loadgen took over {seconds:.0f} s") from None
        finally:
            if process.poll() is None:
                process.kill()
                process.communicate()
        after = os.times()
        ticks = (after.children_user - before.children_user + after.children_system - before.children_system) * machine.TICK
        reports = [name for name in os.listdir(self.folder) if name.endswith(".json")]
        if len(reports) != 1:
            raise RunFailed(f"loadgen wrote no report (exit code {process.returncode}): {last_line(out)}")
        with open(os.path.join(self.folder, reports[0]), encoding="utf-8") as file:
            return json.load(file), process.returncode, ticks


def wall_clock(text):
    """Of `2026-09-10T14:00:00.123456+00:00`, or with a Z."""
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def judge(report, code, busy_during, quiet, bound):
    """(state, why) of a run that has a report."""
    if code == GENERATOR_INVALID or report["invalid"]:
        return "invalid", "; ".join(report["invalid"]) or "loadgen says so"
    if report["interrupted"]:
        return "invalid", "it was interrupted"
    if report["operations"]["buckets"]["ok"] == 0:
        return "failed", "no operation succeeded"
    if quiet["busy_percent"] > bound:
        return "busy", (f"the machine was busy by {quiet['busy_percent']:.0f} % before it, "
                        f"after {quiet['waited_seconds']:.0f} s of waiting")
    if busy_during > bound:
        return "busy", f"other programs used {busy_during:.0f} % of the machine while it ran"
    return "ok", ""


def one_run(run, attempt, setting, config, store, say):
    """Does one planned run and gives its record; a record of state `failed` when it came to nothing."""
    record = {"schema": sweep_plan.SCHEMA, "id": run["id"], "round": run["round"], "setting": run["setting"],
              "attempt": attempt, "started": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")}
    with STOPS.let_in():
        busy, waited = machine.wait_quiet(config["busy"], config["quiet_within"])
    quiet = {"busy_percent": round(busy, 1), "waited_seconds": round(waited, 1)}
    system = LocalSystem(config["store"], config["backends"], config["memory_limit"], not config["memory_decided"])
    scratch = None
    try:
        system.up(setting["environment"], store.set_active)
        record.update(memory_limit=system.memory_limit, memory_word=system.memory_word)
        if system.memory_word:
            say(f"  without memory cgroups: {system.memory_word}")
        scratch = tempfile.mkdtemp(prefix="loadgen-", dir=system.folder)
        sampler = machine.Sampler(system.watched, config["sample_interval"])
        before, own = machine.machine_ticks(), machine.process_ticks(os.getpid()) or 0
        sampler.start()
        try:
            report, code, load_ticks = Generator(system.url(), config["load"], config["seed"], scratch, "run").run(
                config["run_seconds"])
        finally:
            sampler.stop()
        after = machine.machine_ticks()
        ours = sampler.ticks() + load_ticks + (machine.process_ticks(os.getpid()) or 0) - own
        during = machine.share_percent(before, after, ours)
        state, why = judge(report, code, during, quiet, config["busy"])
        began = wall_clock(report["started"])
        at, systems = machine.utilisation([part.name for part in system.watched], sampler.rows, began,
                                          began + report["elapsed_seconds"])
        again = "-again" if attempt > 1 else ""
        path = os.path.join("reports", f"{run['id']}{again}.json")
        with open(store.path(path), "w", encoding="utf-8") as file:
            json.dump(report, file)
        shares = sweep_plan.shares_of(report, system.backend_names())
        record.update(state=state, why=why, report=path, exit_code=code, shares=shares,
                      figures=sweep_plan.figures_of(report, shares), at=at, systems=systems,
                      others_percent=round(during, 1), quiet=quiet)
    except RunFailed as error:
        record.update(state="failed", why=str(error), quiet=quiet)
    finally:
        system.down()
        store.set_active(None)
    return record
