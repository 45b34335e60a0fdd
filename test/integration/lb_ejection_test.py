"""Outlier ejection (L12): who is ejected, who never is, and how one comes back (LB-14, LB-16)."""

import collections
import re
import threading

from lb_case import LbCase, main
from programs import program, run
from raw import G
from scripted import OK
from waiting import wait_until

POST = "POST / HTTP/1.1|Host: a|Content-Length: 3||abc"


def policies():
    """All that lb has, in its own words, that send five requests in a row to a backend that fails: `first` asks the last
    one only when all others are full, and those that go by peaks of latency turn away from a single failure. And no
    weighted turns, which are those of round_robin here."""
    code, out, _ = run([program("lb"), "--help-markdown"])
    assert code == 0
    row = next(line for line in out.splitlines() if line.startswith("| `policy`"))
    names = re.findall(r"[a-z_]+", row.replace("\\|", " ").split("|")[3])
    assert {"score", "least_conn", "round_robin"} <= set(names), row
    return [name for name in names if name not in ("first", "adaptive", "peak_ewma", "weighted_round_robin")]


def answering(status):
    def handler(connection, request):
        connection.body(request)
        connection.reply(status, b"E")
    return handler


def closing(connection, request):
    connection.body(request)
    connection.close()


def slowly(connection, request):
    """An answer after 20 ms."""
    connection.body(request)
    connection.server.stopped.wait(0.02)
    connection.send(OK)


class Load:
    """Closed-loop clients that go on until they are told to stop. `seen` tells outcomes from `mark()` on."""

    def __init__(self, balancer, clients, request=G):
        self.balancer, self.request = balancer, request
        self.marked, self.stopped = threading.Event(), threading.Event()
        self.seen = collections.Counter()
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self._run, daemon=True) for _ in range(clients)]
        for thread in self.threads:
            thread.start()

    def _run(self):
        while not self.stopped.is_set():
            with self.balancer.client() as client:
                while not self.stopped.is_set():
                    counts = self.marked.is_set()
                    response = client.request(self.request)
                    if counts:
                        with self.lock:
                            self.seen[response.status] += 1
                    if response.header("connection", "") == "close":
                        break

    def mark(self):
        self.marked.set()

    def total(self):
        with self.lock:
            return sum(self.seen.values())

    def stop(self):
        self.stopped.set()
        for thread in self.threads:
            thread.join(30)
            assert not thread.is_alive(), "a client hangs"
        return self.seen


class EjectionCase(LbCase):
    def load(self, balancer, clients, request=G):
        load = Load(balancer, clients, request)
        self.addCleanup(load.stopped.set)
        return load

    def ask(self, balancer, count, request=G):
        """Statuses of requests one after the other."""
        with balancer.client() as client:
            return [client.request(request).status for _ in range(count)]

    def ejected(self, balancer):
        return [state["id"] for state in balancer.status()["backends"] if state["ejection"]["ejected"]]

    def wait_ejected(self, balancer, name):
        wait_until(lambda: self.ejected(balancer) == [name], 10, f"the ejection of {name}")


class Stalling(EjectionCase):
    """A backend that takes requests and answers its checks, and nothing else."""

    def test_one_that_stops_answering_is_left_before_anything_times_out(self):
        stuck, passed = threading.Event(), threading.Event()
        self.addCleanup(passed.set)

        def answer(connection, request):
            connection.body(request)
            if stuck.is_set():
                passed.wait(60)
            connection.send(OK)

        def at_once(connection, request):
            connection.body(request)
            connection.send(OK)

        a, b, d = self.scripted(at_once, "a"), self.scripted(at_once, "b"), self.scripted(answer, "d")
        balancer = self.balancer(a, b, d, policy="round_robin", workers=2)
        caught = self.load(balancer, 8)
        wait_until(lambda: balancer.backend("d")["counters"]["responses"]["2xx"] >= 10, 20, "answers of d")
        stuck.set()
        wait_until(lambda: balancer.backend("d")["state"] == "stalled", 20, "the stall to be seen")
        self.assertTrue(balancer.backend("d")["healthy"])
        asked = balancer.backend("d")["counters"]["requests"]
        load = self.load(balancer, 4)
        load.mark()
        wait_until(lambda: load.total() >= 200, 30, "answers of the others")
        # A worker whose turn began before the stall may have given it one more.
        self.assertLessEqual(balancer.backend("d")["counters"]["requests"] - asked, 2)
        stuck.clear()
        passed.set()
        wait_until(lambda: balancer.backend("d")["state"] == "ready", 20, "its return")
        caught.stop()
        self.assertEqual(set(load.stop()), {200})
        self.assertEqual((balancer.metrics()["ejections"]["total"], balancer.metrics()["requests"]["failed"]), (0, 0))


class FailingFast(EjectionCase):
    """LB-14: a server that fails at once is no magnet, whatever the policy."""

    def pool(self, handler, **options):
        """One balancer for each policy, all before the same A and B, which take their time, and D."""
        self.a, self.b, self.d = (self.scripted(one, name) for one, name in ((slowly, "a"), (slowly, "b"), (handler, "d")))
        return [self.balancer(self.a, self.b, self.d, name=f"lb-{policy}", policy=policy, **options) for policy in policies()]

    def check_ejected(self, balancers, request):
        loads = [self.load(balancer, 8, request) for balancer in balancers]
        for balancer, load in zip(balancers, loads):
            self.wait_ejected(balancer, "d")
            load.mark()
        for balancer, load in zip(balancers, loads):
            wait_until(lambda: load.total() >= 120, 30, f"requests through {balancer.name}")
        for balancer, load in zip(balancers, loads):
            seen = load.stop()
            self.assertGreaterEqual(seen[200], 0.99 * sum(seen.values()), f"{balancer.name}: {seen}")
            ejections = balancer.metrics()["ejections"]
            self.assertEqual((ejections["total"] >= 1, ejections["refused"]), (True, 0), ejections)
            self.assertIn("ejected", balancer.backend("d")["last_error"]["text"])

    def test_lb_14_500_at_once(self):
        self.check_ejected(self.pool(answering(500), workers=2), G)

    def test_lb_14_503_at_once(self):
        self.check_ejected(self.pool(answering(503)), G)

    def test_lb_14_closes_without_a_byte(self):
        self.check_ejected(self.pool(closing), POST)

    def test_lb_14_404_is_the_clients_fault(self):
        """However many: D stays, and goes on getting its share."""
        balancers = self.pool(answering(404))
        clients = [balancer for balancer in balancers for _ in range(6)]
        statuses = collections.Counter()
        for part in self.together(*[lambda balancer=balancer: self.ask(balancer, 12) for balancer in clients]):
            statuses.update(part)
        self.assertGreater(statuses[404], 12 * len(balancers))
        for balancer in balancers:
            ejections = balancer.metrics()["ejections"]
            self.assertEqual((ejections["total"], ejections["now"]), (0, 0), balancer.name)
            self.assertEqual(balancer.backend("d")["state"], "ready")
            self.assertGreater(balancer.backend("d")["counters"]["responses"]["4xx"], 12, balancer.name)

    def test_lb_14_tried_again_with_a_handful_of_requests(self):
        """Each time that its ejection ends; when it is well again it gets its share, and the count of its ejections falls."""
        balancers = self.pool(answering(500), ejection_time="100ms")
        loads = [self.load(balancer, 6) for balancer in balancers]

        def tally(balancer):
            """Requests that D has been given, its ejections, the count that its next one grows by: at one moment."""
            d = balancer.metrics()["backends"][2]
            return d["requests"], d["ejection"]["total"], d["ejection"]["times"]

        for balancer in balancers:
            given, ejections, _ = wait_until(lambda: (lambda t: t if t[1] else None)(tally(balancer)), 10, "an ejection")
            given_then, ejections_then, times = wait_until(
                lambda: (lambda t: t if t[1] >= ejections + 2 else None)(tally(balancer)), 10, "two more")
            # Each probation lets three through; what was picked in the instant of the ejection may come on top.
            self.assertLessEqual(given_then - given, 3 * (ejections_then - ejections + 1) + 6, balancer.name)
            self.assertIn(ejections_then - times, (0, 1), balancer.name)  # read one after the other
            self.assertGreaterEqual(balancer.metrics()["ejections"]["reasons"]["probation"], 2)
        self.d.handler = slowly
        for balancer, load in zip(balancers, loads):
            wait_until(lambda: balancer.backend("d")["state"] == "ready", 20, "d's return")
            load.mark()
            wait_until(lambda: balancer.backend("d")["ejection"]["times"] == 0, 20, "the count to fall")
            wait_until(lambda: load.total() >= 20, 10, "requests")
            self.assertEqual(set(load.stop()), {200})


class Bounds(EjectionCase):
    """LB-16"""

    def test_lb_16_a_all_fail(self):
        """Three that all answer 500: two at least stay, and in the end nobody is ejected."""
        backends = [self.scripted(answering(500), name) for name in "abd"]
        for policy in policies():
            balancer = self.balancer(*backends, name=f"lb-{policy}", policy=policy)
            load = self.load(balancer, 6)
            load.mark()
            most = 0

            def all_have_failed_and_stay():
                nonlocal most
                most = max(most, len(self.ejected(balancer)))
                states = balancer.status()["backends"]
                return all(state["ejection"]["failures_in_row"] > 20 for state in states)

            wait_until(all_have_failed_and_stay, 20, "failures of all")
            self.assertEqual(self.ejected(balancer), [], policy)
            self.assertEqual(set(load.stop()), {500})
            self.assertLessEqual(most, 1, policy)

    def test_lb_16_b_one_alone(self):
        """Alternately 500 and OK, then 500 only: there is nobody to eject it for."""
        turn = iter(range(10**6))
        a = self.scripted(lambda connection, request: connection.reply(500 if next(turn) % 2 else 200), "a")
        balancer = self.balancer(a)
        self.assertEqual(collections.Counter(self.ask(balancer, 40)), {200: 20, 500: 20})
        a.handler = answering(500)
        self.assertEqual(set(self.ask(balancer, 20)), {500})
        ejections = balancer.metrics()["ejections"]
        self.assertEqual((ejections["total"], ejections["refused"], ejections["now"]), (0, 0, 0))

    def test_lb_16_c_panic_overlooks_ejection(self):
        """All fail their checks and still answer: all get requests, the one that was ejected too."""
        a, b, d = (self.scripted(name=name) for name in "abd")
        balancer = self.balancer(a, b, d, policy="round_robin")
        a.handler = answering(500)
        self.ask(balancer, 20)
        self.wait_ejected(balancer, "a")
        a.behave()
        for backend in (a, b, d):
            backend.health = (500, b"")
        wait_until(lambda: balancer.metrics()["panic"], 10, "panic")
        self.assertIn(b"\ndlb_panic 1\n", balancer.fetch("/lb/metrics?format=prometheus").body)
        before = [backend.deliveries() for backend in (a, b, d)]
        self.assertEqual(set(self.ask(balancer, 30)), {200})
        gained = [backend.deliveries() - was for backend, was in zip((a, b, d), before)]
        self.assertEqual(gained, [10, 10, 10])
        for backend in (a, b, d):
            backend.health = (200, b"{}")
        wait_until(lambda: not balancer.metrics()["panic"], 10, "panic to end")

    def test_lb_16_d_a_check_ends_an_ejection_only_by_configuration(self):
        a, b, d = (self.scripted(name=name) for name in "abd")
        kept = self.balancer(a, b, d, name="kept", policy="round_robin", ejection_time="1m")
        ended = self.balancer(a, b, d, name="ended", policy="round_robin", ejection_time="1m", check_ends_ejection=True)
        a.handler = answering(500)
        self.ask(kept, 20)
        self.wait_ejected(kept, "a")
        self.ask(ended, 20)
        wait_until(lambda: ended.backend("a")["state"] == "probation", 10, "the end of the ejection")
        self.assertGreaterEqual(ended.metrics()["ejections"]["ended_early"], 1)
        probes = kept.backend("a")["counters"]["probes"]["total"]
        wait_until(lambda: kept.backend("a")["counters"]["probes"]["total"] >= probes + 4, 10, "more checks")
        self.assertEqual(self.ejected(kept), ["a"])
        self.assertEqual((kept.backend("a")["healthy"], kept.metrics()["ejections"]["ended_early"]), (True, 0))
        a.behave()
        self.assertEqual(set(self.ask(ended, 30)), {200})
        wait_until(lambda: ended.backend("a")["state"] == "ready", 10, "the end of the probation")

    def test_who_was_down_and_is_up_again_comes_back_at_once(self):
        """Another process, most likely: a kill under load ejects it, its start ends that."""
        a, b = (self.scripted(name=name) for name in "ab")
        balancer = self.balancer(a, b, policy="round_robin", ejection_time="1m")
        a.handler = answering(500)
        self.ask(balancer, 12)
        self.wait_ejected(balancer, "a")
        a.refuse(cut=True)
        balancer.wait_state("a", False)
        a.behave()
        wait_until(lambda: balancer.backend("a")["state"] == "probation", 10, "its return")
        self.assertEqual(set(self.ask(balancer, 20)), {200})
        self.assertEqual(balancer.backend("a")["state"], "ready")

    def test_lb_16_e_a_drained_one_gets_nothing(self):
        """However the others fail: their answers, their checks, both."""
        a, b, d = (self.scripted(name=name) for name in "abd")
        balancer = self.balancer(a, b, d, policy="round_robin")
        d.health = (503, b'{"status":"draining"}')
        wait_until(lambda: balancer.backend("d")["state"] == "draining", 10, "the drain")
        before = d.deliveries()
        a.handler = b.handler = answering(500)
        self.assertEqual(set(self.ask(balancer, 30)), {500})
        self.assertEqual(self.ejected(balancer), [], "both fail")
        a.health = b.health = (500, b"")
        wait_until(lambda: balancer.metrics()["panic"], 10, "panic")
        self.assertEqual(set(self.ask(balancer, 10)), {500})
        self.assertEqual(d.deliveries(), before)
        d.health = a.health = b.health = (200, b"{}")

    def test_no_more_than_the_bound(self):
        """Two of three fail: one is ejected, the other is refused, and the third bears what it can."""
        a, b, d = (self.scripted(name=name) for name in "abd")
        balancer = self.balancer(a, b, d, policy="round_robin")
        a.handler = b.handler = answering(500)
        self.ask(balancer, 40)
        ejections = wait_until(lambda: (lambda e: e if e["refused"] else None)(balancer.metrics()["ejections"]), 10, "a refusal")
        self.assertEqual((ejections["total"], ejections["now"], ejections["refused"]), (1, 1, 1))

    def test_0_percent_is_off(self):
        a, b = self.scripted(answering(500), "a"), self.scripted(name="b")
        balancer = self.balancer(a, b, policy="round_robin", max_ejected_percent=0)
        self.assertEqual(collections.Counter(self.ask(balancer, 40)), {200: 20, 500: 20})
        self.assertEqual(balancer.metrics()["ejections"]["total"], 0)


class WhatCounts(EjectionCase):
    def test_a_share_of_failures_out_of_line(self):
        """Three of four fail, never five in a row."""
        turn = iter(range(10**6))
        a = self.scripted(lambda connection, request: connection.reply(200 if next(turn) % 4 == 0 else 500), "a")
        b, d = self.scripted(name="b"), self.scripted(name="d")
        balancer = self.balancer(a, b, d, policy="round_robin")
        load = self.load(balancer, 1)
        ejections = wait_until(lambda: (lambda e: e if e["total"] else None)(balancer.metrics()["ejections"]), 15, "the ejection")
        self.assertEqual((ejections["reasons"]["share"], ejections["total"]), (1, 1))
        self.assertEqual(self.ejected(balancer), ["a"])
        load.stop()

    def test_timeouts_and_broken_bodies_count(self):
        def silent(connection, request):
            connection.body(request)
            connection.wait_for_end()

        def breaking(connection, request):
            connection.body(request)
            connection.send("HTTP/1.1 200 OK|Content-Length: 100||hello")
            connection.close()

        def nonsense(connection, request):
            connection.body(request)
            connection.send("nonsense||")
            connection.close()

        for handler in (silent, breaking, nonsense):
            with self.subTest(handler.__name__):
                a, b = self.scripted(handler, "a"), self.scripted(name="b")
                balancer = self.balancer(a, b, name=f"lb-{handler.__name__}", policy="round_robin", backend_timeout="100ms")
                for _ in range(10):
                    with balancer.client() as client:
                        client.request(G)
                self.assertEqual(self.ejected(balancer), ["a"])

    def test_lb_23_clients_that_leave_eject_nobody(self):
        a, b = (self.scripted(lambda connection, request: connection.wait_for_end(), name) for name in "ab")
        balancer = self.balancer(a, b)
        for _ in range(24):
            client = balancer.client()
            client.send(G)
            wait_until(lambda: a.active + b.active == 1, 10, "the request")
            client.reset()
            wait_until(lambda: a.active + b.active == 0, 10, "its end")
        self.assertEqual(balancer.metrics()["ejections"]["total"], 0)
        self.assertEqual([state["ejection"]["failures_in_row"] for state in balancer.status()["backends"]], [0, 0])

    def test_three_requests_at_a_time_on_probation(self):
        gate = threading.Event()
        self.addCleanup(gate.set)

        def held(connection, request):
            connection.body(request)
            gate.wait(30)
            connection.done()
            connection.send(OK)

        a, b = self.scripted(answering(500), "a"), self.scripted(name="b")
        balancer = self.balancer(a, b, policy="round_robin", ejection_time="100ms")
        self.ask(balancer, 10)
        wait_until(lambda: balancer.backend("a")["state"] == "probation", 10, "the end of its ejection")
        a.handler = b.handler = held
        clients = [balancer.client() for _ in range(20)]
        for client in clients:
            self.addCleanup(client.close)
            client.send(G)
        wait_until(lambda: a.active + b.active == 20, 10, "all requests")
        self.assertEqual((a.active, b.active), (3, 17))
        gate.set()
        for client in clients:
            self.assertEqual(client.read_response().status, 200)
        wait_until(lambda: self.ask(balancer, 2) and balancer.backend("a")["state"] == "ready", 10, "the end of its probation")


if __name__ == "__main__":
    main()
