"""The whole system as users start it: deploy/local.sh, load by loadgen, the loss of a backend in the middle."""

import glob
import http.client
import json
import os
import signal
import ssl
import subprocess
import threading

from case import Case, main
from ports import free_port_base
from programs import LOADGEN_RIGHT, PROGRAMS, ROOT, clean_environment, program, run
from raw import RawClient, fetch, wire
from waiting import TIME_FACTOR, wait_until

LOCAL = os.path.join(ROOT, "deploy", "local.sh")


class Local(Case):
    def setUp(self):
        super().setUp()
        os.chmod(self.folder, 0o711)  # the user postgres passes through
        self.dir = os.path.join(self.folder, "a system")  # with a space
        self.base = free_port_base([0, 1, 2, 3, 11, 12, 13, 31, 32, 33, 50])
        self.addCleanup(self.local, "down")

    def local(self, *arguments, timeout=90):
        return run([LOCAL, *arguments, "--dir", self.dir], timeout=timeout)

    def up(self, store, *more):
        arguments = ["up", "--port-base", str(self.base), "--backends", "3", "--store", store, "--programs", PROGRAMS, *more]
        code, out, err = self.local(*arguments)
        self.assertEqual(code, 0, out + err)
        return out

    def pid(self, name):
        with open(os.path.join(self.dir, name + ".pid"), encoding="ascii") as file:
            return int(file.read())

    def backend_ports(self):
        return [self.base + 11, self.base + 12, self.base + 13]

    def feeds(self):
        bodies = {fetch(port, "/feed", timeout=60).body for port in self.backend_ports()}
        self.assertEqual(len(bodies), 1, "feeds differ")
        return json.loads(bodies.pop())

    def loadgen(self, *arguments):
        results = os.path.join(self.folder, "results")
        command = [program("loadgen"), "-url", f"http://127.0.0.1:{self.base}", "-out-dir", results, "-seed", "7", *arguments]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   env=clean_environment(), text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process, results

    def finish_load(self, process, results):
        out, _ = process.communicate(timeout=180 * TIME_FACTOR)
        files = glob.glob(os.path.join(results, "*.json"))
        self.assertEqual(len(files), 1, out)
        with open(files[0], encoding="utf-8") as file:
            return process.returncode, out, json.load(file)

    def verify(self, *chats):
        """What README's tour does: nothing of this deployment may fail, and nothing be left out."""
        code, out, err = run([program("loadgen"), "verify", "-url", f"http://127.0.0.1:{self.base}", "-wss-url", ",".join(chats),
                              "-backend-urls", ",".join(f"http://127.0.0.1:{p}" for p in self.backend_ports()),
                              "-ca", os.path.join(self.dir, "tls.crt"), "-timeout", "60s", "-json"], timeout=120)
        self.assertEqual(code, 0, out + err)
        checks = json.loads(out)["checks"]
        self.assertEqual({check["outcome"] for check in checks}, {"pass"}, out)
        self.assertGreaterEqual(len(checks), 16)

    def test_load_on_both_stores(self):
        for store, requests in (("sqlite", 3000), ("postgres", 6000)):
            with self.subTest(store):
                self.local("down")  # of a store before that failed
                self.up(store)
                self.assertEqual(self.local("status")[0], 0)
                process, results = self.loadgen("-users", "100", "-requests", str(requests), "-feed-percent", "5",
                                                "-verify-urls", ",".join(f"http://127.0.0.1:{p}" for p in self.backend_ports()))
                code, out, report = self.finish_load(process, results)
                self.assertIn(code, LOADGEN_RIGHT, out)
                self.assertEqual(report["failures"], [], out)
                status = json.loads(fetch(self.base, "/lb/status").body)
                self.assertEqual(len(status["backends"]), 3)
                wss = json.loads(fetch(self.base, "/info").body)["wss"]
                self.assertEqual(wss["url"], f"wss://localhost:{self.base + 1}/ws", "the page's chat is the balancer's")
                for backend in status["backends"]:
                    # Each does real work; how much is the policy's business, and of the machine's moment.
                    self.assertGreater(backend["counters"]["requests"], requests * 0.05, backend["id"])
                    self.assertEqual(backend["in_flight"], 0)
                self.feeds()
                self.verify(*(f"wss://127.0.0.1:{self.base + port}/ws" for port in (1, 31, 32, 33)))
                self.assertEqual(self.local("down")[0], 0)
                self.assertNotEqual(self.local("status")[0], 0)
                for path in glob.glob(os.path.join(results, "*")):
                    os.unlink(path)

    def test_a_backend_dies_and_returns(self):
        """kill -9 under load: no acknowledged message lost, none doubled, feeds byte-equal; traffic again within two
        health intervals of its return."""
        for store in ("sqlite", "postgres"):
            with self.subTest(store):
                self.up(store)
                acknowledged, problems, stop = {}, [], threading.Event()
                writers = [threading.Thread(target=self.write, args=(number, acknowledged, problems, stop), daemon=True)
                           for number in range(12)]
                for writer in writers:
                    writer.start()
                try:
                    requests = lambda name: next(b["counters"]["requests"] for b in self.status()  # noqa: E731
                                                 if b["id"] == name)
                    wait_until(lambda: requests("sys3") > 50, 10, "load on sys3")
                    os.kill(self.pid("sys3"), signal.SIGKILL)
                    wait_until(lambda: not self.healthy("sys3"), 5, "the balancer to notice")
                    self.assertNotEqual(self.local("status")[0], 0)
                    seen = requests("sys3")
                    code, out, err = self.local("start", "sys3")
                    self.assertEqual(code, 0, out + err)
                    wait_until(lambda: requests("sys3") > seen, 2.0, "traffic within two health intervals")
                finally:
                    stop.set()
                    for writer in writers:
                        writer.join(60)
                self.assertEqual(problems, [])
                stored = {}
                for message in self.feeds()["messages"]:
                    self.assertNotIn(message["message-id"], stored, "doubled")
                    stored[message["message-id"]] = message["msg"]
                self.assertGreater(len(acknowledged), 100)
                self.assertEqual({key: stored.get(key) for key in acknowledged}, acknowledged, "lost")
                self.assertEqual(self.local("down")[0], 0)

    def write(self, number, acknowledged, problems, stop):
        """Posts with a key, each again until it is acknowledged; a failure may only be the balancer's 502 or 503."""
        index = 0
        try:
            with RawClient(self.base, timeout=30) as client:
                while not stop.is_set():
                    index += 1
                    name, text = f"{number}-{index}", f"text {number} {index}"
                    body = json.dumps({"client-name": "w", "msg": text}).encode()
                    request = wire(f"POST /message HTTP/1.1|Host: a|Content-Type: application/json|Idempotency-Key: {name}|"
                                   f"Content-Length: {len(body)}||") + body
                    status = 0
                    while status not in (200, 201):
                        response = client.request(request)
                        status = response.status
                        if not response.complete or status not in (200, 201, 502, 503):
                            problems.append(response)
                            return
                    acknowledged[name] = text
        except Exception as error:  # noqa: BLE001
            problems.append(error)

    def status(self):
        return json.loads(fetch(self.base, "/lb/status", timeout=5).body)["backends"]

    def healthy(self, name):
        return next(backend["healthy"] for backend in self.status() if backend["id"] == name)

    def test_commands(self):
        with self.subTest("status and down of nothing"):
            self.assertNotEqual(self.local("status")[0], 0)
            self.assertEqual(self.local("down")[0], 0)
        self.up("sqlite")
        pids = {name: self.pid(name) for name in ("lb", "sys2", "sys3", "sys4")}
        with self.subTest("up again"):
            self.assertIn("already running", self.up("sqlite"))
            self.assertEqual({name: self.pid(name) for name in pids}, pids)
        with self.subTest("HTTPS"):
            context = ssl.create_default_context(cafile=os.path.join(self.dir, "tls.crt"))
            secure = http.client.HTTPSConnection("localhost", self.base + 3, timeout=10, context=context)
            secure.request("GET", "/feed")
            self.assertEqual(secure.getresponse().status, 200)
            secure.close()
            self.assertEqual(os.stat(os.path.join(self.dir, "tls.key")).st_mode & 0o077, 0)
        with self.subTest("other settings while it runs"):
            code, _, err = self.local("up", "--backends", "2")
            self.assertEqual(code, 1)
            self.assertIn("down", err)
        with self.subTest("the same ports from another folder"):
            code, _, err = run([LOCAL, "up", "--dir", self.dir + "2", "--port-base", str(self.base), "--programs", PROGRAMS])
            self.assertEqual(code, 1)
            self.assertIn(f"port {self.base + 11}", err)
        with self.subTest("a stale pid file names a living stranger"):
            self.local("kill", "sys4")
            with open(os.path.join(self.dir, "sys4.pid"), "w", encoding="ascii") as file:
                file.write(str(os.getpid()))
            self.assertEqual(self.local("stop", "sys4")[0], 0)  # and we are still here
            self.up("sqlite")
            self.assertNotEqual(self.pid("sys4"), os.getpid())
        with self.subTest("an upgrade"):
            os.kill(pids["lb"], signal.SIGUSR2)
            wait_until(lambda: self.pid("lb") != pids["lb"], 20, "lb.pid to name the new process")
            self.assertRegex(self.local("status")[1], rf"lb +pid {self.pid('lb')} +port {self.base} +healthy")
            pids["new lb"] = self.pid("lb")
        with self.subTest("bad usage"):
            for arguments in (("fly",), ("up", "--port-base", "x"), ("up", "--store", "paper"), ("up", "--backends", "0")):
                self.assertEqual(self.local(*arguments)[0], 2, arguments)
        self.assertEqual(self.local("down")[0], 0)
        for name, pid in pids.items():  # by what runs there: a pid may be in use again
            try:
                with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
                    self.assertNotIn(self.dir, file.read(), name)
            except OSError:
                pass
        self.assertEqual(self.local("down")[0], 0)

    def test_a_failed_up_leaves_nothing(self):
        """A certificate that cannot be written: no cgroup is kept. A backend that cannot start: exit 1, its log's tail, and
        the rest stopped again."""
        os.makedirs(os.path.join(self.dir, "data"))
        os.mkdir(os.path.join(self.dir, "tls.crt.new"))
        arguments = ("up", "--port-base", str(self.base), "--programs", PROGRAMS)
        code, out, _ = self.local(*arguments, "--memory-limit", "512M")
        self.assertIn(code, (1, 4))  # 4: none can be made here
        self.assertEqual(glob.glob(os.path.join(glob.escape(self.dir), ".sys*.cgroup")), [])
        self.assertNotIn("could not be removed", out)
        os.rmdir(os.path.join(self.dir, "tls.crt.new"))
        os.unlink(os.path.join(self.dir, "settings"))
        with open(os.path.join(self.dir, "data", "encryption.key"), "w", encoding="ascii") as file:
            file.write("not a key\n")
        code, out, err = self.local(*arguments)
        self.assertEqual(code, 1, out + err)
        self.assertIn("encryption.key", err)
        for port in [self.base, *self.backend_ports()]:
            with self.assertRaises(OSError):
                fetch(port, "/health", timeout=2)

    def test_an_up_that_is_ended_just_as_it_starts_something_leaves_nothing(self):
        """The signal comes with the first process, before its number is written down."""
        tools = os.path.join(self.folder, "tools")
        os.mkdir(tools)
        with open(os.path.join(tools, "setsid"), "w", encoding="ascii") as file:
            file.write('#!/bin/sh\nkill -TERM "$PPID"\nexec /usr/bin/setsid "$@"\n')
        os.chmod(file.name, 0o755)
        code, out, err = run([LOCAL, "up", "--port-base", str(self.base), "--programs", PROGRAMS, "--dir", self.dir],
                             PATH=tools + ":" + os.environ["PATH"])
        self.assertEqual(code, 1, out + err)
        self.assertIn("what it had started is stopped again", err)
        wait_until(lambda: not self.processes(), 5, "no process of the folder")

    def processes(self):
        """The numbers of those that have a file of ours on their command line."""
        found = []
        for path in glob.glob("/proc/[0-9]*/cmdline"):
            try:
                with open(path, encoding="utf-8", errors="replace") as file:
                    if self.dir + "/" in file.read():
                        found.append(int(path.split("/")[2]))
            except OSError:
                pass
        return found


if __name__ == "__main__":
    main()
