"""Starts, watches and ends real programs: lb, backend, a private PostgreSQL. Which build is tested says DLB_PROGRAMS
(the repository's root, build/asan/bin, build/tsan/bin)."""

import atexit
import glob
import json
import os
import shutil
import signal
import subprocess
import tempfile

from ports import free_port
from raw import Incomplete, RawClient, fetch
from waiting import TIME_FACTOR, wait_until

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
PROGRAMS = os.path.realpath(os.environ.get("DLB_PROGRAMS", ROOT))
SANITIZED = "asan" in PROGRAMS or "tsan" in PROGRAMS
_SANITIZER_WORDS = ("AddressSanitizer", "LeakSanitizer", "ThreadSanitizer", "runtime error:", "CHECK failed")

LOADGEN_RIGHT = (0, 4)  # 4: answers and feed are right, but the generator was the slower one, so its figures are no measurement


def program(name):
    return os.path.join(PROGRAMS, name, name)


def toml_value(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    return json.dumps(str(value))  # a JSON string is a TOML basic string


def clean_environment(**extra):
    """Without variables that the programs would read."""
    dropped = ("LB_", "LOADGEN_", "DB_", "HTTP_", "WS_", "DATABASE_URL", "DATA_DIR", "BACKEND_ID", "MESSAGE_ENCRYPTION")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
    kept.setdefault("ASAN_OPTIONS", "abort_on_error=0:detect_stack_use_after_return=0")
    kept.setdefault("TSAN_OPTIONS", "halt_on_error=0:exitcode=66")
    kept.setdefault("UBSAN_OPTIONS", "print_stacktrace=1")
    kept.update(extra)
    return kept


def run(arguments, timeout=30, **environment):
    """Runs a program to its end; returns (exit code, stdout, stderr)."""
    done = subprocess.run(arguments, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                          timeout=timeout * TIME_FACTOR, env=clean_environment(**environment))
    return done.returncode, done.stdout, done.stderr


class Program:
    def __init__(self, folder, name):
        self.folder, self.name = folder, name
        self.log_path = os.path.join(folder, name + ".log")
        self.process = None
        self.killed = False

    def spawn(self, arguments, environment=None, **popen):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=environment or clean_environment(), **popen)
        self.killed = False

    @property
    def pid(self):
        return self.process.pid

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def log(self):
        try:
            with open(self.log_path, encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def log_tail(self, lines=30):
        return f"--- {self.name}\n" + "\n".join(self.log().splitlines()[-lines:])

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        """kill -9, and gone."""
        self.killed = True
        self.process.kill()
        self.process.wait()

    def wait(self, timeout=15):
        return self.process.wait(timeout * TIME_FACTOR)

    def terminate(self, timeout=15):
        """SIGTERM and the exit code."""
        if self.alive():
            self.signal(signal.SIGTERM)
        return self.wait(timeout)

    def rss(self):
        with open(f"/proc/{self.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    def open_files(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def cpu_seconds(self):
        with open(f"/proc/{self.pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def finish(self):
        """For the end of a test: a clean stop, or what was wrong about it as text."""
        if self.process is None:
            return ""
        problem = ""
        if not self.killed:
            crashed = self.process.poll()
            try:
                code = self.terminate(timeout=20)
                if crashed not in (None, 0):
                    problem = f"{self.name} had ended with code {crashed}"
                elif code != 0:
                    problem = f"{self.name} ended with code {code} after SIGTERM"
            except subprocess.TimeoutExpired:
                self.kill()
                problem = f"{self.name} did not end after SIGTERM"
        log = self.log()
        for word in _SANITIZER_WORDS:
            if word in log:
                problem = problem or f"{self.name}: {word} in its log"
                return problem + "\n" + log[-20000:]
        return problem and problem + "\n" + self.log_tail()


class Balancer(Program):
    """lb before scripted or real backends, with intervals fit for tests; any option by keyword (`backend_cap=4`). With
    `admin_port`, a free one, it has an admin listener."""

    DEFAULTS = {"health_interval": "100ms", "stats_interval": "100ms", "monitor_timeout": "1s", "drain_notice": "50ms",
                "drain_timeout": "1s", "tunnel_drain_timeout": "200ms", "lb_max_socket_bytes": 0,
                "admin_listen": "off"}
    if "DLB_WORKERS" in os.environ:  # of a run of all tests with that many, where a test doesn't say itself
        DEFAULTS["workers"] = int(os.environ["DLB_WORKERS"])

    def __init__(self, folder, backends, name="lb", weights=None, extra="", admin_port=None, **options):
        super().__init__(folder, name)
        self.port = free_port()
        self.with_statistics = options.get("stats_path") != "" and all(getattr(b, "stats", 1) is not None for b in backends)
        self.config_path = os.path.join(folder, name + ".toml")
        self.admin_port = admin_port
        if admin_port:
            options = {"admin_listen": f"127.0.0.1:{admin_port}", **options}
        self.options = {**self.DEFAULTS, "listen": f"127.0.0.1:{self.port}", **options}
        self.configure(backends, weights, extra)

    def configure(self, backends, weights=None, extra="", **options):
        """Writes the file: these backends, and the options as they were, or as given now."""
        self.backends = backends
        settings = {**self.options, **options}
        lines = [f"{key.replace('_', '-')} = {toml_value(value)}" for key, value in settings.items()]
        for index, backend in enumerate(backends):
            lines += ["", "[[backend]]", f"id = {toml_value(backend.name)}", f"url = {toml_value(backend.url)}"]
            if weights:
                lines.append(f"weight = {weights[index]}")
        with open(self.config_path + ".new", "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n" + extra)
        os.replace(self.config_path + ".new", self.config_path)  # whoever reads it meanwhile reads it whole

    def reload(self, ok=True):
        """SIGHUP, and what came of it: a generation that every worker has and whose backends were checked, or an error."""
        before = self.status()["configuration"]
        self.signal(signal.SIGHUP)

        def done():
            now = self.status()["configuration"]
            if not ok:
                return now["reloads_failed"] > before["reloads_failed"] and now
            return now["generation"] > before["generation"] and not now["settling"] and now

        return wait_until(done, 10, "the reload" if ok else "the refusal")

    def start(self, healthy=None, timeout=10, open_files=0, within=""):
        """Starts, and waits until `healthy` backends are (all, when not given). `open_files`: its ulimit -n; `within`: the
        cgroup.procs file of the cgroup it runs in."""
        before = ["prlimit", f"--nofile={open_files}"] if open_files else []
        if within:
            before = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', within] + before
        self.spawn(before + [program("lb"), "-c", self.config_path])
        wanted = len(self.backends) if healthy is None else healthy

        def ready():
            if not self.alive():
                raise RuntimeError("lb ended: " + self.log_tail())
            return sum(backend["healthy"] for backend in self.status()["backends"]) >= wanted

        wait_until(ready, timeout, f"{wanted} healthy backends in /lb/status")
        if self.with_statistics:
            # The first statistics are in too, so that no staleness penalty makes the first picks special.
            wait_until(lambda: all(backend["statistics_age_ms"] is not None or not backend["healthy"]
                                   for backend in self.status()["backends"]), 5, "the first statistics")
        return self

    def client(self, **options):
        return RawClient(self.port, **options)

    def fetch(self, target="/", method="GET", body=b"", headers=(), timeout=15.0):
        return fetch(self.port, target, method, body, headers, timeout=timeout)

    def admin(self, target, method="POST", headers=(), timeout=15.0):
        return fetch(self.admin_port, target, method, b"", headers, timeout=timeout)

    def status(self):
        return json.loads(self.fetch("/lb/status", timeout=5.0).body)

    def backend(self, name):
        for backend in self.status()["backends"]:
            if backend["id"] == name:
                return backend
        raise KeyError(name)

    def metrics(self):
        return json.loads(self.fetch("/lb/metrics", timeout=5.0).body)

    def in_flight(self):
        return sum(backend["in_flight"] for backend in self.status()["backends"])

    def wait_quiet(self, timeout=5.0):
        """Until no backend has a request, and each is counted: that comes when the client has been given all of it."""
        wait_until(lambda: self.in_flight() == 0 and self.metrics()["requests"]["in_progress"] == 0, timeout,
                   "no request to be in flight or in progress")

    def wait_no_clients(self, timeout=5.0):
        """Until the balancer has closed every client connection, those of status requests too: for exact caps."""
        local, open_states = f":{self.port:04X}", ("01", "08")  # ESTABLISHED, CLOSE_WAIT

        def none():
            with open("/proc/net/tcp", encoding="ascii") as file:
                rows = [line.split() for line in file.readlines()[1:]]
            return not any(row[1].endswith(local) and row[3] in open_states for row in rows)

        wait_until(none, timeout, "no client connection")

    def wait_state(self, name, healthy, timeout=5.0):
        wait_until(lambda: self.backend(name)["healthy"] == healthy, timeout, f"{name} healthy={healthy}")


class ChatBackend(Program):
    """One real backend; `store` is a PostgresServer, or None for SQLite in `data_dir`. With `wss` it has a ws-port, which
    needs tls_cert and tls_key beside PostgreSQL."""

    def __init__(self, folder, name, data_dir, store=None, key_file=None, wss=False, **options):
        super().__init__(folder, name)
        self.port = free_port()
        self.ws_port = free_port() if wss else 0
        self.data_dir, self.store = data_dir, store
        self.key_file = key_file or os.path.join(data_dir, "encryption.key")
        self.config_path = os.path.join(folder, name + ".toml")
        settings = {"backend_id": name, "http_port": self.port, "data_dir": data_dir,
                    "message_encryption_key_file": self.key_file, "drain_notice": "100ms", "drain_timeout": "2s",
                    "enable_websocket": wss, "ws_port": self.ws_port}
        settings.update(options)
        with open(self.config_path, "w", encoding="utf-8") as file:
            for key, value in settings.items():
                file.write(f"{key.replace('_', '-')} = {toml_value(value)}\n")

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def launch(self, within=""):
        """`within`: the cgroup.procs file of the cgroup it runs in."""
        before = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', within] if within else []
        extra = {"DATABASE_URL": self.store.url} if self.store else {}
        self.spawn([*before, program("backend"), "-c", self.config_path], clean_environment(**extra))
        return self

    def start(self, timeout=15):
        self.launch()
        return self.wait_healthy(timeout)

    def wait_healthy(self, timeout=15):
        def ready():
            if not self.alive():
                raise RuntimeError("backend ended: " + self.log_tail())
            return self.fetch("/health", timeout=3.0).status == 200

        wait_until(ready, timeout, f"{self.name} to be healthy")
        return self

    def terminate(self, timeout=15):
        """As a balancer sees it: after SIGTERM it asks for health until it has been told; the process waits for that."""
        if self.alive():
            self.signal(signal.SIGTERM)
            wait_until(lambda: not self.alive() or self._told_of_drain(), timeout, "the drain to be told")
        return self.wait(timeout)

    def _told_of_drain(self):
        try:
            return self.fetch("/health", timeout=3.0).status == 503 and self.fetch("/healthz", timeout=3.0).status == 503
        except (OSError, Incomplete):
            return True

    def client(self, **options):
        return RawClient(self.port, **options)

    def fetch(self, target="/", method="GET", body=b"", headers=(), timeout=15.0):
        return fetch(self.port, target, method, body, headers, timeout=timeout)

    def post(self, message, headers=(), timeout=15.0):
        return post_message(self.port, message, headers, timeout)


def post_message(port, message, headers=(), timeout=15.0):
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return fetch(port, "/message", "POST", body, [("Content-Type", "application/json"), *headers], timeout=timeout)


class PostgresServer(Program):
    """A private cluster, loopback only; PostgreSQL refuses to be root, so it then is the user postgres. One per test file
    (shared()), with a database of its own for each test. Without fsync: no test takes the machine's power away."""

    _shared = None

    @classmethod
    def shared(cls):
        if cls._shared is None:
            folder = tempfile.mkdtemp(prefix="dlb-postgres-")
            cls._shared = cls(folder)
            atexit.register(cls._shared.remove)
        if not cls._shared.alive():
            cls._shared.start()
        return cls._shared

    def __init__(self, folder):
        super().__init__(folder, "postgresql")
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin/postgres"), key=lambda path: int(path.split("/")[4]))
        assert found, "PostgreSQL is not installed: run deploy/setup.sh test"
        self.bin = os.path.dirname(found[-1])
        self.data = os.path.join(folder, "cluster")
        self.port = free_port()
        self.database, self.databases = "chat", 0
        self.as_user = []
        os.mkdir(self.data, 0o700)
        if os.geteuid() == 0:
            self.as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", "--"]
            os.chmod(folder, 0o711)
            shutil.chown(self.data, "postgres", "postgres")
        self._once(["initdb", "-D", self.data, "-U", "postgres", "-E", "UTF8", "--no-locale", "--auth=trust",
                    "--no-instructions", "--no-sync"])
        self._once(["postgres", "--single", "-D", self.data, "postgres"], "CREATE ROLE chat_user LOGIN CREATEDB;\n")

    @property
    def url(self):
        return f"postgresql://chat_user@127.0.0.1:{self.port}/{self.database}"

    def _once(self, arguments, text=""):
        command = self.as_user + [os.path.join(self.bin, arguments[0])] + arguments[1:]
        with open(self.log_path, "ab") as log:
            subprocess.run(command, input=text.encode(), stdout=log, stderr=log, check=True, timeout=120,
                           env=clean_environment())

    def start(self):
        command = self.as_user + [os.path.join(self.bin, "postgres"), "-D", self.data, "-p", str(self.port)]
        for setting in ("listen_addresses=127.0.0.1", "unix_socket_directories=", "log_statement=none", "fsync=off"):
            command += ["-c", setting]
        self.spawn(command)
        ready = [os.path.join(self.bin, "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port), "-U", "chat_user"]
        wait_until(lambda: run(ready)[0] == 0, 30, "PostgreSQL to answer", interval=0.03)
        return self

    def fresh_database(self):
        self.databases += 1
        name = f"chat_{self.databases}"
        self.database = "postgres"
        self.query(f"create database {name}")
        self.database = name

    def stop(self, immediate=False):
        """Sends the clients away ("fast"), or as after a crash ("immediate")."""
        self.signal(signal.SIGQUIT if immediate else signal.SIGINT)
        self.process.wait(60)

    def finish(self):
        return ""  # it serves the next test

    def remove(self):
        if self.alive():
            self.stop(immediate=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def psql(self, *arguments):
        return [os.path.join(self.bin, "psql"), "-X", "-h", "127.0.0.1", "-p", str(self.port), "-U", "chat_user", "-d",
                self.database, "-v", "ON_ERROR_STOP=1", *arguments]

    def query(self, sql):
        """The rows as lists of text."""
        code, out, err = run(self.psql("-A", "-t", "-F", "\x1f", "-c", sql))
        assert code == 0, err
        return [line.split("\x1f") for line in out.splitlines() if line]
