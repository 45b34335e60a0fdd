"""Which backend gets a request: score, threshold, memory guards, policies, health, drain (L1-L4, L9, L10, L13)."""

import collections
import json
import threading
import time

from case import Case, main
from raw import G
from scripted import OK, memory
from waiting import TIME_FACTOR, wait_until


def used_by(balancer, count, target="/"):
    """How many of `count` requests in a row each backend got."""
    shares = collections.Counter()
    with balancer.client() as client:
        for _ in range(count):
            response = client.request(f"GET {target} HTTP/1.1|Host: a||")
            assert response.status == 200, response
            shares[response.header("x-load-balancer-backend")] += 1
    return shares


class Gate:
    """Requests to a scripted backend that wait until they are let go."""

    def __init__(self):
        self.open = threading.Event()

    def handler(self, connection, request):
        connection.body(request)
        if request.target.startswith("/hold"):
            self.open.wait(20)
        connection.send(OK)


class Policies(Case):
    def test_idle_backends_rotate(self):
        for policy in ("score", "least_conn", "round_robin", "weighted_round_robin"):
            with self.subTest(policy):
                backends = [self.scripted(name=f"{policy[0]}{index}") for index in range(3)]
                shares = used_by(self.balancer(*backends, name=f"lb-{policy}", policy=policy), 30)
                self.assertEqual(sorted(shares.values()), [10, 10, 10])

    def test_every_policy_serves(self):
        """With one backend that fails every request at once: it is ejected, and the others answer."""
        def fail(connection, request):
            connection.body(request)
            connection.send("HTTP/1.1 500 No|Content-Length: 0||")

        backends = [self.scripted(fail, "b0"), self.scripted(name="b1"), self.scripted(name="b2")]
        for policy in ("adaptive", "first", "random_two", "peak_ewma", "prequal"):
            with self.subTest(policy):
                balancer = self.balancer(*backends, name=f"lb-{policy}", policy=policy, ejection_time="1m")
                with balancer.client() as client:
                    statuses = [client.request("GET / HTTP/1.1|Host: a||").status for _ in range(60)]
                self.assertLessEqual(statuses.count(500), 5)
                self.assertEqual(set(statuses) - {500}, {200})

    def test_fewest_outstanding_requests_win(self):
        """10 requests are held at each of two backends; the third gets all that follow until it is level."""
        for policy in ("score", "least_conn"):
            with self.subTest(policy):
                gate = Gate()
                backends = [self.scripted(gate.handler, f"{policy[0]}{index}") for index in range(3)]
                balancer = self.balancer(*backends, name=f"lb-{policy}", policy=policy)
                clients = []
                for index in range(30):
                    client = balancer.client()
                    self.addCleanup(client.close)
                    client.send("GET /hold HTTP/1.1|Host: a||")
                    clients.append(client)
                    wait_until(lambda: sum(backend.active for backend in backends) == index + 1, 5, "the request")
                self.assertEqual([backend.active for backend in backends], [10, 10, 10])
                self.assertEqual([backend["in_flight"] for backend in balancer.status()["backends"]], [10, 10, 10])
                gate.open.set()
                for client in clients:
                    self.assertEqual(client.read_response().status, 200)
                balancer.wait_quiet()

    def test_weights(self):
        gate = Gate()
        backends = [self.scripted(gate.handler) for _ in range(2)]
        balancer = self.balancer(*backends, policy="least_conn", weights=[3, 1])
        clients = [balancer.client() for _ in range(16)]
        for index, client in enumerate(clients):
            self.addCleanup(client.close)
            client.send("GET /hold HTTP/1.1|Host: a||")
            wait_until(lambda: sum(backend.active for backend in backends) == index + 1, 5, "the request")
        self.assertEqual([backend.active for backend in backends], [12, 4])
        gate.open.set()
        for client in clients:
            self.assertEqual(client.read_response().status, 200)

    def test_weight_zero_gets_nothing(self):
        backends = [self.scripted(), self.scripted()]
        balancer = self.balancer(*backends, weights=[1, 0])
        self.assertEqual(used_by(balancer, 10), {"a": 10})


class Score(Case):
    def test_parts(self):
        """0.25 cpu + 0.45 in flight + 0.30 latency"""
        a = self.scripted(name="a")
        a.stats["cpu_percent"] = 80.0
        balancer = self.balancer(a)
        wait_until(lambda: 20 <= balancer.backend("a")["score"] < 25, 5, "a score of about 0.25 × 80")
        response = balancer.fetch("/")
        self.assertTrue(20 <= float(response.header("x-load-balancer-score")) < 27, response)

    def test_over_the_threshold_is_avoided(self):
        a, b = self.scripted(), self.scripted()
        balancer = self.balancer(a, b, threshold=20)
        a.stats["cpu_percent"] = 100.0
        wait_until(lambda: balancer.backend("a")["score"] >= 25, 5, "a's score")
        shares = used_by(balancer, 20)
        self.assertEqual(shares, {"b": 20})

    def test_fallback_when_none_is_under_the_threshold(self):
        """L3: the least loaded, and the response says so."""
        a, b = self.scripted(), self.scripted()
        balancer = self.balancer(a, b, threshold=20)
        for backend in (a, b):
            backend.stats["cpu_percent"] = 100.0
        wait_until(lambda: all(backend["score"] >= 25 for backend in balancer.status()["backends"]), 5, "the scores")
        response = balancer.fetch("/")
        self.assertEqual((response.status, response.header("x-load-balancer-fallback")), (200, "threshold"))
        self.assertEqual(sorted(used_by(balancer, 20).values()), [10, 10])
        self.assertGreaterEqual(balancer.metrics()["routing"]["fallbacks"], 21)

    def test_stale_statistics_cost_15_points(self):
        a = self.scripted()
        balancer = self.balancer(a)
        before = balancer.backend("a")["score"]
        a.stats = None
        wait_until(lambda: balancer.backend("a")["score"] >= before + 14, 5, "the penalty")
        self.assertTrue(balancer.backend("a")["healthy"])
        self.assertEqual(balancer.fetch("/").status, 200)

    def test_plain_web_servers_have_no_statistics(self):
        a = self.scripted()
        a.stats = None
        balancer = self.balancer(a, stats_path="", health_path="/health")
        self.assertLess(balancer.backend("a")["score"], 1)
        self.assertFalse([probe for probe in a.probes if probe.path != "/health"])


class MemoryGuard(Case):
    def test_hysteresis_of_max_memory(self):
        a, b = self.scripted(), self.scripted()
        balancer = self.balancer(a, b, max_memory=90, max_total_memory=98)

        def at(percent):
            a.stats = dict(a.stats, memory=memory(percent), marker=percent)
            seen = len(a.probes)
            wait_until(lambda: sum(p.path == "/internal/stats" for p in a.probes[seen:]) >= 2, 5, "two samples")

        at(89)
        self.assertIn("a", used_by(balancer, 10))
        at(91)
        self.assertEqual(used_by(balancer, 10), {"b": 10})
        at(87)  # not yet 5 points below
        self.assertEqual(used_by(balancer, 10), {"b": 10})
        at(84)
        self.assertIn("a", used_by(balancer, 10))

    def test_none_that_is_memory_safe_is_503(self):
        a = self.scripted()
        a.stats["memory"] = memory(99)
        balancer = self.balancer(a)
        response = wait_until(lambda: (lambda r: r if r.status == 503 else None)(balancer.fetch("/")), 5, "503")
        self.assertTrue(response.header("retry-after"))
        self.assertEqual(json.loads(response.body)["error"] != "", True)
        self.assertEqual(balancer.fetch("/lb/health").status, 200, "it is healthy all the same")


class Health(Case):
    def test_down_after_failure_limit_and_up_at_the_first_success(self):
        a, b = self.scripted(), self.scripted()
        balancer = self.balancer(a, b, failure_limit=3)
        a.health = (500, b"")
        balancer.wait_state("a", False)
        self.assertEqual(used_by(balancer, 10), {"b": 10})
        seen = len(a.probes)
        a.health = (200, b"{}")
        balancer.wait_state("a", True)
        self.assertLessEqual(sum(p.path == "/health" for p in a.probes[seen:]), 3)
        self.assertIn("a", used_by(balancer, 10))

    def test_refused_connections_take_it_out_at_once(self):
        """L10: no need to wait for the next check."""
        a, b = self.scripted(), self.scripted()
        balancer = self.balancer(a, b, health_interval="1m", stats_interval="1m", policy="round_robin")
        a.refuse(cut=True)
        self.assertEqual(used_by(balancer, 10), {"b": 10})
        self.assertFalse(balancer.backend("a")["healthy"])
        self.assertLessEqual(balancer.backend("a")["counters"]["failures"]["connect"], 3)

    def test_it_returns_with_traffic_within_two_intervals(self):
        a, b = self.scripted(), self.scripted()
        balancer = self.balancer(a, b, policy="round_robin")
        a.refuse(cut=True)
        balancer.wait_state("a", False)
        a.accept_again()
        seen = a.deliveries()
        wait_until(lambda: balancer.fetch("/").status == 200 and a.deliveries() > seen, 0.5, "traffic at a")

    def test_lb_18_a_check_has_one_deadline(self):
        """A backend that dribbles its answer is not healthy, and never has two checks at a time."""
        def dribble(connection, request):
            for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok":
                if connection.server.stopped.wait(0.1):
                    return
                connection.send(bytes([byte]))

        a, b = self.scripted(), self.scripted()
        a.on_probe = dribble
        balancer = self.balancer(a, b, healthy=1, monitor_timeout="400ms")
        wait_until(lambda: balancer.backend("a")["counters"]["probes"]["failed"] >= 2, 5, "failures")
        self.assertFalse(balancer.backend("a")["healthy"])
        self.assertGreater(balancer.backend("a")["counters"]["probes"]["skipped"], 0)

    def test_lb_18_the_check_request_is_well_formed(self):
        a = self.scripted()
        self.balancer(a)
        for probe in a.probes:
            self.assertEqual(probe.method, "GET")
            self.assertEqual(len(probe.all("host")), 1)
            self.assertFalse(probe.all("content-length") or probe.all("transfer-encoding"), probe)

    def test_lb_18_checks_that_never_end(self):
        """A gigabyte of body, a head without end, silence, a RST behind the head: each fails within its deadline, one check at a
        time, and costs next to nothing."""
        def endless(connection, request):
            connection.send("HTTP/1.1 200 OK|Content-Length: 1073741824||")
            while True:
                connection.send(b"x" * 65536)

        def half(connection, request):
            connection.send("HTTP/1.1 200 OK|")
            connection.wait_for_end()

        def reset(connection, request):
            connection.send("HTTP/1.1 200 OK||")
            connection.reset()

        kinds = (endless, half, lambda connection, request: connection.wait_for_end(), reset)
        backends = [self.scripted(name=f"x{index}") for index in range(20)]
        for index, backend in enumerate(backends):
            backend.on_probe = kinds[index % len(kinds)]
        good = self.scripted(name="good")
        balancer = self.balancer(good, *backends, healthy=1, monitor_timeout="400ms", health_interval="100ms",
                                 stats_interval="1m")
        started, cpu = time.monotonic(), balancer.cpu_seconds()
        most = 0

        def all_failed_twice():
            nonlocal most
            most = max(most, balancer.open_files())
            states = balancer.status()["backends"]
            return all(state["counters"]["probes"]["failed"] >= 2 for state in states if state["id"] != "good")

        wait_until(all_failed_twice, 5, "two failures of each")
        self.assertEqual([state["id"] for state in balancer.status()["backends"] if state["healthy"]], ["good"])
        self.assertLess(most, 2 * len(backends) + 40)
        self.assertLess(balancer.cpu_seconds() - cpu, 0.02 + 0.25 * (time.monotonic() - started) * TIME_FACTOR)

    def test_lb_18_broken_answers_to_checks_are_failures(self):
        for text in (b"garbage\r\n\r\n", b"HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n", b""):
            with self.subTest(text):
                def answer(connection, request, text=text):
                    connection.send(text)
                    connection.close()

                a, b = self.scripted(name="a"), self.scripted(name="b")
                a.on_probe = answer
                balancer = self.balancer(a, b, name=f"lb{len(self.programs)}", healthy=1)
                wait_until(lambda: balancer.backend("a")["counters"]["probes"]["failed"] >= 2, 5, "failures")
                self.assertFalse(balancer.backend("a")["healthy"])

    def test_methods_of_checking(self):
        for method, seen in (("HEAD", "HEAD"), ("TCP", None)):
            with self.subTest(method):
                a = self.scripted(name=method)
                balancer = self.balancer(a, name=f"lb-{method}", health_method=method, stats_path="", health_path="/health")
                self.assertEqual({probe.method for probe in a.probes}, {seen} if seen else set())
                self.assertEqual(balancer.fetch("/").status, 200)

    def test_a_draining_backend_gets_nothing_new(self):
        """L13: 503 and {"status":"draining"}: at once, without failures counted."""
        gate = Gate()
        a, b = self.scripted(gate.handler), self.scripted(gate.handler)
        balancer = self.balancer(a, b, policy="round_robin")
        clients = [balancer.client() for _ in range(2)]
        for client in clients:
            self.addCleanup(client.close)
            client.send("GET /hold HTTP/1.1|Host: a||")
        wait_until(lambda: a.active == b.active == 1, 5, "one request at each")
        a.health = (503, b'{"status":"draining","backend-id":"a"}')
        wait_until(lambda: balancer.backend("a")["state"] == "draining", 5, "draining to be noticed")
        before = a.deliveries()
        self.assertEqual(used_by(balancer, 10), {"b": 10})
        self.assertEqual(a.deliveries(), before)
        gate.open.set()
        for client in clients:
            self.assertEqual(client.read_response().status, 200, "what ran went on")
        a.health = (200, b"{}")
        wait_until(lambda: balancer.backend("a")["state"] != "draining", 5, "its return")
        self.assertIn("a", used_by(balancer, 10))

    def test_panic_keeps_routing_when_all_checks_fail(self):
        """L11: all fail for the same deep reason and still accept connections."""
        a, b = self.scripted(), self.scripted()
        balancer = self.balancer(a, b)
        for backend in (a, b):
            backend.health = (500, b"")
        balancer.wait_state("a", False)
        balancer.wait_state("b", False)
        self.assertEqual(balancer.fetch("/").status, 200)
        self.assertEqual(balancer.fetch("/lb/health").status, 503)

    def test_without_panic_it_is_503(self):
        a = self.scripted()
        balancer = self.balancer(a, panic_fallback=False)
        a.health = (500, b"")
        balancer.wait_state("a", False)
        response = balancer.fetch("/")
        self.assertEqual(response.status, 503)
        self.assertTrue(response.header("retry-after"))

    def test_a_slow_backend_does_not_hold_up_the_checks_of_others(self):
        a, b = self.scripted(), self.scripted()
        balancer = self.balancer(a, b)
        a.on_probe = lambda connection, request: connection.server.stopped.wait(20)
        balancer.wait_state("a", False)
        seen = len(b.probes)
        wait_until(lambda: len(b.probes) >= seen + 10, 3, "b's checks to go on")
        with balancer.client() as client:
            self.assertEqual(client.request(G).status, 200)


if __name__ == "__main__":
    main()
