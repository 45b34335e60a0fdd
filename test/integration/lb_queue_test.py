"""Slots and queues, the isolated feed transport, admission (L5, L6, L7, L28; cases LB-23, LB-24)."""

import threading
import time

from lb_case import LbCase, main
from raw import G, RawClient
from scripted import OK
from waiting import TIME_FACTOR, pause, wait_until

HOLD = "GET /hold HTTP/1.1|Host: a||"


class Held:
    """A backend's requests, let go one by one in the order of arrival."""

    def __init__(self):
        self.lock = threading.Lock()
        self.waiting = []
        self.over = False  # nothing is held any more

    def handler(self, connection, request):
        connection.body(request)
        if request.target.startswith("/hold") and not self.over:
            gone = threading.Event()
            with self.lock:
                self.waiting.append((request, gone))
            gone.wait(20)
        connection.done()
        connection.reply(200, request.target.encode())

    def let_go(self):
        with self.lock:
            request, gone = self.waiting.pop(0)
        gone.set()
        return request

    def sort(self):
        """By target; the targets."""
        with self.lock:
            self.waiting.sort(key=lambda held: held[0].target)
            return [request.target for request, _ in self.waiting]

    def end(self):
        self.over = True
        self.let_all_go()

    def let_all_go(self):
        with self.lock:
            for _, gone in self.waiting:
                gone.set()
            self.waiting.clear()


class Queue(LbCase):
    def setUp(self):
        super().setUp()
        self.held = Held()
        self.addCleanup(self.held.end)

    def hold(self, balancer, count, target="/hold"):
        clients = []
        for index in range(count):
            client = balancer.client()
            self.addCleanup(client.close)
            client.send(f"GET {target}{index} HTTP/1.1|Host: a||")
            clients.append(client)
            wait_until(lambda: balancer.in_flight() + balancer.metrics()["queue"]["waiting"] >= index + 1, 5,
                       "the request to be in flight or queued")
        return clients

    def test_lb_24_cap_and_order(self):
        """LB-24: never more than the cap at the backend; those that wait are served first come, first served."""
        a = self.scripted(self.held.handler)
        balancer = self.balancer(a, backend_cap=2, workers=1)  # a line is a worker's own
        clients = self.hold(balancer, 8)
        self.assertEqual(balancer.in_flight(), 2)
        self.assertEqual(balancer.metrics()["queue"]["waiting"], 6)
        for index in range(8):
            wait_until(lambda: len(self.held.waiting) >= min(2, 8 - index), 5, "the next request")
            # The two that are served are the two that came first; which of them the backend's threads saw first is chance.
            self.assertEqual(self.held.sort(), [f"/hold{at}" for at in range(index, min(index + 2, 8))])
            self.assertEqual(self.held.let_go().target, f"/hold{index}")
            self.assertEqual(clients[index].read_response().body, f"/hold{index}".encode())
        self.assertEqual(a.peak, 2)
        balancer.wait_quiet()
        self.assertEqual(balancer.metrics()["queue"]["waiting"], 0)

    def test_lb_24_load_through_a_small_cap(self):
        """LB-24 as figures: cap 4, 50 ms a request, 200 clients at once, queue 1 s."""
        def handler(connection, request):
            pause(0.05)
            connection.done()
            connection.send(OK)

        a = self.scripted(handler)
        balancer = self.balancer(a, backend_cap=4, backend_queue_timeout="1s")
        clients = [RawClient(balancer.port) for _ in range(200)]
        started = time.monotonic()
        for client in clients:
            client.send(G)
        statuses, longest = [], 0.0
        for client in clients:
            response = client.read_response()
            statuses.append(response.status)
            if response.status == 503:
                self.assertTrue(response.header("retry-after"))
            longest = time.monotonic() - started
            client.close()
        self.assertLessEqual(a.peak, 4)
        self.assertEqual(set(statuses), {200, 503})
        self.assertGreaterEqual(statuses.count(200), 60 / TIME_FACTOR)
        self.assertLess(longest, 1.5 * TIME_FACTOR)
        balancer.wait_quiet()

    def test_queue_timeout_is_503(self):
        balancer = self.balancer(self.scripted(self.held.handler), backend_cap=1, backend_queue_timeout="300ms")
        self.hold(balancer, 1)
        started = time.monotonic()
        response = balancer.fetch("/")
        took = time.monotonic() - started
        self.assertEqual(response.status, 503)
        self.assertTrue(response.header("retry-after"))
        self.assertTrue(0.25 <= took <= 0.3 + 0.4 * TIME_FACTOR, took)
        self.assertEqual(balancer.metrics()["rejections"]["queue_timeout"], 1)

    def test_a_full_queue_is_503_at_once(self):
        balancer = self.balancer(self.scripted(self.held.handler), backend_cap=1, backend_queue_max=3)
        self.hold(balancer, 4)
        started = time.monotonic()
        self.assertEqual(balancer.fetch("/").status, 503)
        self.assertLess(time.monotonic() - started, 1.0 * TIME_FACTOR)

    def test_a_client_that_leaves_the_queue_is_never_delivered(self):
        """LB-23 in the queue, by RST and by FIN of a whole close."""
        a = self.scripted(self.held.handler)
        balancer = self.balancer(a, backend_cap=1, workers=1)  # a line is a worker's own
        clients = self.hold(balancer, 4)
        clients[1].reset()
        wait_until(lambda: balancer.metrics()["queue"]["waiting"] == 2, 5, "it to leave the queue")
        for expected in ("/hold0", "/hold2", "/hold3"):
            wait_until(lambda: self.held.waiting, 5, "the next request")
            self.assertEqual(self.held.let_go().target, expected)
        self.assertEqual(clients[3].read_response().status, 200)
        self.assertEqual([request.target for request in a.requests], ["/hold0", "/hold2", "/hold3"])
        balancer.wait_quiet()

    def test_a_waiter_moves_to_the_backend_that_has_a_free_slot(self):
        a, b = self.scripted(self.held.handler), self.scripted(self.held.handler)
        balancer = self.balancer(a, b, backend_cap=1, policy="round_robin")
        clients = self.hold(balancer, 3)
        self.held.let_go()
        wait_until(lambda: len(self.held.waiting) == 2, 5, "the waiter to be served")
        self.held.let_all_go()
        for client in clients:
            self.assertEqual(client.read_response().status, 200)

    def test_lb_24_checks_that_come_and_go(self):
        """The cap holds while one of two backends goes down and up, with two workers; nobody is lost."""
        def handler(connection, request):
            pause(0.01)
            connection.done()
            connection.send(OK)

        a, b = self.scripted(handler, "a"), self.scripted(handler, "b")
        balancer = self.balancer(a, b, backend_cap=2, workers=2, failure_limit=1, health_interval="30ms",
                                 backend_queue_timeout="20s")
        over = threading.Event()

        def toggle():
            good = b.health
            for _ in range(4):
                b.health = (503, b"{}")
                balancer.wait_state("b", False)
                b.health = good
                balancer.wait_state("b", True)
            over.set()

        def client():
            with balancer.client(timeout=30) as connection:
                while not over.is_set():
                    self.assertEqual(connection.request(G).status, 200)

        self.together(toggle, *[client] * 16)
        self.assertLessEqual(max(a.peak, b.peak), 2)
        self.assertGreater(min(a.deliveries(), b.deliveries()), 10)

    def test_lb_24_the_only_backend_goes_down_with_many_queued(self):
        """Its checks fail while it holds its requests: those who wait get 503 at their timeout, or sooner."""
        a = self.scripted(self.held.handler)
        balancer = self.balancer(a, backend_cap=4, workers=2, backend_queue_timeout="700ms", failure_limit=1,
                                 health_interval="50ms", panic_fallback=False)
        clients = self.hold(balancer, 4)
        queued = [RawClient(balancer.port) for _ in range(50)]
        started = time.monotonic()
        for client in queued:
            client.send(G)
        wait_until(lambda: balancer.metrics()["queue"]["waiting"] == 50, 5, "them to wait")
        a.health = (503, b"{}")
        self.assertEqual({client.read_response().status for client in queued}, {503})
        self.assertLess(time.monotonic() - started, 0.7 + 0.6 * TIME_FACTOR)
        self.held.end()
        self.assertEqual([client.read_response().status for client in clients], [200] * 4)
        for client in queued:
            client.close()

    def test_lb_24_the_only_backend_goes_down(self):
        """LB-24: they must move or get 503 at their timeout."""
        a = self.scripted(self.held.handler)
        balancer = self.balancer(a, backend_cap=1, backend_queue_timeout="500ms")
        clients = self.hold(balancer, 6)
        a.refuse(cut=True)
        for client in clients:
            self.assertIn(client.read_response().status, (502, 503))
        balancer.wait_quiet()

    def test_a_backend_that_comes_up_drains_the_queue(self):
        a, b = self.scripted(self.held.handler), self.scripted(self.held.handler)
        b.refuse()
        balancer = self.balancer(a, b, healthy=1, backend_cap=1)
        clients = self.hold(balancer, 2)
        b.accept_again()
        wait_until(lambda: len(self.held.waiting) == 2, 5, "the waiter to be served by b")
        self.held.let_all_go()
        for client in clients:
            self.assertEqual(client.read_response().status, 200)

    def test_all_connections_taken_waits_as_well(self):
        balancer = self.balancer(self.scripted(self.held.handler), proxy_max_conns_per_host=2, backend_queue_timeout="300ms")
        clients = self.hold(balancer, 2)
        self.assertEqual(balancer.fetch("/").status, 503)
        late = balancer.client()
        self.addCleanup(late.close)
        late.send(G)
        wait_until(lambda: balancer.metrics()["queue"]["waiting"] == 1, 5, "it to wait")
        self.held.let_go()
        self.assertEqual(late.read_response().status, 200)
        self.held.let_all_go()
        self.assertEqual(clients[1].read_response().status, 200)


class Admission(LbCase):
    def test_only_posts_of_messages_are_limited(self):
        held = Held()
        self.addCleanup(held.end)

        def handler(connection, request):
            connection.body(request)
            if request.method == "POST" and request.target == "/message":
                gone = threading.Event()
                held.waiting.append((request, gone))
                gone.wait(20)
            connection.send(OK)

        balancer = self.balancer(self.scripted(handler), admission_limit=2)
        clients = [balancer.client() for _ in range(2)]
        for client in clients:
            self.addCleanup(client.close)
            client.send("POST /message HTTP/1.1|Host: a|Content-Length: 1||x")
        wait_until(lambda: len(held.waiting) == 2, 5, "two posts")
        response = balancer.fetch("/message", "POST", b"x")
        self.assertEqual(response.status, 503)
        self.assertTrue(response.header("retry-after"))
        for target in ("/feed", "/health", "/lb/health"):
            self.assertEqual(balancer.fetch(target).status, 200, target)
        held.let_all_go()
        for client in clients:
            self.assertEqual(client.read_response().status, 200)
        self.assertEqual(balancer.metrics()["rejections"]["admission"], 1)


class Feeds(LbCase):
    def feed_backend(self, size=8 << 20):
        body = b"f" * size

        def handler(connection, request):
            connection.body(request)
            connection.reply(200, body if request.path == "/feed" else b"ok")

        return self.scripted(handler), body

    def test_slow_readers_never_block_messages(self):
        """L6: as many slow readers as the feed has connections, twice; a message still passes at once."""
        a, body = self.feed_backend()
        balancer = self.balancer(a, backend_cap=2, proxy_max_feed_conns_per_host=4, socket_write_buffer_bytes="16KiB")
        readers = []
        for _ in range(8):
            reader = balancer.client(receive_buffer=8192)
            self.addCleanup(reader.close)
            reader.send("GET /feed HTTP/1.1|Host: a||")
            readers.append(reader)
        wait_until(lambda: balancer.metrics()["connections"]["upstream"]["feed_busy"] == 4, 5, "four feeds")
        wait_until(lambda: balancer.in_flight() == 0, 5, "the feeds to give their slots back")
        with balancer.client() as client:
            for _ in range(50):
                started = time.monotonic()
                self.assertEqual(client.request("POST /message HTTP/1.1|Host: a|Content-Length: 1||x").status, 200)
                self.assertLess(time.monotonic() - started, 0.5 * TIME_FACTOR)
        for reader in readers:
            response = reader.read_response()
            self.assertTrue(response.complete and response.body == body)
        balancer.wait_quiet()

    def test_a_feed_keeps_its_slot_until_the_head_is_in(self):
        gate = threading.Event()

        def handler(connection, request):
            connection.body(request)
            if request.path == "/feed":
                gate.wait(20)
            connection.send(OK)

        self.addCleanup(gate.set)
        balancer = self.balancer(self.scripted(handler))
        with balancer.client() as client:
            client.send("GET /feed HTTP/1.1|Host: a||")
            wait_until(lambda: balancer.in_flight() == 1, 5, "the feed to be in flight")
            gate.set()
            self.assertEqual(client.read_response().status, 200)
        balancer.wait_quiet()
        feed = balancer.metrics()["feed"]
        self.assertEqual(feed["requests"], 1)
        self.assertEqual(balancer.backend("a")["score_parts"]["latency"], 0, "feeds are left out of the latency")

    def test_feed_paths_is_an_option(self):
        a, _ = self.feed_backend(10)
        balancer = self.balancer(a, feed_paths=["/other"])
        for target in ("/feed", "/other"):
            self.assertEqual(balancer.fetch(target).status, 200)
        self.assertEqual(balancer.metrics()["feed"]["requests"], 1)

    def test_an_interrupted_feed_is_counted_apart(self):
        def handler(connection, request):
            connection.send("HTTP/1.1 200 OK|Content-Length: 100||part")
            connection.close()

        balancer = self.balancer(self.scripted(handler), failure_limit=1000)
        with balancer.client() as client:
            self.assertFalse(client.request("GET /feed HTTP/1.1|Host: a||").complete)
        feed = wait_until(lambda: (lambda f: f if f["interrupted_bodies"] else None)(balancer.metrics()["feed"]), 5,
                          "the count")
        self.assertEqual((feed["interrupted_bodies"], feed["header_failures"]), (1, 0))


if __name__ == "__main__":
    main()
