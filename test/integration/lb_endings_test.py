"""Exact counts (L28, LB-23): after storms of every kind of ending all gauges are 0, no backend is blamed for a client's
leaving, and the access log has one line a request with the code of its ending."""

import random
import re
import signal
import threading

from endings import LoggedCase, Plain, fill, listener_to_fill
from lb_case import main
from raw import G, Incomplete, RawClient, wire
from scripted import OK
from waiting import pause, wait_until

END = re.compile(r'" (\d+|-) .* retries=\d .* end=(..)$')


class Storms(LoggedCase):
    def codes(self, count):
        """How often each code ended one of `count` requests."""
        found = {}
        for line in self.lines(count):
            code = END.search(line).group(2)
            found[code] = found.get(code, 0) + 1
        return found

    def storm(self, balancer, data, count=120, threads=8, longest=0.03, wait=None):
        """Clients that send and leave with a RST after a random time."""
        def leave(seed):
            chance = random.Random(seed)

            def work():
                for _ in range(count // threads):
                    client = RawClient(balancer.port)
                    client.send(data)
                    if wait is not None:
                        wait(client)
                    pause(chance.random() * longest)
                    client.reset()
            return work

        self.together(*[leave(seed) for seed in range(threads)])

    def assert_quiet(self, balancer, backend=None):
        wait_until(lambda: not self.still_taken(balancer), 1, "all gauges to be 0")
        if backend is not None:
            state = balancer.backend(backend.name)
            self.assertTrue(state["healthy"])
            self.assertEqual(set(state["counters"]["failures"].values()), {0}, "the client's leaving is not the backend's fault")

    def test_lb_23_awaiting_a_head(self):
        a = self.scripted(lambda connection, request: connection.wait_for_end())
        balancer = self.logged_balancer(a, workers=2)
        self.storm(balancer, G)
        self.assert_quiet(balancer, a)
        # Whoever left before its request was read never had one.
        total = balancer.metrics()["requests"]["total"]
        codes = self.codes(total)
        self.assertLessEqual(set(codes), {"CH", "CC"})
        self.assertGreater(total, 100)

    def test_lb_23_in_the_queue(self):
        a = self.scripted(lambda connection, request: connection.wait_for_end())
        balancer = self.logged_balancer(a, backend_cap=1, workers=2)
        holder = balancer.client()
        self.addCleanup(holder.close)
        holder.send(G)
        wait_until(lambda: a.active == 1, 5, "the slot to be taken")
        self.storm(balancer, G)
        wait_until(lambda: balancer.metrics()["queue"]["waiting"] == 0, 1, "the queue to be empty")
        self.assertEqual(balancer.in_flight(), 1)
        total = balancer.metrics()["requests"]["total"]
        self.assertEqual(self.codes(total - 1), {"CQ": total - 1})
        holder.reset()
        self.assertEqual(self.codes(1), {"CH": 1})
        self.assert_quiet(balancer, a)

    def test_lb_23_while_connecting(self):
        _, port = listener_to_fill(self)
        balancer = self.logged_balancer(Plain("full", port), connect_timeout="10s", health_method="TCP", stats_path="",
                                        health_interval="1m", failure_limit=1000)
        fill(self, port)
        self.storm(balancer, G)
        self.assert_quiet(balancer)
        total = balancer.metrics()["requests"]["total"]
        self.assertEqual(self.codes(total), {"CC": total})
        self.assertEqual(balancer.backend("full")["counters"]["failures"]["connect"], 0)

    def test_lb_23_in_mid_body(self):
        def handler(connection, request):
            if request.method == "POST":
                connection.body(request)
            connection.send("HTTP/1.1 200 OK|Content-Length: 100000000||")
            while True:
                connection.send(b"x" * 65536)

        a = self.scripted(handler)
        balancer = self.logged_balancer(a, workers=2)
        self.storm(balancer, wire("POST /up HTTP/1.1|Host: a|Content-Length: 1000000||") + b"x" * 30000, count=60, threads=6)
        self.assert_quiet(balancer, a)
        up = balancer.metrics()["requests"]["total"]
        self.assertLessEqual(set(self.codes(up)), {"CR", "CC"})
        self.storm(balancer, G, count=60, threads=6, wait=lambda client: client.read_head())
        self.assert_quiet(balancer, a)
        self.assertEqual(self.codes(60), {"CD": 60})
        a.errors.clear()

    def test_lb_23_during_a_retry(self):
        """A breaks everything at once: some wait for the budget, some for B's slots, when their clients leave."""
        a = self.scripted(lambda connection, request: connection.close(), "a")
        b = self.scripted(lambda connection, request: connection.wait_for_end(), "b")
        balancer = self.logged_balancer(a, b, policy="round_robin", backend_cap=4, failure_limit=1000, max_ejected_percent=0)
        patient = [balancer.client() for _ in range(4)]  # they have B's slots, so that the others wait
        for client in patient:
            client.send(G)
        wait_until(lambda: balancer.backend("b")["in_flight"] == 4, 5, "b's slots to be taken")
        self.storm(balancer, G, count=120, threads=12)
        for client in patient:
            client.reset()
        self.assert_quiet(balancer, b)
        total = balancer.metrics()["requests"]["total"]
        codes = self.codes(total)
        self.assertLessEqual(set(codes), {"CQ", "CH", "CC", "SH"})
        self.assertGreater(codes.get("CQ", 0), 0)
        self.assertEqual(balancer.metrics()["routing"]["retries"], sum("retries=1" in line for line in self.all_lines()))

    def test_lb_23_failing_backends(self):
        """Everything at once, at random: whatever happens, one line each, and nothing stays taken."""
        chance = random.Random(7)

        def handler(connection, request):
            kind = chance.randrange(8)
            if kind == 0:
                return connection.close()
            if kind == 1:
                return connection.reset()
            if kind == 2:
                connection.send(b"HTTP/1.1 2")
                return connection.close()
            if kind == 3:
                connection.send("HTTP/1.1 200 OK|Content-Length: 100||part")
                return connection.close()
            if kind == 4:
                return connection.wait_for_end()
            connection.body(request)
            connection.done()
            connection.send(OK)

        a, b = self.scripted(handler, "a"), self.scripted(handler, "b")
        balancer = self.logged_balancer(a, b, backend_cap=3, backend_timeout="60ms", backend_queue_timeout="200ms", workers=2,
                                        failure_limit=1000)
        tally, lock = {}, threading.Lock()

        def client(seed):
            mine = random.Random(seed)

            def work():
                for _ in range(15):
                    with RawClient(balancer.port) as connection:
                        method = mine.choice(("GET", "POST", "PUT"))
                        connection.send(f"{method} / HTTP/1.1|Host: a|Content-Length: 3||abc")
                        if mine.random() < 0.2:
                            pause(mine.random() * 0.03)
                            connection.reset()
                            continue
                        try:
                            response = connection.read_response()
                            end = (response.status, response.complete)
                        except Incomplete:
                            end = "nothing"
                        with lock:
                            tally[end] = tally.get(end, 0) + 1
            return work

        self.together(*[client(seed) for seed in range(16)])
        self.assertLessEqual(set(tally), {(200, True), (200, False), (502, True), (503, True), (504, True)})
        self.assert_quiet(balancer)
        requests = balancer.metrics()["requests"]
        self.assertEqual(requests["total"], requests["success"] + requests["failed"] + requests["client_gone"])
        codes = self.codes(requests["total"])
        self.assertEqual(codes.get("--", 0), requests["success"])
        # What the clients saw is what is logged.
        lines = [END.search(line).groups() for line in self.all_lines()]
        for status, code in ((502, ("SH", "SC")), (504, ("sH",)), (503, ("LQ",))):
            self.assertGreaterEqual(sum(line[1] in code for line in lines), tally.get((status, True), 0), status)
        self.assertGreaterEqual(codes.get("SD", 0), tally.get((200, False), 0))
        for backend in (a, b):
            backend.errors.clear()

    def test_lb_23_the_end_of_a_drain(self):
        """Those that run at the end of drain-timeout are refused while no answer of theirs has begun, else cut; and say so."""
        def handler(connection, request):
            if request.target == "/half":
                connection.send("HTTP/1.1 200 OK|Content-Length: 10||part")
            connection.wait_for_end()

        a = self.scripted(handler)
        _, port = listener_to_fill(self)
        balancer = self.logged_balancer(a, Plain("full", port), policy="first", backend_cap=6, connect_timeout="1m",
                                        health_method="TCP", stats_path="", health_interval="1m", failure_limit=1000,
                                        drain_timeout="100ms")
        fill(self, port)

        def send(data):
            client = balancer.client()
            self.addCleanup(client.close)
            client.send(data)
            return client

        half = send("GET /half HTTP/1.1|Host: a||")
        self.assertEqual((half.read_head().status, half.read_exactly(4)), (200, b"part"))
        ends = {"LR": [send("PUT / HTTP/1.1|Host: a|Content-Length: 10||abc")]}
        for code, count, there in (("LH", 4, lambda: a.active == 6),
                                   ("LC", 6, lambda: balancer.metrics()["connections"]["upstream"]["connecting"] == 6),
                                   ("LQ", 3, lambda: balancer.metrics()["queue"]["waiting"] == 3)):
            ends[code] = [send(G) for _ in range(count)]
            wait_until(there, 5, f"those that end with {code}")
        balancer.signal(signal.SIGTERM)
        for code, clients in ends.items():
            for client in clients:
                response = client.read_response()
                self.assertEqual((response.status, response.header("connection")), (504 if code == "LH" else 503, "close"), code)
                self.assertEqual(response.header("retry-after"), None if code == "LH" else "1")
                self.assertEqual(client.read_to_end(), b"")
                self.assertFalse(client.was_reset)
                client.close()
        self.assertEqual(half.read_to_end(), b"")
        self.assertEqual(balancer.wait(), 0)
        logged = sorted(END.search(line).groups() for line in self.all_lines())
        self.assertEqual(logged, sorted([("200", "LD")] + [("504" if code == "LH" else "503", code)
                                                           for code, clients in ends.items() for _ in clients]))


if __name__ == "__main__":
    main()
