"""Upgrade: what is forwarded, what becomes a tunnel, and what an open tunnel holds and does not hold."""

import queue
import signal
import ssl
import threading

from case import Case, main
from ports import free_port
from raw import G, wire
from tls import TlsClient, client_context, make_certificate
from tunnel_peers import TunnelEnds, take_over
from waiting import TIME_FACTOR, pause, wait_until

UPGRADE = wire("GET /chat HTTP/1.1|Host: a|Connection: Upgrade|Upgrade: websocket|Sec-WebSocket-Key: k||")
SWITCHING = wire("HTTP/1.1 101 Switching Protocols|Connection: Upgrade|Upgrade: websocket|Sec-WebSocket-Accept: a|X-Own: 1||")


class UpgradeCase(Case):
    OPTIONS = {}

    def setUp(self):
        super().setUp()
        self.far_ends = queue.Queue()
        self.answer = SWITCHING  # to requests for /chat
        self.before_answer = lambda connection: None
        self.backend = self.scripted(self.handle)
        self.lb = self.balancer(self.backend, **self.options())
        self.files = min(self.lb.open_files() for _ in range(5))
        self.ends = []

    def tearDown(self):
        for end in self.ends:
            end.close()
        if self.lb.alive():
            self.assert_all_given_back()
        super().tearDown()

    def assert_all_given_back(self):
        def quiet():
            while not self.far_ends.empty():  # nobody asked for them; they may come late
                self.far_ends.get().close()
            metrics = self.lb.metrics()
            connections = metrics["connections"]
            gone = connections["client"]["tunnel"] == 0 and connections["upstream"]["busy"] == 0
            gone = gone and metrics["backends"][0]["connections"]["tunnels"] == 0
            gone = gone and metrics["backends"][0]["in_flight"] == metrics["requests"]["in_progress"] == 0
            return gone and self.lb.open_files() - connections["upstream"]["idle"] <= self.files + 2

        wait_until(quiet, 5, "all sockets, slots and gauges to be given back")

    def options(self):
        return self.OPTIONS

    def handle(self, connection, request):
        if not request.target.startswith("/chat"):
            connection.body(request)
            return connection.reply(200, b"plain")
        self.before_answer(connection)
        if self.answer.startswith(b"HTTP/1.1 101"):
            far = take_over(connection)
            far.send(self.answer)
            return self.far_ends.put(far)
        connection.body(request)
        return connection.send(self.answer)

    def client(self, **options):
        client = self.lb.client(**options)
        self.ends.append(client)
        return client

    def far_end(self):
        far = self.far_ends.get(timeout=10 * TIME_FACTOR)
        self.ends.append(far)
        return far

    def tunnel(self):
        client = self.client()
        client.send(UPGRADE)
        self.assertEqual(client.read_response().status, 101)
        return client, self.far_end()

    def tunnels(self):
        return self.lb.metrics()["connections"]["client"]["tunnel"]


class UpgradeEnds(TunnelEnds, UpgradeCase):
    pass


class Upgrades(UpgradeCase):
    def test_the_101_and_its_fields(self):
        client = self.client()
        client.send(UPGRADE)
        response = client.read_response()
        self.assertEqual((response.status, response.reason), (101, "Switching Protocols"))
        self.assertEqual(response.all("connection"), ["upgrade"])
        self.assertEqual(response.all("upgrade"), ["websocket"])
        self.assertEqual(response.header("sec-websocket-accept"), "a")
        self.assertEqual(response.header("x-own"), "1")
        self.assertEqual(response.header("x-load-balancer-backend"), "a")
        self.assertIsNotNone(response.header("x-load-balancer-score"))
        request = self.backend.requests[-1]
        self.assertEqual(request.all("connection"), ["upgrade"])
        self.assertEqual(request.all("upgrade"), ["websocket"])
        self.assertEqual(request.header("sec-websocket-key"), "k")
        self.assertIsNotNone(request.header("x-forwarded-for"))

    def test_bytes_behind_the_request_wait_for_the_101(self):
        go, early = threading.Event(), []

        def before(connection):
            go.wait(10 * TIME_FACTOR)
            connection.sock.setblocking(False)
            try:
                early.append(connection.buffer + connection.sock.recv(100))
            except BlockingIOError:
                early.append(connection.buffer)
            connection.sock.setblocking(True)

        self.before_answer = before
        client = self.client()
        client.send(UPGRADE + b"too ")
        wait_until(lambda: self.backend.deliveries() == 1, 5, "the request")
        client.send(b"early")
        pause(0.05)
        go.set()
        self.assertEqual(client.read_response().status, 101)
        self.assertEqual(early, [b""])
        self.assertEqual(self.far_end().read_exactly(9), b"too early")

    def test_many_bytes_behind_the_request(self):
        """More than any block holds: the rest waits in the kernel."""
        data = bytes(range(256)) * 400
        client = self.client()
        client.send(UPGRADE + data)
        self.assertEqual(client.read_response().status, 101)
        self.assertEqual(self.far_end().read_exactly(len(data)), data)

    def test_data_in_the_same_segment_as_the_101(self):
        self.answer = SWITCHING + b"hello" * 1000
        client = self.client()
        client.send(UPGRADE)
        self.assertEqual(client.read_response().status, 101)
        self.assertEqual(client.read_exactly(5000), b"hello" * 1000)
        self.exchange(client, self.far_end())

    def exchange(self, client, far):
        client.send(b"ping")
        self.assertEqual(far.read_exactly(4), b"ping")
        far.send(b"pong")
        self.assertEqual(client.read_exactly(4), b"pong")

    def test_a_101_behind_interim_responses(self):
        self.answer = SWITCHING
        self.before_answer = lambda connection: connection.send("HTTP/1.1 103 Early|Link: x||")
        client = self.client()
        client.send(UPGRADE)
        response = client.read_response()
        self.assertEqual((response.interim, response.status), ([103], 101))
        self.exchange(client, self.far_end())

    def test_a_refused_upgrade_is_an_ordinary_response(self):
        for status, reason in ((403, "Forbidden"), (200, "OK"), (426, "Upgrade Required")):
            with self.subTest(status):
                self.answer = wire(f"HTTP/1.1 {status} {reason}|Content-Length: 2|Upgrade: websocket|Connection: upgrade||no")
                client = self.client()
                client.send(UPGRADE + G)  # what is behind it is the next request then
                response = client.read_response()
                self.assertEqual((response.status, response.body), (status, b"no"))
                self.assertEqual(response.all("upgrade"), [])
                self.assertEqual(client.read_response().body, b"plain")
                self.assertEqual(client.request(G).body, b"plain")
        self.assertEqual(self.tunnels(), 0)

    def test_lb_25_an_upgrade_to_http_is_removed(self):
        for offer, forwarded in (("h2c", []), ("HTTP/2.0, h2c", []), ("TLS/1.0", []), ("h2c, websocket", ["websocket"]),
                                 ("web socket", [])):
            with self.subTest(offer):
                self.answer = wire("HTTP/1.1 200 OK|Content-Length: 2||ok")
                head = f"GET /chat HTTP/1.1|Host: a|Connection: Upgrade, HTTP2-Settings|Upgrade: {offer}|HTTP2-Settings: x||"
                response = self.client().request(wire(head))
                self.assertEqual(response.status, 200)
                request = self.backend.requests[-1]
                self.assertEqual(request.all("upgrade"), forwarded)
                self.assertEqual(request.all("connection"), ["upgrade"] if forwarded else [])
                self.assertEqual(request.all("http2-settings"), [])

    def test_no_upgrade_with_a_body_or_http_1_0(self):
        self.answer = wire("HTTP/1.1 200 OK|Content-Length: 2||ok")
        for head in ("POST /chat HTTP/1.1|Host: a|Connection: upgrade|Upgrade: websocket|Content-Length: 2||hi",
                     "POST /chat HTTP/1.1|Host: a|Connection: upgrade|Upgrade: websocket|Transfer-Encoding: chunked||0||",
                     "GET /chat HTTP/1.0|Connection: upgrade|Upgrade: websocket||",
                     "GET /chat HTTP/1.1|Host: a|Upgrade: websocket||"):
            with self.subTest(head):
                self.assertEqual(self.client().request(wire(head)).status, 200)
                self.assertEqual(self.backend.requests[-1].all("upgrade"), [])

    def test_a_101_to_something_else_is_a_bad_response(self):
        for switch in ("Upgrade: h2c", "Upgrade: other", "X-No: upgrade"):
            with self.subTest(switch):
                self.answer = wire(f"HTTP/1.1 101 Switching|Connection: upgrade|{switch}||")
                client = self.client()
                client.send(UPGRADE)
                self.assertEqual(client.read_response().status, 502)
                self.far_end().close()

    def test_a_tunnel_after_earlier_requests(self):
        client = self.client()
        for _ in range(3):
            self.assertEqual(client.request(G).body, b"plain")
        client.send(UPGRADE)
        self.assertEqual(client.read_response().status, 101)
        self.exchange(client, self.far_end())
        self.assertEqual(self.backend.connections, 1)

    def test_the_backend_leaves_before_its_101(self):
        """As any GET without a response byte: once more, on a connection of its own."""
        left = []

        def before(connection):
            if not left:
                left.append(connection)
                connection.close()

        self.before_answer = before
        client = self.client()
        client.send(UPGRADE)
        self.assertEqual(client.read_response().status, 101)
        self.exchange(client, self.far_end())
        self.assertEqual(self.lb.metrics()["routing"]["retries"], 1)

    def test_figures(self):
        client, far = self.tunnel()
        client.send(b"x" * 1000)
        far.read_exactly(1000)
        far.send(b"y" * 500)
        client.read_exactly(500)
        # What has been written is counted after it, and the worker that answers may be another one.
        metrics = wait_until(lambda: (lambda read: read if read["tunnels"]["bytes_out"] > 500 else None)(self.lb.metrics()),
                             10, "the 101 and 500 bytes")
        self.assertEqual(metrics["tunnels"]["opened"]["upgrade"], 1)
        self.assertEqual(metrics["tunnels"]["bytes_in"], 1000)
        self.assertEqual(metrics["connections"]["client"]["tunnel"], 1)
        self.assertEqual(metrics["backends"][0]["connections"]["tunnels"], 1)
        self.assertEqual(metrics["requests"]["success"], 1)
        self.assertEqual(metrics["requests"]["in_progress"], 0)

    def test_a_client_that_leaves_before_the_101(self):
        go = threading.Event()
        self.before_answer = lambda connection: go.wait(10 * TIME_FACTOR)
        client = self.client()
        client.send(UPGRADE)
        wait_until(lambda: self.backend.deliveries() == 1, 5, "the request")
        client.reset()
        wait_until(lambda: self.lb.metrics()["requests"]["client_gone"] == 1, 5, "the client to be seen gone")
        go.set()


class OverTls(UpgradeCase):
    """The client's side is TLS, the backend's plain."""

    def options(self):
        self.port = free_port()
        certificate, key = make_certificate(self.folder)
        return {"tls_listen": f"127.0.0.1:{self.port}", "tls_cert": certificate, "tls_key": key}

    def client(self, version=None, **options):
        client = TlsClient(self.port, client_context(version), **options)
        self.ends.append(client)
        return client

    def tunnels_of_both_versions(self):
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            client = self.client(version)
            client.send(UPGRADE + b"early")
            self.assertEqual(client.read_response().status, 101)
            far = self.far_end()
            self.assertEqual(far.read_exactly(5), b"early")
            yield client, far

    def test_bytes_both_ways_and_a_clean_end(self):
        data = bytes(range(256)) * 8192
        for client, far in self.tunnels_of_both_versions():
            got = self.together(lambda: client.send(data), lambda: far.read_exactly(len(data)))
            self.assertTrue(got[1] == data)
            got = self.together(lambda: far.send(data), lambda: client.read_exactly(len(data)))
            self.assertTrue(got[1] == data)
            far.send(b"last")
            far.shutdown_write()
            self.assertEqual(client.read_to_end(), b"last")
            self.assertTrue(client.clean)
            client.send(b"still")  # the other direction goes on
            self.assertEqual(far.read_exactly(5), b"still")
            client.close()
            self.assertEqual(far.read_to_end(), b"")

    def test_the_clients_close_notify_is_a_fin_for_the_backend(self):
        for client, far in self.tunnels_of_both_versions():
            def ends(far=far):
                self.assertEqual(far.read_to_end(), b"")
                self.assertFalse(far.was_reset)
                far.close()

            self.together(ends, client.close_notify)  # returns when the other side has ended as well

    def test_a_reset_is_no_clean_end(self):
        for client, far in self.tunnels_of_both_versions():
            far.reset()
            self.assertEqual(client.read_to_end(), b"")
            self.assertFalse(client.clean)
        for client, far in self.tunnels_of_both_versions():
            client.reset()
            self.assertEqual(far.read_to_end(), b"")
            self.assertTrue(far.was_reset)


class Limits(UpgradeCase):
    OPTIONS = {"backend_cap": 1, "proxy_max_conns_per_host": 1, "client_max_connections": 6, "workers": 1}

    def test_a_tunnel_takes_no_slot_and_no_connection_but_a_clients_place(self):
        tunnels = [self.tunnel() for _ in range(4)]
        self.assertEqual(self.lb.in_flight(), 0)
        self.assertEqual(self.client().request(G).body, b"plain")
        self.assertEqual(self.lb.backend("a")["in_flight"], 0)
        tunnels += [self.tunnel() for _ in range(2)]  # idle connections make room
        refused = self.client()
        self.assertTrue(refused.closed_within(5))  # tunnels never do
        tunnels[0][0].send(b"still here")
        self.assertEqual(tunnels[0][1].read_exactly(10), b"still here")
        tunnels[1][0].close()


class Timeouts(UpgradeCase):
    OPTIONS = {"tunnel_timeout": "400ms", "client_write_timeout": "300ms", "client_idle_timeout": "200ms"}

    def test_tunnel_timeout(self):
        client, far = self.tunnel()
        for index in range(6):  # bytes one way or the other keep it
            pause(0.15)
            (client, far)[index % 2].send(b"x")
            (far, client)[index % 2].read_exactly(1)
        self.assertTrue(client.closed_within(5))
        self.assertTrue(far.closed_within(5))
        self.assertEqual(self.lb.metrics()["tunnels"]["timeouts"], 1)

    def test_a_half_closed_tunnel_has_a_time_of_its_own(self):
        client, far = self.tunnel()
        client.shutdown_write()
        self.assertEqual(far.read_to_end(), b"")
        for _ in range(4):
            pause(0.1)
            far.send(b"x")
            client.read_exactly(1)
        self.assertTrue(client.closed_within(5))
        self.assertEqual(self.lb.metrics()["tunnels"]["timeouts"], 1)


class Drain(UpgradeCase):
    OPTIONS = {"drain_notice": "50ms", "drain_timeout": "10s", "tunnel_drain_timeout": "1s"}

    def test_tunnels_outlive_the_drain_and_are_closed_one_by_one(self):
        ends = [self.tunnel() for _ in range(4)]
        self.lb.signal(signal.SIGTERM)
        wait_until(lambda: "closing tunnels" in self.lb.log(), 5, "the tunnels' turn")
        ends[-1][0].send(b"still")
        self.assertEqual(ends[-1][1].read_exactly(5), b"still")
        self.assertEqual(self.lb.wait(), 0)
        for client, far in ends:
            self.assertTrue(client.closed_within(5))
            self.assertTrue(far.closed_within(5))

    def test_a_drain_ends_with_the_last_tunnel(self):
        client, far = self.tunnel()
        self.lb.signal(signal.SIGTERM)
        client.close()
        self.assertEqual(far.read_to_end(), b"")
        far.close()
        self.assertEqual(self.lb.wait(), 0)


class DrainCut(UpgradeCase):
    OPTIONS = {"drain_notice": "10ms", "drain_timeout": "1s", "tunnel_drain_timeout": "600s"}

    def test_a_second_signal_cuts_tunnels(self):
        client, far = self.tunnel()
        self.lb.signal(signal.SIGTERM)
        wait_until(lambda: "closing tunnels" in self.lb.log(), 5, "the tunnels' turn")
        self.lb.signal(signal.SIGTERM)
        self.assertEqual(self.lb.wait(), 0)
        self.assertTrue(client.closed_within(1))


if __name__ == "__main__":
    main()
