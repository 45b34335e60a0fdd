"""Backends that fail in the middle of things: dead pooled connections, broken responses, refused connects, clients that
leave (cases LB-01, LB-08, LB-09, LB-10, LB-12, LB-23)."""

import hashlib
import random
import threading
import time

from lb_case import LbCase, main
from raw import G, RawClient, wire
from scripted import OK
from waiting import TIME_FACTOR, pause, wait_until

POST = wire("POST / HTTP/1.1|Host: a|Content-Length: 3||abc")


class PooledConnections(LbCase):
    def run_requests(self, data, count, end):
        """A answers the first request of each connection and ends the connection at the second with `end`."""
        def handler(connection, request):
            connection.body(request)
            if connection.requests > 1:
                with counted:
                    refused.append(request)
                end(connection)
                return
            connection.send(OK)

        counted, refused = threading.Lock(), []
        a = self.scripted(handler)
        balancer = self.balancer(a, failure_limit=1000)
        statuses = []
        with balancer.client() as client:
            for _ in range(count):
                response = client.request(data)
                self.assertTrue(response.complete)
                statuses.append(response.status)
        balancer.wait_quiet()
        return statuses, a.deliveries(), len(refused)

    def test_lb_01_get_on_a_connection_that_closes_is_replayed(self):
        """LB-01"""
        for end in (lambda connection: connection.close(), lambda connection: connection.reset()):
            statuses, _, refused = self.run_requests(G, 100, end)
            self.assertEqual(set(statuses), {200})
            self.assertGreater(refused, 25, "the pool was never caught")

    def test_lb_01_post_on_a_connection_that_closes_is_never_replayed(self):
        """LB-01: 502 is right, a second delivery is not."""
        for end in (lambda connection: connection.close(), lambda connection: connection.reset()):
            statuses, deliveries, refused = self.run_requests(POST, 100, end)
            self.assertLessEqual(set(statuses), {200, 502})
            self.assertEqual(deliveries, 100)
            self.assertEqual(statuses.count(502), refused)

    def test_lb_01_a_connection_that_closed_while_idle_is_not_used(self):
        """LB-01, FIN before the request: no client sees it, whatever the method."""
        def handler(connection, request):
            connection.body(request)
            connection.send(OK)
            connection.close()

        a = self.scripted(handler)
        balancer = self.balancer(a, failure_limit=1000)
        with balancer.client() as client:
            for index in range(50):
                self.assertEqual(client.request(G if index % 2 else POST).status, 200)
                wait_until(lambda: balancer.metrics()["connections"]["upstream"]["idle"] == 0, 3,
                           "the closed connection to leave the pool")
        self.assertEqual(a.deliveries(), 50)

    def test_lb_01_a_fin_in_flight(self):
        """A closes 0 to 2 ms after its answer, as the next request comes. A POST that was never delivered may be answered 502,
        but never one that was delivered twice; deliveries are told apart by their number."""
        chance = random.Random(1)

        def handler(connection, request):
            connection.body(request)
            connection.send(OK)
            pause(chance.random() * 0.002)
            connection.close() if chance.random() < 0.5 else connection.reset()

        a = self.scripted(handler)
        balancer = self.balancer(a, failure_limit=1000)
        statuses = {"GET": [], "POST": []}
        with balancer.client() as client:
            for index in range(100):
                for method in statuses:
                    pause(chance.random() * 0.002)
                    client.send(f"{method} /{index} HTTP/1.1|Host: a|Content-Length: 3||abc")
                    response = client.read_response()
                    self.assertTrue(response.complete)
                    statuses[method].append(response.status)
        self.assertEqual(set(statuses["GET"]), {200})
        self.assertLessEqual(set(statuses["POST"]), {200, 502})
        posts = [request.target for request in a.requests if request.method == "POST"]
        self.assertEqual(len(posts), len(set(posts)), "delivered twice")


class BrokenResponses(LbCase):
    def test_lb_08_mid_response_death_is_seen_by_the_client(self):
        """LB-08 (a) to (d), (f)"""
        def reset_soon(connection):
            pause(0.05)  # so that what was sent has been relayed: a RST overtakes it otherwise
            connection.reset()

        cases = [
            ("a", "HTTP/1.1 200 OK|Transfer-Encoding: chunked||5|hello|", "close", b"hello", False),
            ("b", "HTTP/1.1 200 OK|Content-Length: 100||hello", "close", b"hello", False),
            ("c", "HTTP/1.1 500 X|Content-Length: 100||", "close", b"", False),
            ("d", "HTTP/1.1 200 OK|Content-Length: 100||hello", "reset", b"hello", False),
            ("d chunked", "HTTP/1.1 200 OK|Transfer-Encoding: chunked||5|hello|", "reset", b"hello", False),
            ("f", "HTTP/1.1 200 OK||hello", "close", b"hello", True),
            ("f reset", "HTTP/1.1 200 OK||hello", "reset", b"hello", False),
        ]
        for name, text, end, body, complete in cases:
            with self.subTest(name):
                def handler(connection, request, text=text, end=end):
                    if request.target == "/next":
                        connection.send(OK)
                        return
                    connection.send(text)
                    if end == "close":
                        connection.close()
                    else:
                        reset_soon(connection)

                a = self.scripted(handler, "a" + name[0])
                balancer = self.balancer(a, name=f"lb{len(self.programs)}", failure_limit=1000)
                with balancer.client() as client:
                    response = client.request(G)
                    if name == "c" and response.status == 502:
                        continue  # allowed: no byte of the body had come
                    self.assertEqual(response.body, body)
                    self.assertEqual(response.complete, complete)
                    if not complete:
                        self.assertTrue(client.closed_within(2))
                self.assertEqual(a.deliveries(), 1, "no retry once a byte went out")
                self.assertEqual(balancer.fetch("/next").status, 200)
                balancer.wait_quiet()

    def test_lb_08_an_http_1_0_client_sees_it_too(self):
        """Its sink ends with the connection: a break must be a reset, an end must be none."""
        for text, reset, body, complete in (
            ("HTTP/1.1 200 OK|Transfer-Encoding: chunked||5|hello|", False, b"hello", False),
            ("HTTP/1.1 200 OK|Transfer-Encoding: chunked||5|hello|0||", False, b"hello", True),
            ("HTTP/1.1 200 OK|Transfer-Encoding: chunked||5|hello|x|", False, b"hello", False),
            ("HTTP/1.1 200 OK||hello", True, b"hello", False),
            ("HTTP/1.1 200 OK||hello", False, b"hello", True),
            ("HTTP/1.0 200 OK||hello", False, b"hello", True),
        ):
            with self.subTest(text, reset=reset):
                def handler(connection, request, text=text, reset=reset):
                    connection.send(text)
                    if reset:
                        pause(0.05)  # so that what was sent has been relayed
                        connection.reset()
                    else:
                        connection.close()

                balancer = self.balancer(self.scripted(handler, f"a{len(self.programs)}"), name=f"lb{len(self.programs)}",
                                         failure_limit=1000)
                with balancer.client() as client:
                    client.send("GET / HTTP/1.0|Host: a||")
                    head = client.read_head()
                    self.assertEqual((head.framing, head.all("transfer-encoding")), ("none", []))
                    try:
                        got = client.read_to_end()
                    except OSError:
                        got = b""
                    self.assertLessEqual(len(got), len(body))
                    if complete:
                        self.assertEqual(got, body)
                    self.assertEqual(client.was_reset, not complete)

    def test_lb_08_half_a_head_is_502(self):
        """LB-08 (e)"""
        def handler(connection, request):
            connection.body(request)
            if request.target == "/next":
                connection.send(OK)
                return
            connection.send("HTTP/1.1 200 OK|Content-Le")
            connection.close()

        balancer = self.balancer(self.scripted(handler), failure_limit=1000)
        with balancer.client() as client:
            self.assertEqual(client.request(POST).status, 502)
            self.assertEqual(client.request("GET /next HTTP/1.1|Host: a||").status, 200)

    def test_a_downloading_client_that_leaves_ends_the_backend_connection(self):
        ended = threading.Event()

        def handler(connection, request):
            connection.send("HTTP/1.1 200 OK|Content-Length: 1000000000||")
            try:
                while True:
                    connection.send(b"x" * 65536)
            except OSError:
                ended.set()
                raise

        balancer = self.balancer(self.scripted(handler))
        client = balancer.client()
        client.send(G)
        client.read_head()
        client.reset()
        self.assertTrue(ended.wait(5))
        balancer.wait_quiet()


class Refused(LbCase):
    def test_lb_09_bodies_survive_a_refused_connect(self):
        """LB-09: A's port refuses while its check is still good; every 200 has the whole body at B."""
        digests = []

        def handler(connection, request):
            digests.append(hashlib.sha256(connection.body(request)).hexdigest())
            connection.send(OK)

        a, b = self.scripted(handler, "a"), self.scripted(handler, "b")
        balancer = self.balancer(a, b, policy="round_robin", health_interval="1m", failure_limit=1000, stats_interval="1m")
        a.refuse(cut=True)
        sent = []
        with balancer.client() as client:
            for size in (1, 16383, 16384, 16385, 1 << 20) * 4:
                body = random.Random(size).randbytes(size)
                for head, wired in ((f"Content-Length: {size}", body),
                                    ("Transfer-Encoding: chunked", b"%x\r\n%s\r\n0\r\n\r\n" % (size, body))):
                    client.send(wire(f"POST / HTTP/1.1|Host: a|{head}||") + wired)
                    self.assertEqual(client.read_response().status, 200)
                    sent.append(hashlib.sha256(body).hexdigest())
        self.assertEqual(digests, sent)
        self.assertGreater(balancer.metrics()["routing"]["retries"], 0)

    def test_lb_09_bodies_survive_a_reset_before_they_are_read(self):
        """A accepts and resets: whatever is answered 200 has its whole body at B."""
        digests = []

        def handler(connection, request):
            digests.append(hashlib.sha256(connection.body(request)).hexdigest())
            connection.send(OK)

        a, b = self.scripted(lambda connection, request: connection.reset(), "a"), self.scripted(handler, "b")
        balancer = self.balancer(a, b, policy="round_robin", failure_limit=1000)
        sent, statuses = [], []
        with balancer.client() as client:
            for size in (1, 16383, 16384, 16385) * 2:
                body = random.Random(size).randbytes(size)
                for method, head, wired in (("PUT", f"Content-Length: {size}", body),
                                            ("PUT", "Transfer-Encoding: chunked", b"%x\r\n%s\r\n0\r\n\r\n" % (size, body)),
                                            ("POST", f"Content-Length: {size}", body)):
                    client.send(wire(f"{method} / HTTP/1.1|Host: a|{head}||") + wired)
                    response = client.read_response()
                    statuses.append((method, response.status))
                    if response.status == 200:
                        sent.append(hashlib.sha256(body).hexdigest())
        self.assertEqual(digests, sent)
        self.assertLessEqual(set(statuses), {("PUT", 200), ("POST", 200), ("POST", 502)})
        self.assertIn(("POST", 502), statuses)

    def test_lb_12_a_storm_is_bounded(self):
        """(b) All answer 503, which is an answer: each request is delivered once. (c) All accept and close: second attempts are
        bounded by the budget. Then the backends are well again."""
        def unwell(connection, request):
            connection.body(request)
            connection.send("HTTP/1.1 503 S|Content-Length: 0||")

        def closing(connection, request):
            connection.body(request)
            connection.close()

        backends = [self.scripted(unwell, name) for name in "abd"]
        balancer = self.balancer(*backends, failure_limit=1000)

        def storm():
            statuses = []

            def client():
                with balancer.client() as connection:
                    for _ in range(10):
                        statuses.append(connection.request(G).status)

            before = sum(backend.deliveries() for backend in backends)
            started = time.monotonic()
            self.together(*[client] * 40)
            took = time.monotonic() - started
            return statuses, sum(backend.deliveries() for backend in backends) - before, took

        statuses, attempts, _ = storm()
        self.assertEqual((set(statuses), attempts), ({503}, 400))
        for backend in backends:
            backend.handler = closing
        statuses, attempts, took = storm()
        self.assertEqual(set(statuses), {502})
        self.assertLessEqual(attempts, 1.2 * 400 + 3 * 40)
        self.assertLess(took, 400 * 0.005 * 3 * TIME_FACTOR)
        retries = balancer.metrics()["routing"]["retries"]
        self.assertEqual(attempts, 400 + retries)
        for backend in backends:
            backend.behave()
        started = time.monotonic()
        self.assertEqual(balancer.fetch("/").status, 200)
        self.assertLess(time.monotonic() - started, 0.5 * TIME_FACTOR)

    def test_lb_12_everything_refuses(self):
        """LB-12 (a): 502 or 503 at once, and back within a check interval."""
        a, b = self.scripted(), self.scripted()
        balancer = self.balancer(a, b)
        for backend in (a, b):
            backend.refuse(cut=True)
        with balancer.client() as client:
            for _ in range(100):
                self.assertIn(client.request(G).status, (502, 503))
        wait_until(lambda: balancer.fetch("/lb/health").status == 503, 5, "/lb/health to say 503")
        response = balancer.fetch("/")
        self.assertEqual(response.status, 503)
        self.assertTrue(response.header("retry-after"))
        for backend in (a, b):
            backend.accept_again()
        wait_until(lambda: balancer.fetch("/").status == 200, 2, "service after the return")

    def test_lb_10_a_post_is_delivered_once(self):
        """LB-10: A reads the whole request and closes without a byte."""
        def broken(connection, request):
            connection.body(request)
            connection.close()

        a, b = self.scripted(broken, "a"), self.scripted(name="b")
        balancer = self.balancer(a, b, policy="round_robin", failure_limit=1000, max_ejected_percent=0)
        for method in ("POST", "PATCH"):
            before = a.deliveries() + b.deliveries()
            with balancer.client() as client:
                for _ in range(20):
                    response = client.request(f"{method} / HTTP/1.1|Host: a|Content-Length: 3||abc")
                    self.assertIn(response.status, (200, 502))
            self.assertEqual(a.deliveries() + b.deliveries() - before, 20, method)

    def test_lb_10_a_post_is_delivered_once_however_a_fails(self):
        """A stays silent beyond backend-timeout, or answers half a status line; FOO is no method that we know."""
        def silent(connection, request):
            connection.body(request)
            connection.wait_for_end()

        def half(connection, request):
            connection.body(request)
            connection.send(b"HTTP/1.1 2")
            connection.close()

        a, b = self.scripted(silent, "a"), self.scripted(name="b")
        balancer = self.balancer(a, b, policy="round_robin", failure_limit=1000, max_ejected_percent=0, backend_timeout="100ms")
        for handler, failed in ((silent, 504), (half, 502)):
            a.handler = handler
            for method in ("POST", "PATCH"):
                before = a.deliveries() + b.deliveries()
                with balancer.client() as client:
                    statuses = [client.request(f"{method} / HTTP/1.1|Host: a|Content-Length: 3||abc").status for _ in range(6)]
                self.assertEqual(set(statuses), {200, failed})
                self.assertEqual(a.deliveries() + b.deliveries() - before, 6, method)
        before = a.deliveries() + b.deliveries()
        with balancer.client() as client:
            self.assertEqual(client.request("FOO / HTTP/1.1|Host: a|Content-Length: 3||abc").status, 501)
        self.assertEqual(a.deliveries() + b.deliveries(), before)

    def test_lb_10_a_get_moves_on(self):
        """LB-10, L14"""
        a, b = self.scripted(lambda connection, request: connection.close(), "a"), self.scripted(name="b")
        balancer = self.balancer(a, b, policy="round_robin", failure_limit=1000, max_ejected_percent=0)
        with balancer.client() as client:
            for method, body in (("GET", ""), ("PUT", "abc"), ("HEAD", ""), ("OPTIONS", "")):
                for _ in range(10):
                    client.send(f"{method} / HTTP/1.1|Host: a|Content-Length: {len(body)}||{body}")
                    self.assertEqual(client.read_response(method).status, 200, method)
        self.assertGreater(a.deliveries(), 5)

    def test_get_message_is_not_replayed(self):
        """L14: a GET there writes; with Idempotency-Key it may be."""
        a, b = self.scripted(lambda connection, request: connection.close(), "a"), self.scripted(name="b")
        balancer = self.balancer(a, b, policy="round_robin", failure_limit=1000, max_ejected_percent=0)
        with balancer.client() as client:
            statuses = [client.request("GET /message?msg=x HTTP/1.1|Host: a||").status for _ in range(20)]
        self.assertEqual(a.deliveries() + b.deliveries(), 20)
        self.assertIn(502, statuses)
        with balancer.client() as client:
            for _ in range(10):
                response = client.request("POST /message HTTP/1.1|Host: a|Idempotency-Key: k|Content-Length: 3||abc")
                self.assertEqual(response.status, 200)


class ClientsThatLeave(LbCase):
    def test_lb_23_counts_return_to_zero(self):
        """LB-23: A hangs, clients reset after 0 to 50 ms."""
        a = self.scripted(lambda connection, request: connection.wait_for_end())
        balancer = self.balancer(a)

        def leave(seed):
            chance = random.Random(seed)

            def work():
                for _ in range(20):
                    client = RawClient(balancer.port)
                    client.send(G)
                    pause(chance.random() * 0.05)
                    client.reset()
            return work

        self.together(*[leave(seed) for seed in range(16)])
        balancer.wait_quiet(2)
        state = balancer.backend("a")
        self.assertTrue(state["healthy"])
        wait_until(lambda: a.active == 0, 5, "the backend's connections to be closed")
        self.assertLessEqual(balancer.metrics()["connections"]["client"]["active"], 1, "at most ours that asks")

    def test_lb_23_a_fin_is_a_leave_when_it_is_said_so(self):
        a = self.scripted(lambda connection, request: connection.wait_for_end())
        balancer = self.balancer(a, abort_on_client_fin=True, backend_cap=1)
        first, second, third = (balancer.client() for _ in range(3))
        for client in (first, second, third):
            self.addCleanup(client.close)
        first.send(G)
        wait_until(lambda: a.active == 1, 5, "the request")
        second.send(G)
        wait_until(lambda: balancer.metrics()["queue"]["waiting"] == 1, 5, "the second to wait")
        second.shutdown_write()
        wait_until(lambda: balancer.metrics()["queue"]["waiting"] == 0, 2, "the second to leave the queue")
        self.assertEqual(second.read_to_end(), b"")
        first.shutdown_write()
        wait_until(lambda: a.active == 0 and balancer.in_flight() == 0, 2, "the first to be given up")
        self.assertEqual(balancer.metrics()["requests"]["client_gone"], 2)
        third.send(G)
        third.shutdown_write()  # with its request, perhaps
        self.assertEqual(third.read_to_end(), b"")

    def test_leaving_in_mid_upload(self):
        a = self.scripted(lambda connection, request: connection.body(request))
        balancer = self.balancer(a, failure_limit=1000)
        for size in (0, 10, 70000):
            client = balancer.client()
            client.send(wire("POST / HTTP/1.1|Host: a|Content-Length: 1000000||") + b"x" * size)
            wait_until(lambda: a.active == 1, 5, "the upload to begin")
            client.reset()
            wait_until(lambda: a.active == 0, 5, "the upload to end")
        balancer.wait_quiet()
        a.errors.clear()


if __name__ == "__main__":
    main()
