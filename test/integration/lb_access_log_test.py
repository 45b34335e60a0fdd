"""The access log (L26): what a line says, who ended a request in which phase, rotation, and that no disk stops traffic."""

import json
import os
import re
import signal
import threading

from lb_case import main
from endings import LoggedCase, Plain, fill, listener_to_fill
from raw import G, RawClient, wire
from tunnel_peers import take_over
from waiting import wait_until

LINE = re.compile(
    r'^(?P<client>\S+) - - \[(?P<time>\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d \+0000)\] "(?P<request>(?:[^"\\]|\\x..)*)" '
    r'(?P<status>\d{3}|-) (?P<bytes>\d+) "(?P<referer>[^"]*)" "(?P<agent>[^"]*)" backend=(?P<backend>\S+) '
    r'queue_ms=(?P<queue>\S+) connect_ms=(?P<connect>\S+) response_ms=(?P<response>\S+) total_ms=(?P<total>\S+) '
    r'retries=(?P<retries>\d) in=(?P<in>\d+) out=(?P<out>\d+) end=(?P<end>[-CcSsL][-RQCHDT])$')


class Lines(LoggedCase):
    FORMAT = "combined"

    def parsed(self, count):
        lines = self.lines(count)
        matches = [LINE.match(line) for line in lines]
        self.assertTrue(all(matches), lines)
        return [match.groupdict() for match in matches]

    def test_a_combined_line(self):
        a = self.scripted(name="sys2")
        balancer = self.logged_balancer(a)
        with balancer.client() as client:
            client.send('POST /x/y?q=1 HTTP/1.1|Host: a|Content-Length: 3|User-Agent: agent/1 "q" \\|'
                        "Referer: http://e/p?x=1||abc")
            response = client.read_response()
        line = self.parsed(1)[0]
        self.assertEqual((line["client"], line["request"]), ("127.0.0.1", "POST /x/y?q=1 HTTP/1.1"))
        self.assertEqual((line["status"], line["bytes"], line["backend"]), ("200", "2", "sys2"))
        self.assertEqual((line["referer"], line["agent"]), ("http://e/p?x=1", r"agent/1 \x22q\x22 \x5C"))
        self.assertEqual(int(line["out"]), len(response.raw_head) + 4 + 2)
        self.assertGreater(int(line["in"]), 100)
        self.assertEqual((line["retries"], line["end"]), ("0", "--"))
        parts = [float(line[name]) for name in ("queue", "connect", "response", "total")]
        self.assertTrue(all(part >= 0 for part in parts) and sum(parts[:3]) <= parts[3] + 0.002, line)

    def test_to_standard_output(self):
        balancer = self.balancer(self.scripted(name="sys2"), access_log="-")
        with balancer.client() as client:
            client.request("GET /x HTTP/1.1|Host: a||")
        shown = lambda: [line for line in balancer.log().splitlines() if '"GET /x ' in line]  # noqa: E731
        wait_until(shown, 5, "the line")
        self.assertEqual([LINE.match(line)["backend"] for line in shown()], ["sys2"])

    def test_our_own_answers_and_bad_heads(self):
        balancer = self.logged_balancer(self.scripted())
        for data in (b"GET /lb/health HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /internal/x HTTP/1.1\r\nHost: a\r\n\r\n",
                     b"FROB / HTTP/1.1\r\nHost: a\r\n\r\n", b"\x16\x03\x01 nonsense\r\n\r\n",
                     b"GET /message?msg=secret HTTP/1.1\r\nHost : a\r\n\r\n"):
            with balancer.client() as client:
                client.send(data)
                client.read_response()
                client.shutdown_write()
                client.read_to_end()
        lines = self.parsed(5)
        self.assertEqual([(line["status"], line["end"], line["backend"]) for line in lines],
                         [("200", "--", "-"), ("404", "LR", "-"), ("501", "LR", "-"), ("400", "LR", "-"), ("400", "LR", "-")])
        self.assertEqual(lines[3]["request"], r"\x16\x03\x01 nonsense")
        self.assertNotIn("secret", lines[4]["request"])

    def test_a_message_is_not_logged(self):
        balancer = self.logged_balancer(self.scripted())
        with balancer.client() as client:
            for target in ("/message?msg=secret", "/%6dessage?msg=secret", "//message?msg=secret", "/x/../message?msg=secret",
                           "http://h/message?msg=secret"):
                client.request(f"GET {target} HTTP/1.1|Host: a|Referer: http://e/message?msg=secret||")
        lines = self.parsed(5)
        self.assertNotIn("secret", "".join(self.all_lines()))
        self.assertEqual(lines[0]["request"], "GET /message?... HTTP/1.1")
        self.assertEqual(lines[0]["referer"], "http://e/message?...")
        self.assertEqual(lines[4]["request"], "GET http://h/message?... HTTP/1.1")

    def test_long_values_are_cut(self):
        balancer = self.logged_balancer(self.scripted())
        balancer.fetch("/" + "t" * 5000, headers=[("Referer", "r" * 3000), ("User-Agent", "u" * 3000)])
        line = self.parsed(1)[0]
        self.assertEqual(line["request"], "GET /" + "t" * 1020 + "... HTTP/1.1")
        self.assertEqual((len(line["referer"]), len(line["agent"])), (512, 256))

    def test_json_lines(self):
        balancer = self.logged_balancer(self.scripted(name="sys2"), access_log_format="json")
        with balancer.client() as client:
            client.send(b'GET /x?q="1"&\xc3\xa4 HTTP/1.1\r\nHost: a\r\nUser-Agent: "\xff\\\r\nX-Request-Id: id-7\r\n\r\n')
            status = client.read_response().status
            client.request(G)
        first, second = (json.loads(line) for line in self.lines(2))
        self.assertEqual((first["status"], first["request_id"]), (status, "id-7" if status == 200 else None))
        self.assertRegex(second["request_id"] or "", "^[0-9a-f]{32}$")
        self.assertEqual((second["method"], second["target"], second["protocol"]), ("GET", "/", "HTTP/1.1"))
        self.assertEqual((second["backend"], second["end"], second["retries"], second["body_bytes"]), ("sys2", "--", 0, 2))
        self.assertEqual((second["client"], second["referer"]), ("127.0.0.1", None))
        self.assertGreaterEqual(second["total_ms"], second["response_ms"])

    def test_pipelined_requests_have_a_line_each(self):
        balancer = self.logged_balancer(self.scripted())
        with balancer.client() as client:
            client.send(b"".join(wire(f"GET /{index} HTTP/1.1|Host: a||") for index in range(200)))
            for _ in range(200):
                self.assertEqual(client.read_response().status, 200)
        self.assertEqual([line["request"] for line in self.parsed(200)], [f"GET /{index} HTTP/1.1" for index in range(200)])


class Files(LoggedCase):
    def test_usr1_opens_the_file_anew(self):
        balancer = self.logged_balancer(self.scripted())
        balancer.fetch("/first")
        self.lines(1)
        os.rename(self.path, self.path + ".1")
        balancer.signal(signal.SIGUSR1)
        wait_until(lambda: os.path.exists(self.path), 5, "the new file")
        self.read_before = 0
        balancer.fetch("/second")
        self.assertIn("/second", self.lines(1)[0])
        with open(self.path + ".1", encoding="ascii") as file:
            self.assertIn("/first", file.read())

    def test_usr1_is_harmless_without_a_log(self):
        balancer = self.balancer(self.scripted())
        balancer.signal(signal.SIGUSR1)
        self.assertEqual(balancer.fetch("/").status, 200)

    def test_a_full_disk_costs_lines_only(self):
        balancer = self.balancer(self.scripted(), access_log="/dev/full")
        with balancer.client() as client:
            for _ in range(50):
                self.assertEqual(client.request(G).status, 200)
        wait_until(lambda: balancer.metrics()["access_log"]["failed"] >= 50, 5, "the lost lines to be counted")
        self.assertIn("access log lines lost", balancer.log())

    def test_a_reader_that_has_stopped_costs_lines_only(self):
        path = os.path.join(self.folder, "fifo")
        os.mkfifo(path)
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        balancer = self.balancer(self.scripted(), access_log=path)
        with balancer.client() as client:
            for _ in range(600):
                self.assertEqual(client.request(f"GET /{'x' * 1000} HTTP/1.1|Host: a||").status, 200)
        self.assertGreater(balancer.metrics()["access_log"]["lines"], 600)
        self.assertEqual(balancer.terminate(), 0)

    def test_what_cannot_be_opened_is_told_at_start(self):
        balancer = self.balancer(self.scripted(), start=False, access_log="/nowhere/access.log")
        self.programs.remove(balancer)
        from programs import program, run

        code, _, error = run([program("lb"), "-c", balancer.config_path])
        self.assertEqual(code, 1)
        self.assertIn("/nowhere/access.log: ENOENT", error)


class Endings(LoggedCase):
    """One line for each request, with who ended it and in which phase."""

    def end_of(self, *codes):
        """The one line (or as many as codes) that were written."""
        lines = self.lines(len(codes))
        self.assertEqual([re.search(r"end=(..)$", line).group(1) for line in lines], list(codes), lines)
        return lines

    def test_the_client_leaves_in_each_phase(self):
        gate = threading.Event()
        self.addCleanup(gate.set)

        def handler(connection, request):
            if request.target == "/body":
                connection.send("HTTP/1.1 200 OK|Content-Length: 100||x")
            if request.method == "POST":
                connection.exactly(100)
            connection.wait_for_end()

        a = self.scripted(handler)
        balancer = self.logged_balancer(a, backend_cap=1)
        for data, code, status, reached in [
            ("GET /head HTTP/1.1|Host: a||", "CH", "499", lambda client: True),
            ("GET /body HTTP/1.1|Host: a||", "CD", "200", lambda client: client.read_head()),
            ("POST /upload HTTP/1.1|Host: a|Content-Length: 100||abc", "CR", "499", lambda client: True),
        ]:
            with self.subTest(code):
                client = RawClient(balancer.port)
                client.send(data)
                wait_until(lambda: a.active == 1, 5, "the request")
                reached(client)
                client.reset()
                line = self.end_of(code)[0]
                self.assertIn(f'" {status} ', line)
                wait_until(lambda: a.active == 0, 5, "the backend's connection to end")
        first, second = RawClient(balancer.port), RawClient(balancer.port)
        first.send("GET /head HTTP/1.1|Host: a||")
        wait_until(lambda: a.active == 1, 5, "the slot to be taken")
        second.send("GET /queued HTTP/1.1|Host: a||")
        wait_until(lambda: balancer.metrics()["queue"]["waiting"] == 1, 5, "the second to wait")
        second.reset()
        line = self.end_of("CQ")[0]
        self.assertIn("backend=-", line)
        first.reset()
        self.end_of("CH")
        balancer.wait_quiet()
        a.errors.clear()

    def test_the_client_leaves_while_connecting(self):
        """Its only check passes before the listener's queue is full."""
        listener, port = listener_to_fill(self)
        balancer = self.logged_balancer(Plain("full", port), connect_timeout="300ms", health_method="TCP", stats_path="",
                                        health_interval="1m", failure_limit=1000)
        fill(self, port)
        client = RawClient(balancer.port)
        client.send(G)
        wait_until(lambda: balancer.metrics()["connections"]["upstream"]["connecting"] == 1, 5, "the connect to hang")
        client.reset()
        line = self.end_of("CC")[0]
        self.assertIn("backend=full", line)
        self.assertEqual(balancer.fetch("/").status, 504)
        self.end_of("sC")
        balancer.wait_quiet()

    def test_the_backend_fails_in_each_phase(self):
        def handler(connection, request):
            if request.target == "/close":
                connection.close()
            elif request.target == "/garbage":
                connection.send("garbage||")
                connection.close()
            elif request.target == "/silent":
                connection.wait_for_end()
            elif request.target == "/cut":
                connection.send("HTTP/1.1 200 OK|Content-Length: 100||x")
                connection.close()

        a = self.scripted(handler)
        balancer = self.logged_balancer(a, backend_timeout="300ms", failure_limit=1000, health_interval="1m")
        for target, code, status in (("/close", "SH", 502), ("/garbage", "SH", 502), ("/silent", "sH", 504),
                                     ("/cut", "SD", 200)):
            with self.subTest(target), balancer.client() as client:
                response = client.request(f"POST {target} HTTP/1.1|Host: a|Content-Length: 0||")
                self.assertEqual((response.status, response.complete), (status, target != "/cut"))
                self.end_of(code)
        a.refuse(cut=True)
        self.assertEqual(balancer.fetch("/").status, 502)
        line = self.end_of("SC")[0]
        self.assertIn("retries=1", line)
        balancer.wait_quiet()

    def test_the_balancer_ends_it(self):
        a = self.scripted(lambda connection, request: connection.wait_for_end())
        balancer = self.logged_balancer(a, backend_cap=1, backend_queue_max=1, backend_queue_timeout="300ms",
                                        client_header_timeout="300ms", client_body_timeout="300ms", max_body_bytes=10)
        for data, code, status in (("GET /x HTTP/1.1|Host: a|X:", "cR", 408),
                                   ("POST / HTTP/1.1|Host: a|Content-Length: 9||abc", "cR", 408),
                                   ("POST / HTTP/1.1|Host: a|Content-Length: 11||", "LR", 413)):
            with self.subTest(code), balancer.client() as client:
                self.assertEqual(client.request(data).status, status)
                self.end_of(code)
        holder = balancer.client()
        self.addCleanup(holder.close)
        holder.send(G)
        wait_until(lambda: a.active == 1, 5, "the slot to be taken")
        self.assertEqual(balancer.fetch("/").status, 503)
        line = self.end_of("LQ")[0]
        self.assertGreater(float(re.search(r"queue_ms=(\S+)", line).group(1)), 250)
        balancer.terminate()
        self.assertRegex(self.all_lines()[-1], "end=LH$")
        a.errors.clear()

    def test_a_retry_shows(self):
        a = self.scripted(lambda connection, request: connection.close(), "a")
        b = self.scripted(name="b")
        balancer = self.logged_balancer(a, b, policy="round_robin", failure_limit=1000)
        for _ in range(2):
            self.assertEqual(balancer.fetch("/").status, 200)
        lines = self.end_of("--", "--")
        self.assertTrue(all("backend=b" in line for line in lines))
        self.assertIn("retries=1", "".join(lines))

    def test_tunnels(self):
        """One line, at the tunnel's end."""
        far_ends = []

        def handler(connection, request):
            far = take_over(connection)
            far_ends.append(far)
            far.send(wire("HTTP/1.1 101 Switching|Connection: upgrade|Upgrade: websocket||hello"))

        a = self.scripted(handler)
        balancer = self.logged_balancer(a, drain_timeout="100ms", tunnel_drain_timeout="0s")

        def tunnel():
            client = balancer.client()
            self.addCleanup(client.close)
            client.send("GET /chat HTTP/1.1|Host: a|Connection: upgrade|Upgrade: websocket||")
            self.assertEqual(client.read_head().status, 101)
            self.assertEqual(client.read_exactly(5), b"hello")
            client.send(b"12345678")
            self.assertEqual(far_ends[-1].read_exactly(8), b"12345678")
            return client, far_ends[-1]

        client, far = tunnel()
        client.shutdown_write()
        self.assertEqual(far.read_to_end(), b"")
        far.close()
        line = self.end_of("--")[0]
        self.assertIn('"GET /chat HTTP/1.1" 101 5 ', line)
        client, far = tunnel()
        client.reset()
        self.end_of("CT")
        client, far = tunnel()
        far.reset()
        self.end_of("ST")
        tunnel()
        balancer.terminate()
        self.assertRegex(self.all_lines()[-1], "end=LT$")

    def test_a_stalled_reader(self):
        a = self.scripted(lambda connection, request: connection.reply(200, b"x" * (8 << 20)))
        balancer = self.logged_balancer(a, client_write_timeout="300ms")
        client = RawClient(balancer.port, receive_buffer=4096)
        self.addCleanup(client.close)
        client.send(G)
        line = self.end_of("cD")[0]
        self.assertIn(" 200 ", line)
        balancer.wait_quiet()
        a.errors.clear()


if __name__ == "__main__":
    main()
