"""Symptoms: a request that its backend had failed, and that waited for a slot of another one, was given to the first again
as soon as that had a slot. /lb/status said only that connects had failed, not why."""

import threading

from case import Case, main
from waiting import wait_until


class QueuedRetry(Case):
    def setUp(self):
        super().setUp()
        self.gate = threading.Event()
        self.addCleanup(self.gate.set)

    def good(self, connection, request):
        connection.body(request)
        if request.target == "/hold":
            self.gate.wait(20)
        connection.done()
        connection.send("HTTP/1.1 200 OK|Content-Length: 2||ok")

    def broken(self, connection, request):
        if request.target == "/x":
            connection.close()
        else:
            self.good(connection, request)

    def start(self, **options):
        """b's only slot is held, and a request that a has failed waits for it."""
        self.a, self.b = self.scripted(self.broken, "a"), self.scripted(self.good, "b")
        balancer = self.balancer(self.a, self.b, backend_cap=1, policy="round_robin", **options)
        self.clients = []
        while not self.b.active:
            self.send(balancer, "/hold" if self.a.requests or self.b.requests else "/first")
            if not self.b.active and len(self.clients) == 1:
                self.assertEqual(self.clients.pop().read_response().status, 200)
        self.assertEqual(self.a.active, 0)
        self.waiter = self.send(balancer, "/x")
        wait_until(lambda: balancer.metrics()["queue"]["waiting"] == 1, 5, "the retry to wait for b")
        return balancer

    def send(self, balancer, target):
        seen = self.a.deliveries() + self.b.deliveries()
        client = balancer.client()
        self.addCleanup(client.close)
        client.send(f"GET {target} HTTP/1.1|Host: a||")
        self.clients.append(client)
        wait_until(lambda: self.a.deliveries() + self.b.deliveries() > seen, 5, "the request at a backend")
        return client

    def test_it_waits_for_the_other_backend(self):
        balancer = self.start()
        with balancer.client() as client:  # takes and frees a's slot, which the waiter must not get
            for _ in range(3):
                self.assertEqual(client.request("GET /y HTTP/1.1|Host: a||").status, 200)
        self.assertEqual(balancer.metrics()["queue"]["waiting"], 1)
        self.gate.set()
        self.assertEqual(self.waiter.read_response().status, 200)
        self.assertEqual([request.target for request in self.a.requests].count("/x"), 1)
        balancer.wait_quiet()

    def test_it_goes_back_when_the_other_is_gone(self):
        balancer = self.start(health_interval="50ms")
        self.b.refuse()
        self.assertEqual(self.waiter.read_response().status, 502, "a fails it again")
        self.assertEqual([request.target for request in self.a.requests].count("/x"), 2)
        self.gate.set()
        balancer.wait_quiet()

    def test_the_reason_of_failed_connects_is_shown(self):
        a = self.scripted()
        balancer = self.balancer(a, health_interval="1m", failure_limit=1)
        a.refuse(cut=True)
        self.assertIn(balancer.fetch("/").status, (502, 503))
        error = balancer.backend("a")["last_error"]
        self.assertEqual(error["text"], f"connect 127.0.0.1:{a.port}: ECONNREFUSED (Connection refused)")


if __name__ == "__main__":
    main()
