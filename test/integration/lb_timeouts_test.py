"""Deadlines and slow peers: a test for each row of the time-out table in lb/README.md that has none elsewhere (lb_queue,
lb_upgrade), and client-min-rate (L6, L15; case LB-29, at full length in `make soak`)."""

import socket
import time

from lb_case import LbCase, main
from raw import G, RawClient, wire
from scripted import OK
from waiting import TIME_FACTOR, pause, wait_until

SLACK = 0.5 * TIME_FACTOR


class Clients(LbCase):
    def test_lb_29_a_slow_header_gets_408(self):
        """The deadline is total, from the first byte: steady dribbling does not put it off."""
        balancer = self.balancer(self.scripted(), client_header_timeout="1s")
        with balancer.client() as client:
            started = time.monotonic()
            client.sock.setblocking(False)
            sent, got = 0, b""
            text = wire("GET / HTTP/1.1|Host: a|X: " + "x" * 1000)
            while time.monotonic() - started < 5 * TIME_FACTOR:
                try:
                    client.sock.send(text[sent : sent + 1])
                    sent += 1
                    got = client.sock.recv(65536)
                    break
                except BlockingIOError:
                    pause(0.05)
                except OSError:
                    break
            took = time.monotonic() - started
        self.assertTrue(got.startswith(b"HTTP/1.1 408 "), got[:100])
        self.assertTrue(0.8 <= took <= 1.2 + SLACK, took)

    def test_lb_29_a_connection_that_says_nothing_is_closed_silently(self):
        balancer = self.balancer(self.scripted(), client_header_timeout="500ms", client_idle_timeout="500ms")
        with balancer.client() as client:
            started = time.monotonic()
            self.assertTrue(client.closed_within(5))
            self.assertEqual(client.buffer, b"")
            self.assertGreaterEqual(time.monotonic() - started, 0.3)

    def test_lb_29_an_idle_connection_is_closed_silently(self):
        balancer = self.balancer(self.scripted(), client_idle_timeout="500ms")
        with balancer.client() as client:
            self.assertEqual(client.request(G).status, 200)
            started = time.monotonic()
            self.assertTrue(client.closed_within(5))
            took = time.monotonic() - started
            self.assertEqual((client.buffer, client.was_reset), (b"", False))
            self.assertTrue(0.4 <= took <= 0.7 + SLACK, took)

    def test_a_body_without_progress_is_408(self):
        balancer = self.balancer(self.scripted(), client_body_timeout="500ms", backend_timeout="5s")
        with balancer.client() as client:
            client.send("POST / HTTP/1.1|Host: a|Content-Length: 10||abc")
            response = client.read_response()
            self.assertEqual(response.status, 408)
            self.assertTrue(client.closed_within(2))
        balancer.wait_quiet()

    def test_lb_29_a_slow_but_steady_upload_finishes(self):
        a = self.scripted()
        balancer = self.balancer(a, client_body_timeout="500ms", client_header_timeout="500ms", backend_timeout="500ms",
                                 client_idle_timeout="500ms")
        with balancer.client() as client:
            client.send("POST / HTTP/1.1|Host: a|Content-Length: 20||")
            for _ in range(20):
                client.send(b"x")
                pause(0.1)
            self.assertEqual(client.read_response().status, 200)
        self.assertEqual(a.requests[0].body, b"x" * 20)

    def test_lb_29_a_slow_but_steady_download_finishes(self):
        """An active transfer never times out, on either side."""
        def handler(connection, request):
            connection.send("HTTP/1.1 200 OK|Content-Length: 20||")
            for _ in range(20):
                connection.send(b"x")
                pause(0.1)

        balancer = self.balancer(self.scripted(handler), client_write_timeout="500ms", backend_timeout="500ms",
                                 client_idle_timeout="500ms", client_header_timeout="500ms")
        with balancer.client() as client:
            response = client.request(G)
            self.assertEqual((response.complete, response.body), (True, b"x" * 20))

    def test_a_reader_without_progress_is_cut(self):
        body = b"x" * (16 << 20)
        a = self.scripted(lambda connection, request: connection.reply(200, body))
        balancer = self.balancer(a, client_write_timeout="700ms")
        client = RawClient(balancer.port, receive_buffer=4096)
        self.addCleanup(client.close)
        client.send(G)
        client.fill()
        started = time.monotonic()
        wait_until(lambda: a.active == 0, 10, "the download to be cut")
        took = time.monotonic() - started
        self.assertTrue(0.6 <= took <= 1 + SLACK, took)
        self.assertEqual(balancer.metrics()["connections"]["client"]["timeouts"]["write"], 1)
        balancer.wait_quiet()
        a.errors.clear()

    def test_a_reader_of_our_own_answers_is_cut_likewise(self):
        balancer = self.balancer(self.scripted(), client_write_timeout="400ms")
        client = RawClient(balancer.port, receive_buffer=4096)
        self.addCleanup(client.close)
        client.send(b"GET /lb/status HTTP/1.1\r\nHost: a\r\n\r\n" * 300)
        wait_until(lambda: balancer.metrics()["connections"]["client"]["timeouts"]["write"] == 1, 5, "the cut")

    def test_the_rest_of_a_refused_request_is_waited_for_2_seconds(self):
        """Lingering: the answer has gone out, our side is shut, the client neither sends nor closes."""
        balancer = self.balancer(self.scripted())
        with balancer.client() as client:
            started = time.monotonic()
            client.send("POST / HTTP/1.1|Host: a|Content-Length: 99999999||abc")
            self.assertEqual(client.read_response().status, 413)
            self.assertTrue(client.closed_within(1), "our side is shut")
            wait_until(lambda: balancer.metrics()["connections"]["client"]["active"] == 1, 5, "the connection's end")
            took = time.monotonic() - started
            self.assertTrue(1.8 <= took <= 2.3 + SLACK, took)


class SlowPeers(LbCase):
    """client-min-rate: only the time in which the client owes bytes counts against it."""

    def timeouts(self, balancer):
        return balancer.metrics()["connections"]["client"]["timeouts"]

    def test_lb_29_an_uploader_below_client_min_rate_gets_408(self):
        a = self.scripted()
        balancer = self.balancer(a, client_min_rate="1KiB", client_min_rate_window="800ms")
        with balancer.client() as client:
            started = time.monotonic()
            client.send("POST / HTTP/1.1|Host: a|Content-Length: 1000||")
            client.sock.settimeout(0.05)
            while time.monotonic() - started < 5 * TIME_FACTOR:
                try:
                    client.send(b"x")
                    client.fill()
                    break
                except TimeoutError:
                    continue
            took = time.monotonic() - started
            self.assertEqual(client.read_response().status, 408)
            self.assertTrue(0.7 <= took <= 1 + SLACK, took)
            self.assertTrue(client.closed_within(2))
        self.assertEqual(self.timeouts(balancer)["min_rate"], 1)
        self.assertEqual(balancer.backend("a")["counters"]["failures"]["timeout"], 0)

    def test_lb_29_an_upload_at_twice_the_rate_is_served(self):
        a = self.scripted()
        balancer = self.balancer(a, client_min_rate="10KiB", client_min_rate_window="300ms", client_body_timeout="500ms",
                                 backend_timeout="500ms")
        with balancer.client() as client:
            client.send("POST / HTTP/1.1|Host: a|Content-Length: 30720||")
            for _ in range(30):
                client.send(b"x" * 1024)
                pause(0.05)
            self.assertEqual(client.read_response().status, 200)
        self.assertEqual(len(a.requests[0].body), 30720)
        self.assertEqual(self.timeouts(balancer)["min_rate"], 0)

    def read_slowly(self, client, rate, seconds):
        """Reads `rate` bytes a second; returns how many came. Ends early with the connection."""
        started, got = time.monotonic(), 0
        while time.monotonic() - started < seconds:
            try:
                data = client.sock.recv(max(1, rate // 50))
            except OSError:
                break
            if not data:
                break
            got += len(data)
            pause(max(0.0, started + got / rate - time.monotonic()))
        return got

    def test_lb_29_a_reader_below_client_min_rate_is_cut(self):
        body = b"x" * (16 << 20)
        a = self.scripted(lambda connection, request: connection.reply(200, body))
        balancer = self.balancer(a, client_min_rate="200KiB", client_min_rate_window="800ms")
        client = RawClient(balancer.port, receive_buffer=4096)
        self.addCleanup(client.close)
        started = time.monotonic()
        client.send(G)
        self.together(lambda: self.read_slowly(client, 20_000, 2.5 * TIME_FACTOR),
                      lambda: wait_until(lambda: a.active == 1, 5) and wait_until(lambda: a.active == 0, 5, "the cut"))
        self.assertGreaterEqual(time.monotonic() - started, 0.7)
        self.assertEqual(self.timeouts(balancer)["min_rate"], 1)
        a.errors.clear()

    def test_lb_29_a_slow_but_steady_reader_finishes(self):
        """Its progress is what it acknowledges: our own writes go in steps of the kernel's buffer, for each of which such a
        reader needs longer than client-write-timeout."""
        a = self.scripted(lambda connection, request: connection.reply(200, b"x" * 400_000))
        balancer = self.balancer(a, client_write_timeout="1s", client_min_rate="1KiB", client_min_rate_window="300ms")
        with RawClient(balancer.port, receive_buffer=4096) as client:
            client.send(G)
            got = self.read_slowly(client, 20_000, 2.6)
            self.assertGreater(got, 40_000)
            self.assertEqual(balancer.metrics()["requests"]["in_progress"], 1, "not all of it in the kernel's buffers")
            while got < 400_000 and client.fill():
                got += len(client.buffer)
                client.buffer = b""
            self.assertGreater(got, 400_000)  # with the head
        self.assertEqual((self.timeouts(balancer)["write"], self.timeouts(balancer)["min_rate"]), (0, 0))

    def test_a_slow_backend_does_not_count_against_the_client(self):
        def handler(connection, request):
            if request.method == "POST":
                pause(1)  # the upload waits in our buffers and the kernel's
                connection.body(request)
            connection.send("HTTP/1.1 200 OK|Content-Length: 10||")
            for _ in range(10):
                connection.send(b"x")
                pause(0.1)

        balancer = self.balancer(self.scripted(handler), client_min_rate="64MiB", client_min_rate_window="300ms")
        for data in (G, wire("POST / HTTP/1.1|Host: a|Content-Length: 6000000||") + b"x" * 6_000_000):
            with balancer.client() as client:
                self.assertTrue(client.request(data).complete)
        self.assertEqual(self.timeouts(balancer)["min_rate"], 0)

    def test_0_turns_it_off(self):
        balancer = self.balancer(self.scripted(), client_min_rate=0, client_min_rate_window="50ms")
        with balancer.client() as client:
            client.send("POST / HTTP/1.1|Host: a|Content-Length: 10||")
            for _ in range(10):
                client.send(b"x")
                pause(0.05)
            self.assertEqual(client.read_response().status, 200)


class Backends(LbCase):
    def test_no_response_head_is_504(self):
        a = self.scripted(lambda connection, request: connection.wait_for_end())
        balancer = self.balancer(a, backend_timeout="500ms")
        for data in (G, wire("POST / HTTP/1.1|Host: a|Content-Length: 3||abc")):
            with balancer.client() as client:
                started = time.monotonic()
                response = client.request(data)
                took = time.monotonic() - started
                self.assertEqual(response.status, 504)
                self.assertTrue(0.4 <= took <= 0.7 + SLACK, took)
        balancer.wait_quiet()
        wait_until(lambda: a.active == 0, 2, "the backend connection to be closed")

    def test_interim_responses_do_not_put_it_off(self):
        def handler(connection, request):
            while not connection.server.stopped.wait(0.1):
                connection.send("HTTP/1.1 103 Early||")

        balancer = self.balancer(self.scripted(handler), backend_timeout="500ms")
        with balancer.client() as client:
            started = time.monotonic()
            self.assertEqual(client.request(G).status, 504)
            self.assertLess(time.monotonic() - started, 1 + SLACK)

    def test_a_slow_upload_does_not_count_as_the_backends_time(self):
        """backend-timeout runs from the end of the request: a client that needs longer is not the backend's fault."""
        a = self.scripted()
        balancer = self.balancer(a, backend_timeout="300ms", client_body_timeout="5s")
        with balancer.client() as client:
            client.send("POST / HTTP/1.1|Host: a|Content-Length: 8||")
            for _ in range(8):
                client.send(b"x")
                pause(0.1)
            self.assertEqual(client.read_response().status, 200)

    def test_a_connect_that_hangs_is_504(self):
        """A listener whose queue is full answers no SYN."""
        full = socket.socket()
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        self.addCleanup(full.close)
        port = full.getsockname()[1]
        fillers = []
        for _ in range(8):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
            fillers.append(filler)
            self.addCleanup(filler.close)

        class Full:
            name, url = "full", f"http://127.0.0.1:{port}"

        balancer = self.balancer(Full, healthy=0, connect_timeout="400ms", monitor_timeout="300ms", failure_limit=1000,
                                 health_interval="1m", stats_interval="1m")
        with balancer.client() as client:
            self.assertIn(client.request(G).status, (503, 504))
        balancer.wait_quiet()

    def test_a_response_body_that_stops_is_cut(self):
        def handler(connection, request):
            connection.send("HTTP/1.1 200 OK|Content-Length: 10||abc")
            connection.wait_for_end()

        balancer = self.balancer(self.scripted(handler), backend_body_timeout="500ms")
        with balancer.client() as client:
            started = time.monotonic()
            response = client.request(G)
            took = time.monotonic() - started
            self.assertEqual((response.status, response.body, response.complete), (200, b"abc", False))
            self.assertTrue(0.4 <= took <= 0.7 + SLACK, took)
        self.assertEqual(balancer.backend("a")["counters"]["failures"]["timeout"], 1)

    def test_idle_backend_connections_are_closed(self):
        ended = []

        def handler(connection, request):
            connection.send(OK)
            ended.append(connection.wait_for_end())

        balancer = self.balancer(self.scripted(handler), proxy_idle_timeout="400ms")
        self.assertEqual(balancer.fetch("/").status, 200)
        wait_until(lambda: ended, 5, "the idle connection to be closed")
        self.assertEqual(ended, [True])
        self.assertEqual(balancer.fetch("/").status, 200)


if __name__ == "__main__":
    main()
