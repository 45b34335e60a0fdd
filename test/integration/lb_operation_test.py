"""What operators meet: status pages, configuration, exit codes, stopping (L21, L23, L24's SIGTERM; section 1 of the
contract)."""

import json
import os
import re
import signal
import socket
import threading
import time

from case import Case, main
from programs import Balancer, program, run
from raw import G, wire
from scripted import OK
from waiting import pause, wait_until


class Pages(Case):
    def test_health(self):
        a = self.scripted()
        balancer = self.balancer(a)
        self.assertEqual(balancer.fetch("/lb/health").status, 200)
        a.refuse(cut=True)
        wait_until(lambda: balancer.fetch("/lb/health").status == 503, 5, "503")

    def test_status(self):
        balancer = self.balancer(self.scripted(name="sys2"), self.scripted(name="sys3"), threshold=66)
        with self.subTest("fields"):
            status = balancer.status()
            self.assertEqual([backend["id"] for backend in status["backends"]], ["sys2", "sys3"])
            for backend in status["backends"]:
                self.assertIs(backend["healthy"], True)
                self.assertIsInstance(backend["state"], str)
                self.assertIsInstance(backend["in_flight"], int)
                self.assertIsInstance(backend["score"], (int, float))
            self.assertIn("66", json.dumps(status), "the configuration in force")
        with self.subTest("methods"):
            self.assertEqual(balancer.fetch("/lb/status", "HEAD").status, 200)
            response = balancer.fetch("/lb/status", "POST")
            self.assertEqual(response.status, 405)
            self.assertIn("GET", response.header("allow"))
            self.assertEqual(balancer.fetch("/lb/nothing").status, 404)

    def test_metrics_in_json_and_prometheus_agree(self):
        a = self.scripted()
        balancer = self.balancer(a)
        for _ in range(5):
            balancer.fetch("/")
        metrics = balancer.metrics()
        self.assertEqual(metrics["requests"]["total"], 5)
        for response in (balancer.fetch("/lb/metrics?format=prometheus"),
                         balancer.fetch("/lb/metrics", headers=[("Accept", "text/plain;version=0.0.4")])):
            self.assertTrue(response.header("content-type").startswith("text/plain"))
            text = response.body.decode()
            self.assertRegex(text, r"(?m)^dlb_[a-z_]*requests_total(\{[^}]*\})? 5$")
            self.check_prometheus(text)

    def check_prometheus(self, text):
        """The exposition format: HELP and TYPE before a family's samples, no family twice, numbers only."""
        typed, families = {}, []
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split(" ")
                self.assertNotIn(name, typed, "a family stands twice")
                typed[name] = kind
            elif line and not line.startswith("#"):
                match = re.fullmatch(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(\{([a-z_]+="(\\.|[^"\\\n])*",?)*\})? (\S+)', line)
                self.assertTrue(match, line)
                float(match.group(5))
                name = match.group(1)
                base = name if name in typed else re.sub(r"_(sum|count|bucket)$", "", name)
                self.assertIn(base, typed, line)
                self.assertTrue(name.startswith("dlb_"), line)
                if typed[base] == "counter":
                    self.assertTrue(base.endswith("_total"), line)
                families.append(base)
        self.assertGreater(len(set(families)), 10)

    def test_pages_may_be_kept_off_the_public_listener(self):
        a = self.scripted()
        balancer = self.balancer(a, start=False, public_status=False)
        balancer.spawn([program("lb"), "-c", balancer.config_path])
        wait_until(lambda: balancer.fetch("/").status == 200, 10, "service")
        self.assertEqual(balancer.fetch("/lb/status").status, 404)
        self.assertFalse([request for request in a.requests if request.target.startswith("/lb/")])


class Configuration(Case):
    def check(self, text, *arguments, **environment):
        path = os.path.join(self.folder, "bad.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        code, out, err = run([program("lb"), "-c", path, *arguments], **environment)
        return path, code, out, err

    GOOD = '[[backend]]\nid = "a"\nurl = "http://127.0.0.1:1"\n'

    def test_faults_are_told_in_one_line_with_their_place(self):
        for text, line, words in [
            ("max-inflght = 100\n" + self.GOOD, 1, ["max-inflght", "max-inflight"]),
            ('\nthreshold = "high"\n' + self.GOOD, 2, ["threshold"]),
            ("threshold = 1000\n" + self.GOOD, 1, ["threshold"]),
            ('policy = "fastest"\n' + self.GOOD, 1, ["policy", "score"]),
            ('health-interval = "1 parsec"\n' + self.GOOD, 1, ["health-interval"]),
            ("threshold = = 1\n" + self.GOOD, 1, []),
            (self.GOOD + '[[backend]]\nid = "a"\nurl = "http://127.0.0.1:2"\n', None, ["a"]),
            ('[[backend]]\nid = "a"\nurl = "https://127.0.0.1:2"\n', None, ["url"]),
            ("threshold = 50\n", None, ["backend"]),
        ]:
            for arguments in (("-t",), ()):
                with self.subTest(text, arguments=arguments):
                    path, code, _, err = self.check(text, *arguments)
                    self.assertEqual(code, 2, err)
                    self.assertEqual(len(err.strip().splitlines()), 1, err)
                    if line is not None:
                        self.assertIn(f"{path}:{line}:", err)
                    for word in words:
                        self.assertIn(word, err)

    def test_a_missing_file(self):
        code, _, err = run([program("lb"), "-c", os.path.join(self.folder, "none.toml")])
        self.assertEqual(code, 2)
        self.assertIn("none.toml", err)

    def test_a_good_file(self):
        _, code, _, err = self.check(self.GOOD, "-t")
        self.assertEqual(code, 0, err)

    def test_precedence_and_print_config(self):
        text = "threshold = 10\nmax-inflight = 20\nbackend-cap = 30\n" + self.GOOD
        _, code, out, err = self.check(text, "--threshold", "11", "--print-config", LB_THRESHOLD="12", LB_MAX_INFLIGHT="22",
                                       LB_UNKNOWN="x")
        self.assertEqual(code, 0, err)
        for line in (r"threshold *= *11(\.0)?", r"max-inflight *= *22", r"backend-cap *= *30"):
            self.assertRegex(out, rf"(?m)^{line}\s*(#.*)?$")
        again, code, repeated, err = self.check(out, "--print-config")
        self.assertEqual((code, repeated), (0, out), err)

    def test_help_and_version(self):
        code, out, _ = run([program("lb"), "--help"])
        self.assertEqual(code, 0)
        for word in ("max-inflight", "backend-queue-timeout", "threshold"):
            self.assertIn(word, out)
        code, out, _ = run([program("lb"), "--version"])
        self.assertEqual(code, 0)
        self.assertRegex(out, r"\d+\.\d+\.\d+")

    def test_unknown_command_line_option(self):
        code, _, err = run([program("lb"), "--max-inflght", "1"])
        self.assertEqual(code, 2)
        self.assertIn("max-inflight", err)

    def test_a_port_in_use(self):
        taken = socket.socket()
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        self.addCleanup(taken.close)
        port = taken.getsockname()[1]
        _, code, _, err = self.check(f'listen = "127.0.0.1:{port}"\n' + self.GOOD)
        self.assertIn(code, (1, 2))
        self.assertIn(str(port), err)
        self.assertIn("use", err)

    def test_backends_from_the_command_line(self):
        a, b = self.scripted(), self.scripted()
        balancer = self.keep(Balancer(self.folder, []))
        balancer.spawn([program("lb"), "-c", balancer.config_path, "--backends", f"{a.url},{b.url}"])
        wait_until(lambda: balancer.fetch("/").status == 200, 10, "service")
        self.assertEqual(len(balancer.status()["backends"]), 2)

    def test_backends_from_a_json_file(self):
        a = self.scripted()
        path = os.path.join(self.folder, "config.json")
        with open(path, "w", encoding="ascii") as file:
            json.dump([{"name": "one", "url": a.url, "weight": 2}], file)
        balancer = self.keep(Balancer(self.folder, [], backends_file=path)).start(1)
        self.assertEqual(balancer.fetch("/").header("x-load-balancer-backend"), "one")


def end_with(pid):
    """Of a process that is not our child."""
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"), 15, "it to end")


class Stopping(Case):
    def test_lb_20_running_responses_finish(self):
        """LB-20: TERM with slow responses running; all complete, exit 0, and new connections are refused after that."""
        def handler(connection, request):
            connection.body(request)
            connection.send("HTTP/1.1 200 OK|Content-Length: 10||")
            for _ in range(10):
                pause(0.06)
                connection.send(b"x")

        a = self.scripted(handler)
        balancer = self.balancer(a, drain_notice="200ms", drain_timeout="5s")
        clients = [balancer.client() for _ in range(10)]
        for client in clients:
            self.addCleanup(client.close)
            client.send(G)
        wait_until(lambda: a.active == 10, 5, "the responses to run")
        balancer.signal(signal.SIGTERM)
        for client in clients:
            response = client.read_response()
            self.assertEqual((response.status, response.complete, response.body), (200, True, b"x" * 10))
        self.assertEqual(balancer.wait(), 0)
        with self.assertRaises(OSError):
            balancer.client()

    def test_notice_says_503_and_still_serves(self):
        balancer = self.balancer(self.scripted(), drain_notice="1s")
        kept = balancer.client()
        self.addCleanup(kept.close)
        self.assertEqual(kept.request(G).status, 200)
        balancer.signal(signal.SIGTERM)
        wait_until(lambda: balancer.fetch("/lb/health").status == 503, 0.9, "the notice")
        response = balancer.fetch("/")
        self.assertEqual(response.status, 200)
        response = kept.request(G)
        self.assertEqual((response.status, response.header("connection")), (200, "close"))
        self.assertEqual(balancer.wait(), 0)

    def test_lb_20_keep_alive_clients_lose_nothing(self):
        """LB-20: 16 clients in a loop; each gets whole answers until one says close or the connection ends while idle."""
        balancer = self.balancer(self.scripted(), drain_notice="300ms", drain_timeout="2s")
        started = threading.Barrier(17)
        answered = []

        def client():
            with balancer.client() as connection:
                self.assertEqual(connection.request(G).status, 200)
                started.wait()
                for count in range(100000):
                    try:
                        connection.send(G)
                        if not connection.buffer and not connection.fill():
                            raise AssertionError(f"closed without an answer after {count} requests")
                    except OSError as error:
                        raise AssertionError(f"{error} after {count} requests") from error
                    response = connection.read_response()
                    self.assertEqual((response.status, response.complete), (200, True))
                    if response.header("connection") == "close":
                        answered.append(count)
                        return

        def stop():
            started.wait()
            balancer.signal(signal.SIGTERM)

        self.together(stop, *[client] * 16)
        self.assertEqual(len(answered), 16)
        self.assertEqual(balancer.wait(), 0)

    def test_lb_20_a_request_just_behind_the_signal_is_served(self):
        """LB-20: idle clients, kept and new, speak a moment after TERM, also when there is no notice at all."""
        for notice in ("0s", "50ms"):
            with self.subTest(notice=notice):
                balancer = self.balancer(self.scripted(), drain_notice=notice, drain_timeout="5s")
                clients = [balancer.client() for _ in range(12)]
                for client in clients:
                    self.addCleanup(client.close)
                for client in clients[::2]:
                    self.assertEqual(client.request(G).status, 200)
                wait_until(lambda: balancer.metrics()["requests"]["in_progress"] == 0, 5, "all to be idle")
                balancer.signal(signal.SIGTERM)
                start, in_time = time.monotonic(), []
                for client in clients:
                    pause(0.005)
                    try:
                        client.send(G)
                    except OSError:
                        break
                    if time.monotonic() - start < 0.1:  # a test that was held up proves nothing
                        in_time.append(client)
                for client in in_time:
                    response = client.read_response()
                    self.assertEqual((response.status, response.complete), (200, True))
                for client in clients:
                    client.close()
                self.assertEqual(balancer.wait(), 0)

    def test_lb_20_an_answer_on_its_way_outlives_the_end_of_an_idle_connection(self):
        """A client that reads late, and speaks again after its connection has been closed, gets its first answer whole."""
        body = b"x" * 30000
        a = self.scripted(respond=wire(f"HTTP/1.1 200 OK|Content-Length: {len(body)}||") + body)
        balancer = self.balancer(a, drain_notice="0s", drain_timeout="10s")
        with balancer.client(receive_buffer=4096) as client:
            client.send(G)
            wait_until(lambda: balancer.metrics()["connections"]["client"]["idle"] == 1, 5, "the answer to be the kernel's")
            balancer.signal(signal.SIGTERM)
            wait_until(lambda: "draining" in balancer.log(), 5, "the drain")
            balancer.wait_no_clients()  # it has ended the connection, behind what the client has not read
            try:
                client.send(G)
            except OSError:
                pass
            response = client.read_response()
            self.assertEqual((response.status, response.complete, len(response.body)), (200, True, len(body)))
        self.assertEqual(balancer.wait(), 0)

    def test_what_does_not_end_is_cut_at_the_timeout(self):
        a = self.scripted(lambda connection, request: connection.wait_for_end())
        balancer = self.balancer(a, drain_timeout="300ms")
        with balancer.client() as client:
            client.send(G)
            wait_until(lambda: a.active == 1, 5, "the request")
            balancer.signal(signal.SIGTERM)
            self.assertEqual(balancer.wait(5), 0)

    def test_a_second_signal_cuts(self):
        a = self.scripted(lambda connection, request: connection.wait_for_end())
        balancer = self.balancer(a, drain_notice="20s", drain_timeout="20s")
        with balancer.client() as client:
            client.send(G)
            wait_until(lambda: a.active == 1, 5, "the request")
            balancer.signal(signal.SIGINT)
            wait_until(lambda: balancer.fetch("/lb/health").status == 503, 5, "the drain")
            balancer.signal(signal.SIGTERM)
            self.assertEqual(client.read_response().status, 504)  # all that it needs no time for
            balancer.wait(5)
            balancer.killed = True  # its exit code is its own affair


class Streams(Case):
    def test_without_standard_streams_no_socket_takes_their_place(self):
        """Of lb and of backend, and of the process that an upgrade of lb has started."""
        backend = self.chat_backends(1, start=False)[0]
        balancer = self.balancer(backend, start=False)
        for part, name in ((backend, "backend"), (balancer, "lb")):
            part.spawn(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", program(name), "-c", part.config_path])

        def streams(pid):
            return [os.readlink(f"/proc/{pid}/fd/{number}") for number in (0, 1, 2)]

        wait_until(lambda: balancer.fetch("/feed").status == 200, 15, "the system to serve")
        first = balancer.status()["pid"]
        balancer.signal(signal.SIGUSR2)
        wait_until(lambda: balancer.status()["pid"] != first, 15, "the upgrade")
        second = balancer.status()["pid"]
        self.addCleanup(end_with, second)
        for pid in (backend.pid, second):
            self.assertEqual(streams(pid), ["/dev/null"] * 3)
        self.assertEqual(balancer.wait(), 0)


class Connections(Case):
    def test_idle_ones_make_room_at_the_cap(self):
        """L17 in part: at the cap a new connection is served or refused, never left hanging."""
        balancer = self.balancer(self.scripted(), client_max_connections=5)
        clients = []
        for _ in range(20):
            client = balancer.client()
            self.addCleanup(client.close)
            clients.append(client)
            try:
                client.send(G)
                response = client.read_response()
                self.assertIn(response.status, (200, 503))
            except Exception:  # noqa: BLE001 - refused: closed at once
                self.assertTrue(client.closed_within(2))
        self.assertTrue(balancer.alive())

    def test_it_stays_alive_through_odd_clients(self):
        balancer = self.balancer(self.scripted(lambda connection, request: (connection.body(request), connection.send(OK))))
        for data in (b"", b"\r\n", b"\r\n\r\n", b"\n" * 100, b"\x00" * 1000, b"GET", wire("GET / HTTP/1.1|"), b"\xff" * 70000):
            client = balancer.client()
            try:
                client.send(data)
            except OSError:
                pass
            client.reset()
        with balancer.client() as client:
            client.send(wire("||") + G)  # empty lines before a request are ignored (RFC 9112, 2.2)
            self.assertEqual(client.read_response().status, 200)
        balancer.wait_quiet()


if __name__ == "__main__":
    main()
