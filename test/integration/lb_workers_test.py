"""Two workers on one listening socket: exact counts, one queue order a worker, nothing lost. Also the TSan run."""

import random
import signal
import threading

from case import Case, main
from ports import free_port
from raw import G, RawClient, wire
from scripted import OK
from waiting import TIME_FACTOR, pause, wait_until


class Workers(Case):
    def echo(self, name):
        def handler(connection, request):
            body = connection.body(request)
            if request.target.startswith("/slow"):
                pause(0.02)
            connection.reply(200, request.target.encode() + body)

        return self.scripted(handler, name)

    def load(self, balancer, clients, requests):
        def client(number):
            def work():
                chance = random.Random(number)
                with balancer.client(timeout=30) as connection:
                    for index in range(requests):
                        body = bytes([number % 256]) * chance.choice((0, 3, 5000, 40000))
                        target = f"/{chance.choice(('fast', 'slow', 'feed'))}/{number}.{index}"
                        target = "/feed" if target.startswith("/feed") else target
                        connection.send(wire(f"POST {target} HTTP/1.1|Host: a|Content-Length: {len(body)}||") + body)
                        got = connection.read_response()
                        self.assertEqual((got.status, got.body), (200, target.encode() + body))
            return work

        self.together(*[client(number) for number in range(clients)])

    def test_load(self):
        for policy in ("score", "least_conn", "round_robin"):
            with self.subTest(policy):
                backends = [self.echo(f"{policy[0]}{index}") for index in range(3)]
                balancer = self.balancer(*backends, name=f"lb-{policy}", workers=2, policy=policy)
                self.load(balancer, 16, 15)
                balancer.wait_quiet()
                metrics = balancer.metrics()
                self.assertEqual((metrics["requests"]["total"], metrics["requests"]["success"]), (240, 240))
                self.assertTrue(all(backend.deliveries() > 40 for backend in backends))

    def test_the_cap_is_exact_across_workers(self):
        """No more than the cap at any instant, and no one waits while a slot is free: all are served."""
        def handler(connection, request):
            pause(0.01)
            connection.done()
            connection.send(OK)

        a, b = self.scripted(handler), self.scripted(handler)
        balancer = self.balancer(a, b, workers=2, backend_cap=2, backend_queue_timeout="20s")

        def client():
            with balancer.client(timeout=30) as connection:
                for _ in range(10):
                    self.assertEqual(connection.request(G).status, 200)

        self.together(*[client] * 24)
        self.assertLessEqual(max(a.peak, b.peak), 2)
        self.assertEqual(a.deliveries() + b.deliveries(), 240)
        balancer.wait_quiet()
        self.assertEqual(balancer.metrics()["queue"]["waiting"], 0)

    def test_failures_health_and_leaving_clients(self):
        a, b = self.echo("a"), self.echo("b")
        balancer = self.balancer(a, b, workers=2, policy="round_robin")
        stop = threading.Event()

        def flapping():
            for _ in range(5):
                b.refuse(cut=True)
                balancer.wait_state("b", False)
                b.accept_again()
                balancer.wait_state("b", True)
            stop.set()

        def client():
            while not stop.is_set():
                with balancer.client(timeout=30) as connection:
                    for _ in range(20):
                        self.assertIn(connection.request(G).status, (200, 502))

        def leaver():
            chance = random.Random(7)
            while not stop.is_set():
                connection = RawClient(balancer.port)
                connection.send(wire("GET /slow HTTP/1.1|Host: a||"))
                pause(chance.random() * 0.03)
                connection.reset()

        def reader():
            while not stop.is_set():
                balancer.status()
                balancer.metrics()
                balancer.fetch("/lb/metrics?format=prometheus")

        self.together(flapping, client, client, client, leaver, leaver, reader)
        balancer.wait_quiet()
        self.assertTrue(balancer.backend("a")["healthy"])

    def test_tunnels(self):
        """Upgrades and layer 4 on two workers: they share pools, gauges and the clients' places."""
        def handler(connection, request):
            connection.send("HTTP/1.1 101 Switching|Upgrade: echo||")
            connection.done()
            while connection.fill():
                connection.send(connection.buffer)
                connection.buffer = b""

        backend = self.scripted(handler)
        server = self.scripted(handler)
        port = free_port()
        extra = f'[[tcp]]\nlisten = "127.0.0.1:{port}"\npolicy = "least_conn"\nbackends = {["127.0.0.1:%d" % server.port]}\n'
        balancer = self.balancer(backend, workers=2, extra=extra)
        wait_until(lambda: balancer.status()["tunnel_pools"][0]["backends"][0]["usable"], 5, "the check")

        def client(number):
            chance = random.Random(number)
            for turn in range(6):
                with RawClient((balancer.port, port)[(number + turn) % 2]) as connection:
                    connection.send("GET / HTTP/1.1|Host: a|Connection: upgrade|Upgrade: echo||")
                    self.assertEqual(connection.read_response().status, 101)
                    for _ in range(4):
                        data = chance.randbytes(chance.choice((10, 30000)))
                        connection.send(data)
                        self.assertEqual(connection.read_exactly(len(data)), data)
                    if chance.random() < 0.5:
                        connection.reset()

        self.together(*[lambda number=number: client(number) for number in range(12)])
        wait_until(lambda: balancer.metrics()["connections"]["client"]["tunnel"] == 0, 5, "the tunnels to end")
        metrics = balancer.metrics()
        self.assertEqual(metrics["tunnels"]["opened"], {"upgrade": 36, "tcp": 36, "wss": 0})
        self.assertEqual(sum(metrics["tunnels"]["active"].values()) + metrics["tunnel_pools"][0]["connections"], 0)
        self.assertEqual(metrics["backends"][0]["connections"]["tunnels"], 0)

    def test_drain(self):
        def handler(connection, request):
            pause(0.3)
            connection.send(OK)

        a = self.scripted(handler)
        balancer = self.balancer(a, workers=2, drain_notice="100ms", drain_timeout=f"{int(3 * TIME_FACTOR)}s")
        clients = [balancer.client(timeout=30) for _ in range(12)]
        for client in clients:
            self.addCleanup(client.close)
            client.send(G)
        wait_until(lambda: a.active == 12, 5, "the requests")
        balancer.signal(signal.SIGTERM)
        for client in clients:
            self.assertEqual(client.read_response().status, 200)
        self.assertEqual(balancer.wait(20), 0)


if __name__ == "__main__":
    main()
