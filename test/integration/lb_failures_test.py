"""Backends that fail in the middle of things: dead pooled connections, broken responses, refused connects, clients that
leave (cases LB-01, LB-08, LB-09, LB-10, LB-12, LB-23)."""

import hashlib
import random
import threading

from lb_case import LbCase, main
from raw import G, RawClient, wire
from scripted import OK
from waiting import pause, wait_until

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

    def test_get_on_a_connection_that_closes_is_replayed(self):
        """LB-01"""
        for end in (lambda connection: connection.close(), lambda connection: connection.reset()):
            statuses, _, refused = self.run_requests(G, 200, end)
            self.assertEqual(set(statuses), {200})
            self.assertGreater(refused, 50, "the pool was never caught")

    def test_post_on_a_connection_that_closes_is_never_replayed(self):
        """LB-01: 502 is right, a second delivery is not."""
        for end in (lambda connection: connection.close(), lambda connection: connection.reset()):
            statuses, deliveries, refused = self.run_requests(POST, 200, end)
            self.assertLessEqual(set(statuses), {200, 502})
            self.assertEqual(deliveries, 200)
            self.assertEqual(statuses.count(502), refused)

    def test_a_connection_that_closed_while_idle_is_not_used(self):
        """LB-01, FIN before the request: no client sees it, whatever the method."""
        def handler(connection, request):
            connection.body(request)
            connection.send(OK)
            connection.close()

        a = self.scripted(handler)
        balancer = self.balancer(a, failure_limit=1000)
        with balancer.client() as client:
            for index in range(100):
                self.assertEqual(client.request(G if index % 2 else POST).status, 200)
                wait_until(lambda: balancer.metrics()["connections"]["upstream"]["idle"] == 0, 3,
                           "the closed connection to leave the pool")
        self.assertEqual(a.deliveries(), 100)


class BrokenResponses(LbCase):
    def test_mid_response_death_is_seen_by_the_client(self):
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

    def test_half_a_head_is_502(self):
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
    def test_bodies_survive_a_refused_connect(self):
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

    def test_everything_refuses(self):
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

    def test_a_post_is_delivered_once(self):
        """LB-10: A reads the whole request and closes without a byte."""
        def broken(connection, request):
            connection.body(request)
            connection.close()

        a, b = self.scripted(broken, "a"), self.scripted(name="b")
        balancer = self.balancer(a, b, policy="round_robin", failure_limit=1000)
        for method in ("POST", "PATCH"):
            before = a.deliveries() + b.deliveries()
            with balancer.client() as client:
                for _ in range(20):
                    response = client.request(f"{method} / HTTP/1.1|Host: a|Content-Length: 3||abc")
                    self.assertIn(response.status, (200, 502))
            self.assertEqual(a.deliveries() + b.deliveries() - before, 20, method)

    def test_a_get_moves_on(self):
        """LB-10, L14"""
        a, b = self.scripted(lambda connection, request: connection.close(), "a"), self.scripted(name="b")
        balancer = self.balancer(a, b, policy="round_robin", failure_limit=1000)
        with balancer.client() as client:
            for method, body in (("GET", ""), ("PUT", "abc"), ("HEAD", ""), ("OPTIONS", "")):
                for _ in range(10):
                    client.send(f"{method} / HTTP/1.1|Host: a|Content-Length: {len(body)}||{body}")
                    self.assertEqual(client.read_response(method).status, 200, method)
        self.assertGreater(a.deliveries(), 5)

    def test_get_message_is_not_replayed(self):
        """L14: a GET there writes; with Idempotency-Key it may be."""
        a, b = self.scripted(lambda connection, request: connection.close(), "a"), self.scripted(name="b")
        balancer = self.balancer(a, b, policy="round_robin", failure_limit=1000)
        with balancer.client() as client:
            statuses = [client.request("GET /message?msg=x HTTP/1.1|Host: a||").status for _ in range(20)]
        self.assertEqual(a.deliveries() + b.deliveries(), 20)
        self.assertIn(502, statuses)
        with balancer.client() as client:
            for _ in range(10):
                response = client.request("POST /message HTTP/1.1|Host: a|Idempotency-Key: k|Content-Length: 3||abc")
                self.assertEqual(response.status, 200)


class ClientsThatLeave(LbCase):
    def test_counts_return_to_zero(self):
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
