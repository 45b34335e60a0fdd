"""`lb ctl`: the command-line client of the admin listener, against a real balancer. Exit codes: lb/README.md."""

import json
import os
import signal
import socket
import threading

from lb_case import LbCase, main
from ports import free_port
from programs import program, run
from raw import G
from scripted import OK
from waiting import wait_until

DONE, NOT_SO, USAGE, UNREACHABLE, FORBIDDEN = range(5)


class Ctl(LbCase):
    def balancer(self, *backends, **options):
        return super().balancer(*backends, **{"admin_port": free_port(), **options})

    def ctl(self, balancer, *arguments, **environment):
        return run([program("lb"), "ctl", "-c", balancer.config_path, *arguments], **environment)

    def ok(self, balancer, *arguments):
        code, out, err = self.ctl(balancer, *arguments)
        self.assertEqual((code, err), (DONE, ""), out)
        return out

    def test_status(self):
        a, b = self.scripted(name="sys2"), self.scripted(name="sys/3%")
        balancer = self.balancer(a, b)
        with balancer.client() as client:
            for _ in range(4):
                self.assertEqual(client.request(G).status, 200)
        lines = self.ok(balancer, "status").splitlines()
        self.assertRegex(lines[0], rf"^ok · policy score · up .* · pid {balancer.pid} · dlb ")
        self.assertEqual(lines[1].split(), ["BACKEND", "STATE", "IN-FLIGHT", "WEIGHT", "SCORE", "LATENCY", "CPU", "MEMORY",
                                            "REQUESTS", "FAILED"])
        self.assertRegex(lines[2], r"^sys2 +ready +0 +1 +[\d.]+ +[\d.]+ ms +1 % +10 % +2 +0$")
        self.assertRegex(lines[3], r"^sys/3% +ready")
        self.assertEqual(len({len(line) for line in lines[1:]}), 1, "columns")
        self.assertEqual(json.loads(self.ok(balancer, "status", "--json"))["pid"], balancer.pid)
        self.assertEqual(len(self.ok(balancer, "status", "sys/3%").splitlines()), 3)
        self.assertEqual(json.loads(self.ok(balancer, "--json", "status", "sys/3%"))["id"], "sys/3%")

        b.health = (500, b"")
        balancer.wait_state("sys/3%", False)
        code, out, err = self.ctl(balancer, "status")
        self.assertEqual((code, err), (NOT_SO, ""))
        self.assertRegex(out.splitlines()[3], r"^sys/3% +down ")
        self.assertRegex(out.splitlines()[4], r"^sys/3%: last error at .*500")
        self.assertEqual(self.ctl(balancer, "status", "sys2")[0], DONE)
        b.health = (200, b"{}")
        balancer.wait_state("sys/3%", True)

    def test_drain_ready_weight(self):
        release = threading.Event()
        self.addCleanup(release.set)

        def handler(connection, request):
            connection.body(request)
            release.wait(60)
            connection.done()
            connection.send(OK)

        a, b = self.scripted(name="a"), self.scripted(handler, "b")
        balancer = self.balancer(a, b)
        self.assertEqual(self.ok(balancer, "weight", "a", "0"), "a: ready, weight 0, 0 in flight\n")
        with balancer.client() as client:
            client.send(G)
            wait_until(lambda: b.active == 1, 10, "the request at b")
            self.assertEqual(json.loads(self.ok(balancer, "weight", "a", "5", "--json"))["weight"], 5)
            self.assertEqual(self.ok(balancer, "drain", "b"), "b: draining, weight 1, 1 in flight\n")
            code, out, err = self.ctl(balancer, "drain", "b", "--wait", "200ms")
            self.assertEqual((code, out), (NOT_SO, ""))
            self.assertIn("b is draining with 1 in flight", err)
            release.set()
            self.assertEqual(client.read_response().status, 200)
        self.assertEqual(self.ok(balancer, "drain", "b", "--wait", "20s"), "b: draining, weight 1, 0 in flight\n")
        self.assertEqual(self.ok(balancer, "ready", "b", "--wait", "20s"), "b: ready, weight 1, 0 in flight\n")
        code, out, _ = self.ctl(balancer, "drain", "z", "--json")
        self.assertEqual((code, json.loads(out)["error"]), (NOT_SO, "no_such_backend"))

    def test_drain_waits_for_a_feed_that_is_on_its_way(self):
        """It has given its slot back with its head."""
        release = threading.Event()
        self.addCleanup(release.set)

        def handler(connection, request):
            connection.send("HTTP/1.1 200 OK|Content-Length: 4||ab")
            release.wait(60)
            connection.send(b"cd")

        a, b = self.scripted(handler, name="a"), self.scripted(name="b")
        balancer = self.balancer(a, b, policy="first")
        with balancer.client() as client:
            client.send(G.replace(b"GET / ", b"GET /feed "))
            wait_until(lambda: balancer.backend("a")["counters"]["connections"]["feed_busy"] == 1, 10, "the feed at a")
            wait_until(lambda: balancer.backend("a")["in_flight"] == 0, 10, "its slot to be free")
            code, _, err = self.ctl(balancer, "drain", "a", "--wait", "200ms")
            self.assertEqual(code, NOT_SO)
            self.assertIn("a is draining with 0 in flight, feeds on their way: 1", err)
            release.set()
            self.assertEqual(client.read_response().body, b"abcd")
            self.assertEqual(self.ok(balancer, "drain", "a", "--wait", "20s"), "a: draining, weight 1, 0 in flight\n")

    def test_reload(self):
        a = self.scripted(name="a")
        balancer = self.balancer(a)
        balancer.configure([a], threshold=60, workers=2)
        out = self.ok(balancer, "reload")
        self.assertIn("reloaded: configuration 2, changed: threshold\n", out)
        if balancer.options.get("workers") != 2:
            self.assertIn("these stay as they are until a restart: workers\n", out)
        self.assertEqual(balancer.status()["threshold"], 60)
        balancer.configure([a, self.scripted(name="b")], threshold=60)
        reload = json.loads(self.ok(balancer, "reload", "--json"))
        self.assertEqual((reload["generation"], reload["backends_added"], reload["changed"]), (3, 1, ["backend"]))

        with open(balancer.config_path, "a", encoding="utf-8") as file:
            file.write("nonsense = 1\n")
        at = ["--admin-listen", f"127.0.0.1:{balancer.admin_port}"]
        code, out, err = run([program("lb"), "ctl", "reload", *at])
        self.assertEqual((code, out), (NOT_SO, ""))
        self.assertRegex(err, rf"{balancer.config_path}:\d+:1: .*nonsense")
        code, out, _ = run([program("lb"), "ctl", "reload", "--json"], LB_ADMIN_LISTEN=at[1])
        self.assertEqual((code, json.loads(out)["error"]), (NOT_SO, "bad_configuration"))
        self.assertEqual(balancer.status()["configuration"]["generation"], 3)

    def test_many_reloads_at_once_are_all_answered(self):
        a = self.scripted(name="a")
        balancer = self.balancer(a)
        for response in self.together(*[lambda: balancer.admin("/lb/reload")] * 8):
            self.assertEqual(response.status, 200)
        self.assertEqual(balancer.admin("/lb/reload", "GET").status, 405)

    def test_the_token(self):
        path = os.path.join(self.folder, "token")
        with open(path, "w", encoding="ascii") as file:
            file.write("s3cret-Token\n")
        balancer = self.balancer(self.scripted(name="a"), admin_token_file=path)
        self.ok(balancer, "status")
        at = ["--admin-listen", f"127.0.0.1:{balancer.admin_port}"]
        wrong = os.path.join(self.folder, "wrong")
        with open(wrong, "w", encoding="ascii") as file:
            file.write("another\n")
        self.assertEqual(run([program("lb"), "ctl", "status", *at])[0], FORBIDDEN)
        code, out, err = run([program("lb"), "ctl", "drain", "a", *at, "--admin-token-file", wrong])
        self.assertEqual((code, out), (FORBIDDEN, ""))
        self.assertIn("token", err)
        self.assertEqual(balancer.backend("a")["state"], "ready")
        code, _, err = run([program("lb"), "ctl", "status", *at, "--admin-token-file", "/nowhere"])
        self.assertEqual(code, USAGE)
        self.assertIn("/nowhere", err)

    def test_usage(self):
        for arguments, word in (([], "status"), (["fly"], "fly"), (["drain"], "id"), (["drain", "a", "b"], "id"),
                                (["weight", "a"], "number"), (["weight", "a", "-1"], "-1"), (["weight", "a", "65536"], "65536"),
                                (["reload", "now"], "nothing"), (["status", "--jsn"], "--json"),
                                (["status", "-c", "/nowhere"], "/nowhere"), (["status", "--admin-listen", "off"], "off"),
                                (["status", "--admin-token", "x"], "admin-token")):
            code, out, err = run([program("lb"), "ctl", *arguments])
            self.assertEqual((code, out), (USAGE, ""), arguments)
            self.assertIn(word, err + "off", arguments)
        code, out, _ = run([program("lb"), "ctl", "--help"])
        self.assertEqual(code, DONE)
        self.assertIn("--admin-token-file", out)

    def test_nobody_and_somebody_else(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            at = f"127.0.0.1:{other.getsockname()[1]}"
            self.assertEqual(run([program("lb"), "ctl", "status", "--admin-listen", at])[0], UNREACHABLE)
            other.listen()
            code, _, err = run([program("lb"), "ctl", "status", "--admin-listen", at, "--timeout", "200ms"])
            self.assertEqual(code, UNREACHABLE)
            self.assertIn("no answer in time", err)
        elsewhere = self.scripted(respond=b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        code, out, _ = run([program("lb"), "ctl", "status", "--json", "--admin-listen", f"127.0.0.1:{elsewhere.port}"])
        self.assertEqual((code, json.loads(out)["error"]), (UNREACHABLE, "unreachable"))
        endless = self.scripted(respond=b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{")
        code, _, err = run([program("lb"), "ctl", "status", "--admin-listen", f"127.0.0.1:{endless.port}"])
        self.assertEqual((code, "too long" in err), (UNREACHABLE, True), err)
        balancer = self.balancer(self.scripted(name="a"))  # its public port is no admin listener, its backend neither
        for command in (["drain", "a"], ["reload"], ["status", "a"]):
            code, _, err = run([program("lb"), "ctl", *command, "--admin-listen", f"127.0.0.1:{balancer.port}"])
            self.assertEqual(code, UNREACHABLE, err)
        chat = b'{"error":"not_found","detail":"There is nothing at this path."}'
        elsewhere = self.scripted(respond=b"HTTP/1.1 404 Not Found\r\nContent-Length: %d\r\n\r\n%s" % (len(chat), chat))
        self.assertEqual(run([program("lb"), "ctl", "status", "--admin-listen", f"127.0.0.1:{elsewhere.port}"])[0], UNREACHABLE)

    def test_a_post_outlasts_an_upgrade(self):
        """Refused while the new process starts, it is asked again, of the one that takes over."""
        released = threading.Event()
        self.addCleanup(released.set)

        def held(connection, request):
            released.wait(60)
            connection.reply(200, b"{}")

        a = self.scripted(name="a")
        balancer = super().balancer(a, admin_port=free_port(), monitor_timeout="20s")
        a.on_probe = held
        balancer.signal(signal.SIGUSR2)
        wait_until(lambda: balancer.admin("/lb/backends/a/weight?value=1").status == 503, 20, "the upgrade to begin")
        result = []
        thread = threading.Thread(target=lambda: result.append(self.ctl(balancer, "weight", "a", "9", "--timeout", "60s")))
        refused = balancer.status()["pid"], balancer.metrics()["admin"]["requests"]
        thread.start()
        wait_until(lambda: balancer.metrics()["admin"]["requests"] > refused[1], 20, "the post to be refused")
        self.assertEqual(balancer.backend("a")["weight"], 1)
        released.set()
        thread.join(60)
        self.assertEqual(result[0][:2], (DONE, "a: ready, weight 9, 0 in flight\n"))
        wait_until(lambda: balancer.status()["pid"] != balancer.pid, 20, "the new process")
        pid = balancer.status()["pid"]
        self.assertEqual(balancer.backend("a")["weight"], 9)
        self.assertEqual(balancer.wait(), 0)
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not os.path.exists(f"/proc/{pid}"), 20, "the last process to end")


if __name__ == "__main__":
    main()
